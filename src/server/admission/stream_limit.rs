//! Limits the streams of health and reflection. They count like watches, weighted by their memory, and end when the
//! server drains.
use super::caller::account;
use super::service_context::{PROBE, ServiceContext};
use crate::clock::Clock;
use crate::coordinator::quota::{StreamPermit, Weight};
use crate::server::status;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// A watch takes 1.0 to 1.3 kB; such a stream takes about 10 kB, mostly a buffer of the generated code.
const WEIGHT: Weight = Weight { streams: 8, watched: 0 };

/// Counts the streams of `S`, and ends them when `drain` is cancelled.
#[derive(Clone)]
pub(crate) struct StreamLimit<S> {
    inner: S,
    context: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    drain: CancellationToken,
}

impl<S> StreamLimit<S> {
    /// Wraps `inner`.
    pub(crate) fn new(inner: S, context: Arc<ServiceContext>, clock: Arc<dyn Clock>, drain: CancellationToken) -> Self {
        StreamLimit { inner, context, clock, drain }
    }

    fn share(&self, request: &http::Request<Body>) -> Result<Option<StreamPermit>, Status> {
        if request.uri().path() == PROBE {
            return Ok(None);
        }
        let account = account(&self.context.accounts, request.extensions(), &*self.clock);
        let share = self.context.accounts.stream(account, &self.context.limits, WEIGHT);
        share.map(Some).map_err(|exceeded| self.context.refuse(exceeded))
    }
}

impl<S> Service<http::Request<Body>> for StreamLimit<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Unpin>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Opening<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.share(&request) {
            Err(status) => Opening::Refused(Some(status)),
            Ok(None) => Opening::Call(self.inner.call(request)),
            Ok(Some(share)) => {
                let stream = Some((share, self.drain.clone()));
                Opening::Stream { answer: self.inner.call(request), stream }
            }
        }
    }
}

/// A stream that is being opened, or a unary call.
pub(crate) enum Opening<F> {
    /// A unary call.
    Call(F),
    /// A stream, with its weight.
    Stream {
        /// The future of the service.
        answer: F,
        /// Released if it does not open.
        stream: Option<(StreamPermit, CancellationToken)>,
    },
    /// Refused, because there are too many streams.
    Refused(Option<Status>),
}

impl<F> Future for Opening<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.get_mut() {
            Opening::Call(answer) => Pin::new(answer).poll(cx),
            Opening::Stream { answer, stream } => {
                let answer = ready!(Pin::new(answer).poll(cx))?;
                let (share, drain) = stream.take().expect("it is polled until it is ready");
                let drain = Box::pin(drain.cancelled_owned());
                let open = |body| Body::new(Stream { body: Some(body), drain, _share: share });
                Poll::Ready(Ok(answer.map(open)))
            }
            Opening::Refused(status) => {
                let status = status.take().expect("it is polled until it is ready");
                Poll::Ready(Ok(status.into_http()))
            }
        }
    }
}

/// The messages of a stream.
struct Stream {
    /// `None` after the end of the stream.
    body: Option<Body>,
    drain: Pin<Box<WaitForCancellationFutureOwned>>,
    _share: StreamPermit,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // Pending messages first: a health watch reports NOT_SERVING before it ends.
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(this.drain.as_mut().poll(cx));
        this.body = None;
        let mut trailers = http::HeaderMap::new();
        status::draining().add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}
