//! A gRPC connection with the generated client, so that the server is measured and not our client library.
use crate::result::Result;
use crate::sink::Sink;
use crate::threads;
use pausewatch::proto::v1;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;

/// The number of threads that one request of `Watch` adds.
const ADDED_AT_ONCE: usize = 500;

/// The name in the certificate of a server with TLS.
pub(crate) const CERTIFIED_NAME: &str = "localhost";

#[derive(Clone)]
pub(crate) struct Link {
    stub: ElicitationServiceClient<Channel>,
    by_change: bool,
}

impl Link {
    /// `ca`: over TLS, with an authority's certificate in PEM.
    pub(crate) async fn connect(address: &str, by_change: bool, ca: Option<&str>) -> Result<Self> {
        Self::connect_from(None, address, by_change, ca).await
    }

    /// `client`: the local address, if it matters.
    pub(crate) async fn connect_from(
        client: Option<IpAddr>,
        address: &str,
        by_change: bool,
        ca: Option<&str>,
    ) -> Result<Self> {
        let endpoint = match ca {
            None => Endpoint::from_shared(format!("http://{address}"))?,
            Some(ca) => {
                let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).domain_name(CERTIFIED_NAME);
                Endpoint::from_shared(format!("https://{address}"))?.tls_config(tls)?
            }
        };
        let endpoint = endpoint.local_address(client);
        Ok(Link { stub: ElicitationServiceClient::new(endpoint.connect().await?), by_change })
    }

    pub(crate) async fn call(&mut self, thread: &str, up: bool) -> Result<u64> {
        let thread_id = thread.to_owned();
        let count = if up {
            let request = v1::IncrementElicitationRequest { thread_id, ..Default::default() };
            self.stub.increment_elicitation(request).await?.into_inner().count
        } else {
            let request = v1::DecrementElicitationRequest { thread_id, ..Default::default() };
            self.stub.decrement_elicitation(request).await?.into_inner().count
        };
        Ok(count.into())
    }

    /// The revision of a thread.
    pub(crate) async fn get(&mut self, thread: &str) -> Result<u64> {
        Ok(self.state(thread).await?.revision)
    }

    /// The total paused time of a thread.
    pub(crate) async fn paused_total(&mut self, thread: &str) -> Result<Duration> {
        Ok(self.state(thread).await?.paused_total.unwrap_or_default().try_into()?)
    }

    async fn state(&mut self, thread: &str) -> Result<v1::PauseState> {
        let request = v1::GetPauseStateRequest { thread_id: thread.to_owned() };
        let state = self.stub.get_pause_state(request).await?.into_inner().pause_state;
        Ok(state.ok_or("no state")?)
    }

    pub(crate) async fn watch(&self, threads: Range<usize>, sink: Sink) -> Result<()> {
        let request =
            v1::WatchPauseStateRequest { thread_ids: threads.map(threads::id).collect(), ..Default::default() };
        if self.by_change {
            return self.watch_by_change(&request.thread_ids, sink).await;
        }
        let mut stream = self.stub.clone().watch_pause_state(request).await?.into_inner();
        loop {
            match stream.message().await?.ok_or("the watch ended in its snapshot")?.event {
                Some(Event::SnapshotComplete(_)) => break,
                _ => continue,
            }
        }
        tokio::spawn(async move {
            // If a stream breaks, the task that waits for its deliveries notices.
            while let Ok(Some(message)) = stream.message().await {
                if let Some(Event::PauseState(state)) = message.event {
                    deliver(&state, &sink);
                }
            }
        });
        Ok(())
    }

    async fn watch_by_change(&self, thread_ids: &[String], sink: Sink) -> Result<()> {
        let mut stream = Changing::open(&self.stub).await?;
        for some in thread_ids.chunks(ADDED_AT_ONCE) {
            stream.add(some.to_vec()).await?;
        }
        tokio::spawn(async move {
            while let Ok(Some(message)) = stream.responses.message().await {
                if let Some(v1::watch_response::Event::PauseState(state)) = message.event {
                    deliver(&state, &sink);
                }
            }
        });
        Ok(())
    }

    /// Opens a stream whose threads can change.
    pub(crate) async fn changing(&self) -> Result<Changing> {
        Changing::open(&self.stub).await
    }
}

fn deliver(state: &v1::PauseState, sink: &Sink) {
    if let Some(number) = threads::number(state.thread_id.as_bytes()) {
        sink(number, state.paused);
    }
}

/// One stream of `Watch`.
pub(crate) struct Changing {
    requests: mpsc::Sender<v1::WatchRequest>,
    responses: Streaming<v1::WatchResponse>,
}

impl Changing {
    async fn open(stub: &ElicitationServiceClient<Channel>) -> Result<Self> {
        let (requests, messages) = mpsc::channel(1);
        let responses = stub.clone().watch(ReceiverStream::new(messages)).await?.into_inner();
        Ok(Changing { requests, responses })
    }

    /// Adds threads, and waits for the answer.
    pub(crate) async fn add(&mut self, add: Vec<String>) -> Result<()> {
        self.requests.send(v1::WatchRequest { add, ..Default::default() }).await?;
        loop {
            let message = self.responses.message().await?.ok_or("the watch ended before its answer")?;
            match message.event {
                Some(v1::watch_response::Event::SnapshotComplete(_)) => return Ok(()),
                Some(v1::watch_response::Event::Refusal(refusal)) => return Err(refusal.message.into()),
                _ => continue,
            }
        }
    }
}
