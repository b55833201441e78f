//! The least that a gRPC server of this service can do: every answer is a constant, and a watch has one thread.
//!
//! `limit` is tonic's generated server. `limit-raw` sends watches as ready-framed bytes, so that tonic encodes nothing.
//! Both run on one current-thread runtime, the cheapest that tokio has. They are for watches that are opened before
//! the first change.
use crate::Result;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Frame;
use pausewatch::proto::v1;
use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use v1::elicitation_service_server::{ElicitationService, ElicitationServiceServer, SERVICE_NAME};
use v1::watch_pause_state_response::Event;

/// The argument that makes this program the server of a target; whether its frames are ready.
pub(crate) fn kind(argument: &str) -> Option<bool> {
    [("serve-limit", false), ("serve-limit-raw", true)].iter().find(|kind| kind.0 == argument).map(|kind| kind.1)
}

/// What a watch has been told last: nothing yet, running, paused.
const OPEN: usize = 0;
const RUNNING: usize = 1;
const PAUSED: usize = 2;

/// Who is told of which thread.
#[derive(Clone, Default)]
struct Limit(Arc<Mutex<HashMap<String, watch::Sender<usize>>>>);

impl Limit {
    fn topics(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<usize>>> {
        self.0.lock().expect("nothing panics while it holds the topics")
    }

    fn change(&self, thread: &str, to: usize) {
        if let Some(topic) = self.topics().get(thread) {
            topic.send_replace(to);
        }
    }

    fn subscribe(
        &self,
        request: v1::WatchPauseStateRequest,
    ) -> std::result::Result<(String, WatchStream<usize>), Status> {
        let [thread] = <[String; 1]>::try_from(request.thread_ids)
            .map_err(|_| Status::unimplemented("a watch of several threads"))?;
        let changes = self.topics().entry(thread.clone()).or_insert_with(|| watch::Sender::new(OPEN)).subscribe();
        Ok((thread, WatchStream::new(changes)))
    }
}

fn event(thread: &str, of: usize) -> v1::WatchPauseStateResponse {
    let event = match of {
        OPEN => Event::SnapshotComplete(v1::SnapshotComplete {}),
        of => Event::PauseState(v1::PauseState {
            thread_id: thread.to_owned(),
            count: u32::from(of == PAUSED),
            paused: of == PAUSED,
            revision: 1,
            ..v1::PauseState::default()
        }),
    };
    v1::WatchPauseStateResponse { event: Some(event) }
}

#[tonic::async_trait]
impl ElicitationService for Limit {
    async fn increment_elicitation(
        &self,
        request: Request<v1::IncrementElicitationRequest>,
    ) -> std::result::Result<Response<v1::IncrementElicitationResponse>, Status> {
        self.change(&request.get_ref().thread_id, PAUSED);
        let response = v1::IncrementElicitationResponse { count: 1, paused: true, revision: 1, ..Default::default() };
        Ok(Response::new(response))
    }

    async fn decrement_elicitation(
        &self,
        request: Request<v1::DecrementElicitationRequest>,
    ) -> std::result::Result<Response<v1::DecrementElicitationResponse>, Status> {
        self.change(&request.get_ref().thread_id, RUNNING);
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

    type WatchPauseStateStream =
        Pin<Box<dyn Stream<Item = std::result::Result<v1::WatchPauseStateResponse, Status>> + Send>>;

    async fn watch_pause_state(
        &self,
        request: Request<v1::WatchPauseStateRequest>,
    ) -> std::result::Result<Response<Self::WatchPauseStateStream>, Status> {
        let (thread, changes) = self.subscribe(request.into_inner())?;
        Ok(Response::new(Box::pin(changes.map(move |of| Ok(event(&thread, of))))))
    }
}

/// A stream whose messages are bytes already.
struct Frames {
    changes: WatchStream<usize>,
    /// For each event of the thread; shared by all its streams.
    frames: Arc<[Bytes; 3]>,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Status>>> {
        let change = ready!(Pin::new(&mut self.changes).poll_next(cx));
        Poll::Ready(change.map(|of| Ok(Frame::data(self.frames[of].clone()))))
    }
}

fn framed(message: &v1::WatchPauseStateResponse) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("a small message"));
    message.encode(&mut frame).expect("it grows");
    frame.freeze()
}

/// `limit-raw`: watches beside the generated server.
#[derive(Clone)]
struct Raw {
    limit: Limit,
    frames: Arc<Mutex<HashMap<String, Arc<[Bytes; 3]>>>>,
    calls: ElicitationServiceServer<Limit>,
}

impl Raw {
    async fn watch(self, request: http::Request<Body>) -> std::result::Result<http::Response<Body>, Status> {
        let decoder = tonic::codec::Codec::decoder(&mut tonic_prost::ProstCodec::<(), _>::default());
        let mut messages = tonic::Streaming::new_request(decoder, request.into_body(), None, None);
        let request = messages.message().await?.ok_or_else(|| Status::invalid_argument("no message"))?;
        let (thread, changes) = self.limit.subscribe(request)?;
        let frames = {
            let mut all = self.frames.lock().expect("nothing panics while it holds the frames");
            let make = || Arc::new([OPEN, RUNNING, PAUSED].map(|of| framed(&event(&thread, of))));
            all.entry(thread.clone()).or_insert_with(make).clone()
        };
        let mut response = http::Response::new(Body::new(Frames { changes, frames }));
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

/// Serves until it is killed. Says where it listens as `pausewatch serve` does.
pub(crate) fn serve(raw: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let limit = Limit::default();
        let calls = ElicitationServiceServer::new(limit.clone());
        let routes = match raw {
            true => Routes::new(Raw { limit, frames: Arc::default(), calls }),
            false => Routes::new(calls),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening {}", listener.local_addr()?);
        let incoming = TcpListenerStream::new(listener)
            .map(|connection| connection.and_then(|connection| connection.set_nodelay(true).map(|()| connection)));
        Ok(tonic::transport::Server::builder().add_routes(routes.prepare()).serve_with_incoming(incoming).await?)
    })
}
