//! Counts incomplete requests and unread answers in the [`MemoryBudget`](super::memory_budget::MemoryBudget).
use super::arrival::Arrival;
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
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// The maximum overhead of an incomplete request, in bytes: mostly the buffer for its message.
pub(crate) const HALF_REQUEST: usize = 16 << 10;

/// The service whose calls are streams of requests.
const REFLECTION: &str = "/grpc.reflection.";

/// The approximate overhead of an answer, in bytes.
const ANSWER: usize = 1 << 10;

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
        let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
        let size = HALF_REQUEST + headers.sum::<usize>();
        // Between the requests of a stream, its client may be silent.
        let is_stream = request.uri().path().starts_with(REFLECTION);
        let arrival = (!is_stream).then(Arrival::default);
        let (is_http2, of) = (request.version() == http::Version::HTTP_2, connection.clone());
        let receiving = |body| Body::new(Receiving { body, is_http2, size, connection: of, waiting: None, arrival });
        Answering { answer: self.0.call(request.map(receiving)), connection: Some(connection) }
    }
}

/// The body of a request. It is counted only while the server waits for the rest: most requests arrive complete.
struct Receiving {
    body: Body,
    is_http2: bool,
    size: usize,
    connection: Arc<ConnectionContext>,
    waiting: Option<Waiting>,
    /// `None`: the request may take any time.
    arrival: Option<Arrival>,
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
                // The requests of a stream are answered one after the other, so they do not add up.
                if this.arrival.is_some() {
                    let more = BUFFERS * frame.data_ref().map_or(0, Bytes::len);
                    this.size += more;
                    this.waiting.iter_mut().for_each(|waiting| waiting.held.grow(more));
                }
            }
            Poll::Ready(_) => this.waiting = None,
            Poll::Pending => {
                let waiting = this.waiting.get_or_insert_with(|| Waiting::of(&this.connection, this.size));
                if let Some(Poll::Ready(late)) = this.arrival.as_mut().map(|arrival| arrival.poll_late(cx)) {
                    return Poll::Ready(Some(Err(late)));
                }
                ready!(waiting.too_late.as_mut().poll(cx));
                return Poll::Ready(Some(Err(status::draining())));
            }
        }
        let is_end = this.body.is_end_stream();
        if is_end {
            this.waiting = None;
        }
        match polled {
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
        Poll::Ready(Ok(answer.map(|body| until_sent(body, held))))
    }
}

/// The body of an answer, which keeps `held` until its message is sent.
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
mod tests {
    use super::super::memory_budget::MemoryBudget;
    use super::*;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use http_body_util::{BodyExt, StreamBody};
    use std::time::Duration;
    use tokio::time::timeout;
    use tokio_stream::StreamExt;
    use tonic::Code;

    /// How the body of a request ends that never comes, within an hour; `None`: it has not ended.
    async fn end_of_half_a_request(path: &str) -> Option<Code> {
        let connection =
            Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
        let reads = tower::service_fn(|request: http::Request<Body>| {
            Box::pin(async move {
                let status = request.into_body().collect().await.map(drop).expect_err("it does not come");
                Ok::<_, Infallible>(status.into_http::<Body>())
            })
        });
        let body = Body::new(StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Status>>()));
        let request = http::Request::builder().uri(path).extension(connection).body(body).unwrap();
        let answer = timeout(Duration::from_secs(3_600), MemoryLimit(reads).call(request)).await.ok()?.unwrap();
        Status::from_header_map(answer.headers()).map(|status| status.code())
    }

    #[tokio::test(start_paused = true)]
    async fn g7_half_a_request_is_not_kept_for_ever_but_a_stream_of_requests_is() {
        let ours = ["IncrementElicitation", "GetPauseState", "WatchPauseState"];
        let ours = ours.map(|rpc| format!("/pausewatch.v1.ElicitationService/{rpc}"));
        for path in
            ours.iter().map(String::as_str).chain(["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"])
        {
            assert_eq!(end_of_half_a_request(path).await, Some(Code::DeadlineExceeded), "{path}");
        }
        for path in
            ["/pausewatch.v1.ElicitationService/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
        {
            assert_eq!(end_of_half_a_request(path).await, None, "{path}");
        }
    }

    #[tokio::test]
    async fn the_requests_of_a_stream_do_not_add_up() {
        let connection =
            Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
        let reads = tower::service_fn(|request: http::Request<Body>| {
            Box::pin(async move {
                let mut body = request.into_body();
                while body.frame().await.is_some() {}
                Ok::<_, Infallible>(http::Response::new(Body::empty()))
            })
        });
        let one = Bytes::from(vec![0; 1 << 20]);
        let requests = tokio_stream::iter(0..200).then(move |_| {
            let one = one.clone();
            async move {
                tokio::task::yield_now().await;
                Ok::<_, Status>(Frame::data(one))
            }
        });
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let body = Body::new(StreamBody::new(Box::pin(requests)));
        let request = http::Request::builder().uri(path).extension(connection.clone()).body(body).unwrap();
        MemoryLimit(reads).call(request).await.unwrap();
        assert!(!connection.closing().is_cancelled());
    }

    #[tokio::test]
    async fn a_request_that_does_not_come_whole_is_an_error_of_its_client() {
        type Part = Result<Frame<Bytes>, Status>;
        let end = async |version, parts: Vec<Part>| {
            let connection = Arc::<MemoryBudget>::default()
                .connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
            let reads = tower::service_fn(|request: http::Request<Body>| {
                Box::pin(async move {
                    let status = request.into_body().collect().await.map_or_else(|status| status, |_| Status::ok(""));
                    Ok::<_, Infallible>(status.into_http::<Body>())
                })
            });
            // As the body of a stream that was reset, it does not say that it is at its end.
            let body = Body::new(StreamBody::new(tokio_stream::iter(parts)));
            let request = http::Request::builder().version(version).extension(connection).body(body).unwrap();
            let answer = MemoryLimit(reads).call(request).await.unwrap();
            Status::from_header_map(answer.headers()).map(|status| status.code())
        };
        let part = || Ok(Frame::data(Bytes::from_static(b"half")));
        for code in [Code::Internal, Code::Unknown, Code::Cancelled] {
            let parts = vec![part(), Err(Status::new(code, "the connection is broken"))];
            assert_eq!(end(http::Version::HTTP_11, parts).await, Some(Code::InvalidArgument), "{code}");
        }
        assert_eq!(end(http::Version::HTTP_2, vec![part()]).await, Some(Code::InvalidArgument));
        assert_eq!(end(http::Version::HTTP_11, vec![part()]).await, Some(Code::Ok));
    }

    /// The change may have been made already: a refusal would make the caller believe that nothing is open.
    #[tokio::test]
    async fn g4_a_call_on_a_connection_closed_for_its_memory_is_not_reported_as_refused() {
        let answered = tower::service_fn(|_| std::future::ready(Ok(http::Response::new(Body::empty()))));
        let connection =
            Arc::<MemoryBudget>::default().connection(Accounts::default().of(CallerKey::Unknown, Duration::ZERO), None);
        let call = || {
            MemoryLimit(answered)
                .call(http::Request::builder().extension(connection.clone()).body(Body::empty()).unwrap())
        };
        assert_eq!(Status::from_header_map(call().await.unwrap().headers()).map(|status| status.code()), None);
        connection.closing().cancel();
        let refusal = Status::from_header_map(call().await.unwrap().headers());
        assert_eq!(refusal.map(|status| status.code()), Some(Code::Unavailable));
    }
}
