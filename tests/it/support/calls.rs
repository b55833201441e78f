//! Calls with the generated client, one line each.
use super::{PATIENCE, children};
use pausewatch::proto::v1;
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tonic_types::StatusExt;
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;

/// The generated client, with a short method for each call.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) ElicitationServiceClient<Channel>);

/// Connects with the smallest usual windows: the server can send at most 64 KiB before they are read.
pub(crate) async fn narrow(address: &str) -> Api {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    Api(ElicitationServiceClient::new(endpoint.connect().await.expect("the server takes connections")))
}

/// Connects to `HOST:PORT` or `unix:PATH`.
pub(crate) async fn api(address: &str) -> Api {
    Api(ElicitationServiceClient::new(channel(address).await))
}

/// Connects to `HOST:PORT` or `unix:PATH`, for calls that [`Api`] lacks.
pub(crate) async fn channel(address: &str) -> Channel {
    let connected = match address.strip_prefix("unix:") {
        None => Endpoint::from_shared(format!("http://{address}")).expect("an address").connect().await,
        Some(path) => {
            let path = path.to_owned();
            let connector = tower::service_fn(move |_| {
                let path = path.clone();
                async move { tokio::net::UnixStream::connect(path).await.map(hyper_util::rt::TokioIo::new) }
            });
            Endpoint::from_static("http://localhost").connect_with_connector(connector).await
        }
    };
    connected.expect("the server takes connections")
}

/// Fails the test when it takes too long.
pub(crate) async fn timed<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = |_| panic!("{what}: waited for {PATIENCE:?}; children:{}", children());
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(waited)
}

/// The reason and metadata of an error.
pub(crate) fn detail(status: &Status) -> (String, HashMap<String, String>) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("an error without ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "pausewatch");
    (info.reason.clone(), info.metadata.clone())
}

/// The next event of a watch.
pub(crate) async fn event(stream: &mut Streaming<v1::WatchPauseStateResponse>) -> Event {
    let message = timed("an event", stream.message()).await.expect("the watch goes on").expect("the watch goes on");
    message.event.expect("every message has an event")
}

/// The states up to the end of the snapshot.
pub(crate) async fn states(stream: &mut Streaming<v1::WatchPauseStateResponse>) -> Vec<v1::PauseState> {
    let mut states = Vec::new();
    loop {
        match event(stream).await {
            Event::PauseState(state) => states.push(state),
            Event::SnapshotComplete(_) => return states,
            Event::Heartbeat(_) => {}
        }
    }
}

impl Api {
    pub(crate) async fn increment(&mut self, thread: &str, ttl: Option<Duration>) -> v1::IncrementElicitationResponse {
        self.try_increment(thread, "", ttl).await.expect("the increment is accepted")
    }

    /// Opens 1,000 elicitations with long texts: the state of the thread then has 1.4 MB.
    pub(crate) async fn fatten(&mut self, thread: &str) {
        let (reason, holder) = ("r".repeat(1_024), "h".repeat(256));
        let request =
            v1::IncrementElicitationRequest { thread_id: thread.into(), reason, holder, ..Default::default() };
        for _ in 0..1_000 {
            timed("a call", self.0.increment_elicitation(request.clone())).await.expect("there is room");
        }
    }

    pub(crate) async fn try_increment(
        &mut self,
        thread: &str,
        request_id: &str,
        ttl: Option<Duration>,
    ) -> Result<v1::IncrementElicitationResponse, Status> {
        let request = v1::IncrementElicitationRequest {
            thread_id: thread.into(),
            request_id: request_id.into(),
            reason: "a reason".into(),
            holder: "a holder".into(),
            ttl: ttl.map(|ttl| prost_types::Duration::try_from(ttl).expect("a duration")),
        };
        timed("increment", self.0.increment_elicitation(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn try_decrement(
        &mut self,
        thread: &str,
        request_id: &str,
        elicitation_id: Option<&str>,
    ) -> Result<v1::DecrementElicitationResponse, Status> {
        let request = v1::DecrementElicitationRequest {
            thread_id: thread.into(),
            elicitation_id: elicitation_id.map(str::to_owned),
            request_id: request_id.into(),
        };
        timed("decrement", self.0.decrement_elicitation(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn try_renew(
        &mut self,
        thread: &str,
        elicitation_id: &str,
        ttl: Option<Duration>,
    ) -> Result<v1::Elicitation, Status> {
        let request = v1::RenewElicitationRequest {
            thread_id: thread.into(),
            elicitation_id: elicitation_id.into(),
            ttl: ttl.map(|ttl| prost_types::Duration::try_from(ttl).expect("a duration")),
        };
        let renewed = timed("renew", self.0.renew_elicitation(request)).await?;
        Ok(renewed.into_inner().elicitation.expect("a renewal returns the elicitation"))
    }

    pub(crate) async fn get(&mut self, thread: &str) -> v1::PauseState {
        let request = v1::GetPauseStateRequest { thread_id: thread.into() };
        let got = timed("get", self.0.get_pause_state(request)).await.expect("a read is answered");
        got.into_inner().pause_state.expect("a get returns the state")
    }

    pub(crate) async fn list(
        &mut self,
        request: v1::ListPauseStatesRequest,
    ) -> Result<v1::ListPauseStatesResponse, Status> {
        timed("list", self.0.list_pause_states(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn pauses(&mut self, request: v1::ListPausesRequest) -> Result<v1::ListPausesResponse, Status> {
        timed("list pauses", self.0.list_pauses(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn watch(&mut self, threads: &[&str]) -> Streaming<v1::WatchPauseStateResponse> {
        let thread_ids = threads.iter().map(|&thread| thread.to_owned()).collect();
        self.try_watch(thread_ids, false).await.expect("the watch is accepted")
    }

    pub(crate) async fn try_watch(
        &mut self,
        thread_ids: Vec<String>,
        include_elicitations: bool,
    ) -> Result<Streaming<v1::WatchPauseStateResponse>, Status> {
        let request = v1::WatchPauseStateRequest { thread_ids, include_elicitations, ..Default::default() };
        timed("watch", self.0.watch_pause_state(request)).await.map(tonic::Response::into_inner)
    }
}

/// Makes a call that no client of ours would make: any path, with an empty message.
pub(crate) async fn call_path(channel: Channel, path: &str, authorization: &[String]) -> Result<(), Status> {
    call_path_with(channel, path, (), authorization).await
}

/// With any message.
pub(crate) async fn call_path_with<M: prost::Message + 'static>(
    channel: Channel,
    path: &str,
    message: M,
    authorization: &[String],
) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("it is connected");
    let mut request = tonic::Request::new(message);
    for value in authorization {
        request.metadata_mut().append("authorization", value.parse().expect("a token is ASCII"));
    }
    let codec = tonic_prost::ProstCodec::<M, ()>::default();
    client.unary(request, path.parse().expect("a path"), codec).await.map(|_| ())
}
