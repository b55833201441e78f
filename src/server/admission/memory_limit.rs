//! Counts incomplete requests and unread answers in the [`MemoryBudget`](super::memory_budget::MemoryBudget).
use super::arrival::Arrival;
use super::boundary::Boundary;
use super::inbox::Inbox;
use super::memory_budget::{ConnectionContext, MemoryReservation};
use crate::coordinator::metrics::Rpc;
use crate::core::types::InvalidField;
use crate::server::status;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Status};

/// The maximum overhead of an incomplete request, in bytes: mostly the buffer for its message.
pub(crate) const HALF_REQUEST: usize = 16 << 10;

/// The service whose calls are streams of requests.
const REFLECTION: &str = "/grpc.reflection.";

/// The memory of a header field besides its text, in bytes.
const FIELD: usize = 96;

/// Requests of a stream that may wait for the answers to earlier ones, in bytes.
const MAX_WAITING: usize = 64 << 10;

/// The approximate overhead of an answer, in bytes.
const ANSWER: usize = 1 << 10;

/// Messages below this size, in bytes, are copied: otherwise each would keep the 8 KiB of the buffer into which it was
/// encoded.
const COPIED: usize = 8 << 10;

/// The maximum size of the buffer of an incomplete message, in bytes per received byte: it grows ahead of the data.
const BUFFERS: usize = 4;

/// Counts the memory of requests and answers of `S` in flight. The connection is a
/// [`ConnectionContext`] in the extensions of the request; without one, nothing is counted.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLimit<S>(pub S);

/// An extension of an answer: the size of its message in bytes. Without it, the message counts as small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) usize);

/// An extension of an answer whose body counts its own memory, so that [`MemoryLimit`] does not count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts;

impl<S> Service<http::Request<Body>> for MemoryLimit<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Unpin>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Some(connection) = request.extensions().get::<Arc<ConnectionContext>>().cloned() else {
            return Answering { answer: self.0.call(request), connection: None };
        };
        let rpc = Rpc::of_path(request.uri().path());
        // A stream of requests counts them itself: this layer would count everything that it has read as one request.
        if rpc == Rpc::Watch {
            return Answering { answer: self.0.call(request), connection: Some(connection) };
        }
        let headers = request.headers().iter().map(|(name, value)| FIELD + name.as_str().len() + value.len());
        let first = HALF_REQUEST + headers.sum::<usize>();
        let is_stream = request.uri().path().starts_with(REFLECTION);
        let is_http2 = request.version() == http::Version::HTTP_2;
        let of = connection.clone();
        let receiving = |body| {
            let (body, boundary) = match is_stream {
                true => (Body::new(Inbox::of(body, MAX_WAITING, Some(of.clone()))), Some(Boundary::default())),
                false => (body, None),
            };
            let arrival = Arrival::default();
            Body::new(Receiving {
                body,
                is_http2,
                first,
                size: first,
                connection: of,
                waiting: None,
                arrival,
                boundary,
            })
        };
        Answering { answer: self.0.call(request.map(receiving)), connection: Some(connection) }
    }
}

/// The body of a request. It is counted only while the server waits for the rest: most requests arrive complete.
struct Receiving {
    body: Body,
    is_http2: bool,
    /// The size when nothing of a message has arrived, and now.
    first: usize,
    size: usize,
    connection: Arc<ConnectionContext>,
    waiting: Option<Waiting>,
    arrival: Arrival,
    /// For a stream of requests, whose client may be silent between them.
    boundary: Option<Boundary>,
}

impl Receiving {
    /// Counts more of a message. The messages of a stream are answered one after the other, so they do not add up.
    fn add(&mut self, data: &[u8]) {
        let is_between = self.boundary.as_mut().is_some_and(|boundary| boundary.advance(data));
        if is_between {
            self.arrival = Arrival::default();
        }
        self.size = if is_between { self.first } else { self.size + BUFFERS * data.len() };
        self.waiting.iter_mut().for_each(|waiting| waiting.held.resize(self.size));
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        match &self.boundary {
            Some(boundary) if boundary.is_between() => Poll::Pending,
            _ => self.arrival.poll_late(cx),
        }
    }
}

