//! `WatchPauseState`: a request, then a body that is polled for as long as the client listens.
//!
//! The body holds nothing but its subscription. It is polled only when the connection can take more, so that a client
//! that does not read costs what its threads cost, and no more.
use super::codec::RequestCodec;
use super::frame::{Batch, BatchSize};
use super::wire::{self, Moment};
use crate::clock::Clock;
use crate::coordinator::hub::{Hub, Subscription};
use crate::coordinator::metrics::Rpc;
use crate::coordinator::quota::{StreamPermit, Weight};
use crate::proto::v1;
use crate::server::access::{Access, Denial, Role};
use crate::server::admission::{ConnectionContext, Counts, Rights, ServiceContext, account, counted};
use crate::server::status;
use bytes::Bytes;
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codec::{Codec, Streaming};
use tonic::codegen::http;
use tonic::{Code, Status};

/// States that are sent at once and are larger count as the memory of their connection until they are sent.
const LARGE: usize = 2 << 10;

/// The largest watch request: 10,000 ids of 256 bytes, with their tags and lengths.
const MAX_WATCH_REQUEST: usize = 3 << 20;

/// Serves watches.
#[derive(Clone)]
pub(super) struct Watches {
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    context: Arc<ServiceContext>,
    access: Option<Arc<Access>>,
}

/// Completes when the caller loses its permission for the watch.
type End = Pin<Box<dyn Future<Output = Denial> + Send>>;

impl Watches {
    pub(super) fn new(
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        context: Arc<ServiceContext>,
        access: Option<Arc<Access>>,
    ) -> Self {
        Watches { hub, clock, context, access }
    }

    pub(super) async fn serve(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        Ok(self.open(request).await.unwrap_or_else(Status::into_http))
    }

    async fn open(self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let connection = request.extensions().get::<Arc<ConnectionContext>>().cloned();
        let account = account(&self.context.accounts, request.extensions(), &*self.clock);
        let rights = Rights::of(request.extensions(), self.access.is_none(), Role::Watcher)?;
        let request = read(request).await?;
        let (interest, include_elicitations) = wire::watch(request).map_err(status::of_field)?;
        let interest = rights.within(interest)?;
        let end = self.access.zip(rights.caller()).map(|(access, caller)| Box::pin(access.end_of(caller)) as End);
        let share = self.context.accounts.stream(account, &self.context.limits, Weight::watch(interest.named()));
        let share = share.map_err(|exceeded| self.context.refuse(exceeded))?;
        let subscription = Some(self.hub.watch(interest));
        let ends = Ends { context: self.context, code: Code::Cancelled };
        let batch_size = BatchSize::FIRST;
        let clock = self.clock;
        let states =
            States { subscription, include_elicitations, batch_size, clock, connection, end, ends, _share: share };
        let mut response = http::Response::new(Body::new(states));
        response.extensions_mut().insert(Counts);
        response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}

/// The one message of the request.
async fn read(request: http::Request<Body>) -> Result<v1::WatchPauseStateRequest, Status> {
    if let Some(encoding) = request.headers().get("grpc-encoding").filter(|encoding| *encoding != "identity") {
        let encoding = encoding.to_str().unwrap_or("unreadable");
        return Err(Status::unimplemented(format!(
            "grpc-encoding {encoding:?} is not supported: send the message uncompressed"
        )));
    }
    let decoder = RequestCodec::<(), v1::WatchPauseStateRequest>::default().decoder();
    let mut messages = Streaming::new_request(decoder, request.into_body(), None, Some(MAX_WATCH_REQUEST));
    messages.message().await?.ok_or_else(|| Status::invalid_argument("the call has no request message"))
}

/// The messages of a stream. `subscription`: `None` after the end.
struct States {
    subscription: Option<Subscription>,
    include_elicitations: bool,
    batch_size: BatchSize,
    clock: Arc<dyn Clock>,
    connection: Option<Arc<ConnectionContext>>,
    end: Option<End>,
    ends: Ends,
    _share: StreamPermit,
}

/// Counts the end of a stream when it is dropped.
struct Ends {
    context: Arc<ServiceContext>,
    code: Code,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.context.metrics.calls.ended(Rpc::Watch, self.code as i32);
    }
}

impl States {
    /// The last thing that is sent.
    fn end_with(&mut self, status: &Status) -> Result<Frame<Bytes>, Status> {
        self.subscription = None;
        self.end = None;
        self.ends.code = status.code();
        let mut trailers = http::HeaderMap::new();
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }

    /// Small ones are not worth counting, and most are shared.
    fn counted(&self, bytes: Bytes) -> Bytes {
        match &self.connection {
            Some(connection) if bytes.len() > LARGE => {
                let held = connection.hold(bytes.len());
                counted(bytes, held)
            }
            _ => bytes,
        }
    }
}

impl http_body::Body for States {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Some(end) = &mut this.end
            && let Poll::Ready(denial) = end.as_mut().poll(cx)
        {
            return Poll::Ready(Some(this.end_with(&status::of_denial(&denial))));
        }
        loop {
            let Some(subscription) = &mut this.subscription else { return Poll::Ready(None) };
            let moment = Moment::of(subscription.hub(), &*this.clock);
            let mut batch = Batch::new(moment, this.include_elicitations, this.batch_size);
            match subscription.poll_next(cx, &mut batch) {
                Poll::Pending => {
                    this.batch_size = BatchSize::FIRST;
                    return Poll::Pending;
                }
                Poll::Ready(true) => match batch.finish() {
                    // Only threads that were forgotten meanwhile.
                    empty if empty.is_empty() => {}
                    bytes => {
                        this.batch_size = this.batch_size.next();
                        return Poll::Ready(Some(Ok(Frame::data(this.counted(bytes)))));
                    }
                },
                Poll::Ready(false) => return Poll::Ready(Some(this.end_with(&status::draining()))),
            }
        }
    }
}
