//! The minimum work of a gRPC server with this service: every answer is constant, and a watch has one thread.
//!
//! `limit` is tonic's generated server. `limit-raw` sends watches as frames that are already encoded, so that tonic
//! encodes nothing. Both run on one current-thread runtime, the cheapest of tokio. All watches must be opened before
//! the first change.
use crate::result::Result;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Frame;
use pausewatch::proto::v1;
use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::adapters::Map;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic::{Request, Response, Status};
use v1::elicitation_service_server::{ElicitationService, ElicitationServiceServer, SERVICE_NAME};
use v1::watch_pause_state_response::Event;

/// Whether the argument makes this program the server of a target, and whether its frames are already encoded.
pub(crate) fn kind(argument: &str) -> Option<bool> {
    [("serve-limit", false), ("serve-limit-raw", true)].iter().find(|kind| kind.0 == argument).map(|kind| kind.1)
}

/// The last value that the watches of each thread received.
struct Topics<T>(Mutex<HashMap<String, watch::Sender<T>>>);

impl<T: Clone + Send + Sync + 'static> Topics<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<T>>> {
        self.0.lock().expect("nothing panics while it holds the topics")
    }

    fn change(&self, thread: &str, to: impl FnOnce() -> T) {
        if let Some(topic) = self.lock().get(thread) {
            topic.send_replace(to());
        }
    }

    /// Sends `first` and then every change.
    fn subscribe(&self, request: v1::WatchPauseStateRequest, first: T) -> std::result::Result<WatchStream<T>, Status> {
        let [thread] = <[String; 1]>::try_from(request.thread_ids)
            .map_err(|_| Status::unimplemented("a watch of several threads"))?;
        let mut topics = self.lock();
        Ok(WatchStream::new(topics.entry(thread).or_insert_with(|| watch::Sender::new(first)).subscribe()))
    }
}

/// The receivers of changes, as messages or as frames.
struct Told {
    messages: Topics<v1::WatchPauseStateResponse>,
    frames: Topics<Bytes>,
}

#[derive(Clone)]
struct Limit(Arc<Told>);

impl Limit {
    fn change(&self, thread: &str, paused: bool) {
        let message = || {
            let (thread_id, count) = (thread.to_owned(), u32::from(paused));
            let state = v1::PauseState { thread_id, count, paused, revision: 1, ..v1::PauseState::default() };
            v1::WatchPauseStateResponse { event: Some(Event::PauseState(state)) }
        };
        self.0.messages.change(thread, message);
        self.0.frames.change(thread, || framed(&message()));
    }
}

fn snapshot_complete() -> v1::WatchPauseStateResponse {
    v1::WatchPauseStateResponse { event: Some(Event::SnapshotComplete(v1::SnapshotComplete::default())) }
}

#[tonic::async_trait]
impl ElicitationService for Limit {
    async fn increment_elicitation(
        &self,
        request: Request<v1::IncrementElicitationRequest>,
    ) -> std::result::Result<Response<v1::IncrementElicitationResponse>, Status> {
        self.change(&request.get_ref().thread_id, true);
        let response = v1::IncrementElicitationResponse { count: 1, paused: true, revision: 1, ..Default::default() };
        Ok(Response::new(response))
    }

    async fn decrement_elicitation(
        &self,
        request: Request<v1::DecrementElicitationRequest>,
    ) -> std::result::Result<Response<v1::DecrementElicitationResponse>, Status> {
        self.change(&request.get_ref().thread_id, false);
        Ok(Response::new(v1::DecrementElicitationResponse { count: 0, paused: false, revision: 1 }))
    }

    async fn renew_elicitation(
        &self,
        _request: Request<v1::RenewElicitationRequest>,
    ) -> std::result::Result<Response<v1::RenewElicitationResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn get_pause_state(
        &self,
        _request: Request<v1::GetPauseStateRequest>,
    ) -> std::result::Result<Response<v1::GetPauseStateResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn list_pause_states(
        &self,
        _request: Request<v1::ListPauseStatesRequest>,
    ) -> std::result::Result<Response<v1::ListPauseStatesResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn list_pauses(
        &self,
        _request: Request<v1::ListPausesRequest>,
    ) -> std::result::Result<Response<v1::ListPausesResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    type WatchPauseStateStream = Map<
        WatchStream<v1::WatchPauseStateResponse>,
        fn(v1::WatchPauseStateResponse) -> std::result::Result<v1::WatchPauseStateResponse, Status>,
    >;

    async fn watch_pause_state(
        &self,
        request: Request<v1::WatchPauseStateRequest>,
    ) -> std::result::Result<Response<Self::WatchPauseStateStream>, Status> {
        Ok(Response::new(self.0.messages.subscribe(request.into_inner(), snapshot_complete())?.map(Ok)))
    }

    type WatchStream = tokio_stream::Empty<std::result::Result<v1::WatchResponse, Status>>;

    async fn watch(
        &self,
        _request: Request<tonic::Streaming<v1::WatchRequest>>,
    ) -> std::result::Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}

/// A stream whose messages are already encoded, and shared with the other streams of its thread.
struct Frames(WatchStream<Bytes>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.0).poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn framed(message: &v1::WatchPauseStateResponse) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("a small message"));
    message.encode(&mut frame).expect("it grows");
    frame.freeze()
}

/// `limit-raw`: watches, beside the generated server.
#[derive(Clone)]
struct Raw {
    limit: Limit,
    calls: ElicitationServiceServer<Limit>,
}

impl Raw {
    async fn watch(self, request: http::Request<Body>) -> std::result::Result<http::Response<Body>, Status> {
        let decoder = tonic::codec::Codec::decoder(&mut tonic_prost::ProstCodec::<(), _>::default());
        let mut messages = tonic::Streaming::new_request(decoder, request.into_body(), None, None);
        let request = messages.message().await?.ok_or_else(|| Status::invalid_argument("no message"))?;
        let frames = Frames(self.limit.0.frames.subscribe(request, framed(&snapshot_complete()))?);
        let mut response = http::Response::new(Body::new(frames));
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}

impl NamedService for Raw {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<http::Request<Body>> for Raw {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if !request.uri().path().ends_with("/WatchPauseState") {
            return self.calls.call(request);
        }
        let watch = self.clone().watch(request);
        Box::pin(async { Ok(watch.await.unwrap_or_else(Status::into_http)) })
    }
}

/// Serves until it is killed, with TLS if there are a certificate and a key. Prints its address as `pausewatch serve`
/// does.
pub(crate) fn serve(raw: bool, address: &str, tls: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (messages, frames) = (Topics(Mutex::default()), Topics(Mutex::default()));
        let limit = Limit(Arc::new(Told { messages, frames }));
        let calls = ElicitationServiceServer::new(limit.clone());
        let routes = match raw {
            true => Routes::new(Raw { limit, calls }),
            false => Routes::new(calls),
        };
        let listener = TcpListener::bind(address).await?;
        println!("listening {}", listener.local_addr()?);
        let incoming = TcpListenerStream::new(listener)
            .map(|connection| connection.and_then(|connection| connection.set_nodelay(true).map(|()| connection)));
        let mut server = tonic::transport::Server::builder();
        if let [certificate, key] = tls {
            let identity = Identity::from_pem(std::fs::read(certificate)?, std::fs::read(key)?);
            server = server.tls_config(ServerTlsConfig::new().identity(identity))?;
        }
        Ok(server.add_routes(routes.prepare()).serve_with_incoming(incoming).await?)
    })
}