struct Waiting {
    held: MemoryReservation,
    too_late: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Waiting {
    fn of(connection: &Arc<ConnectionContext>, size: usize) -> Self {
        let too_late = Box::pin(connection.too_late().clone().cancelled_owned());
        Waiting { held: connection.hold(size), too_late }
    }
}

impl http_body::Body for Receiving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.add(data);
                }
            }
            Poll::Ready(_) => this.waiting = None,
            Poll::Pending => {
                if let Poll::Ready(late) = this.poll_late(cx) {
                    return Poll::Ready(Some(Err(late)));
                }
                let waiting = this.waiting.get_or_insert_with(|| Waiting::of(&this.connection, this.size));
                ready!(waiting.too_late.as_mut().poll(cx));
                return Poll::Ready(Some(Err(status::draining())));
            }
        }
        let is_end = this.body.is_end_stream();
        if is_end {
            this.waiting = None;
        }
        match polled {
            Poll::Ready(Some(Err(status))) if status.code() == Code::ResourceExhausted => {
                Poll::Ready(Some(Err(status)))
            }
            // The error is one of the client or its connection, not of the server.
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(not_whole()))),
            // hyper ends the body of a stream that is reset with NO_ERROR, although the rest of it has not come.
            Poll::Ready(None) if this.is_http2 && !is_end => Poll::Ready(Some(Err(not_whole()))),
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn not_whole() -> Status {
    status::of_field(InvalidField::new("request", "cut off or malformed", "a whole message"))
}

/// The answer in preparation.
pub(crate) struct Answering<F> {
    answer: F,
    connection: Option<Arc<ConnectionContext>>,
}

impl<F> Future for Answering<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // The connection's other requests may have been read already; they must not use more of the budget.
        if self.connection.as_ref().is_some_and(|connection| connection.closing().is_cancelled()) {
            // The change may have been made already, so this must not look like a refusal.
            let status = Status::unavailable("the connection holds too much of the server's memory");
            return Poll::Ready(Ok(status.into_http()));
        }
        let answer = ready!(Pin::new(&mut self.answer).poll(cx))?;
        let Some(connection) = self.connection.take().filter(|_| answer.extensions().get::<Counts>().is_none()) else {
            return Poll::Ready(Ok(answer));
        };
        let size = answer.extensions().get::<Size>().map_or(0, |size| size.0);
        // Counted twice: as a message and encoded.
        let held = connection.hold(ANSWER + 2 * size);
        Poll::Ready(Ok(answer.map(|body| Body::new(Sending { body, first: Some(held), connection }))))
    }
}

/// The body of an answer whose messages are counted until they are sent.
struct Sending {
    body: Body,
    /// For the first message.
    first: Option<MemoryReservation>,
    connection: Arc<ConnectionContext>,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let data = |bytes: Bytes| {
            let size = ANSWER + 2 * bytes.len();
            let mut held = this.first.take().unwrap_or_else(|| this.connection.hold(size));
            if held.bytes() < size {
                held.resize(size);
            }
            counted(if bytes.len() < COPIED { Bytes::copy_from_slice(&bytes) } else { bytes }, held)
        };
        Poll::Ready(polled.map(|frame| frame.map(|frame| frame.map_data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which keeps `held` until its message is sent.
#[cfg(feature = "etcd")]
pub(crate) fn until_sent(body: Body, held: impl Send + Sync + Unpin + 'static) -> Body {
    Body::new(Delivering { body, held: Some(held) })
}

/// The body of an answer. Its reservation moves to its message: HTTP/2 takes the whole message as soon as the client
/// reads one byte, drops the body, and keeps the message until the last byte is sent.
struct Delivering<H> {
    body: Body,
    held: Option<H>,
}

impl<H: Send + Sync + Unpin + 'static> http_body::Body for Delivering<H> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let data = |bytes| match this.held.take() {
            Some(held) => counted(bytes, held),
            None => bytes,
        };
        Poll::Ready(polled.map(|frame| frame.map(|frame| frame.map_data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// `bytes`, which keep `held` until the connection has sent the last one.
pub(crate) fn counted(bytes: Bytes, held: impl Send + Sync + 'static) -> Bytes {
    /// The bytes, and the reservation that is dropped with them.
    struct Counted<H>(Bytes, H);
    impl<H> AsRef<[u8]> for Counted<H> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Counted(bytes, held))
}

#[cfg(test)]
#[path = "memory_limit_tests.rs"]
mod tests;
