//! A gRPC connection, through the generated client: what is measured is the server, not our client library.
use crate::result::Result;
use crate::sink::Sink;
use crate::threads;
use pausewatch::proto::v1;
use std::ops::Range;
use tonic::transport::{Channel, Endpoint};
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;

#[derive(Clone)]
pub(crate) struct Link(ElicitationServiceClient<Channel>);

impl Link {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
        Ok(Link(ElicitationServiceClient::new(channel)))
    }

    pub(crate) async fn call(&mut self, thread: &str, up: bool) -> Result<u64> {
        let thread_id = thread.to_owned();
        let count = if up {
            let request = v1::IncrementElicitationRequest { thread_id, ..Default::default() };
            self.0.increment_elicitation(request).await?.into_inner().count
        } else {
            let request = v1::DecrementElicitationRequest { thread_id, ..Default::default() };
            self.0.decrement_elicitation(request).await?.into_inner().count
        };
        Ok(count.into())
    }

    pub(crate) async fn watch(&self, threads: Range<usize>, sink: Sink) -> Result<()> {
        let request =
            v1::WatchPauseStateRequest { thread_ids: threads.map(threads::id).collect(), include_elicitations: false };
        let mut stream = self.0.clone().watch_pause_state(request).await?.into_inner();
        loop {
            match stream.message().await?.ok_or("the watch ended in its snapshot")?.event {
                Some(Event::SnapshotComplete(_)) => break,
                _ => continue,
            }
        }
        tokio::spawn(async move {
            // A stream that breaks is noticed by who waits for its deliveries.
            while let Ok(Some(message)) = stream.message().await {
                if let Some(Event::PauseState(state)) = message.event
                    && let Some(number) = threads::number(state.thread_id.as_bytes())
                {
                    sink(number, state.paused);
                }
            }
        });
        Ok(())
    }
}
