//! A connection of HTTP/1.
//!
//! 1. It has the same permit, the same services and the same end as a connection of HTTP/2: without a request it may be
//!    closed for a new one, and it finishes calls in flight when the server drains.
//! 2. It uses little memory: one request at a time, a head of [`MAX_HEAD`], and as much of an answer as its client
//!    reads.
use super::linger::Lingering;
use super::rewind::Rewound;
use crate::coordinator::metrics::Rpc;
use crate::http_connections::UntilSent;
use crate::server::admission::{AdmittedStream, ConnectionContext};
use crate::server::services::Services;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::server::Connected;

/// The maximum size of the head of a request in bytes, as over HTTP/2. About as many bytes of an answer are buffered
/// before the client reads them.
const MAX_HEAD: usize = 16 << 10;
/// A connection that is silent for this long before its first request is closed, like a connection of HTTP/2 that does
/// not answer a ping.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// The timeout for the head of a request, which begins with the end of the request before.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The transport of a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Closes the connection if the other side acknowledges nothing for `silence`.
    fn break_after(&self, silence: Duration);
}

/// Serves a connection of HTTP/1 to its end.
pub(crate) async fn serve<S: Transport>(
    stream: Rewound<AdmittedStream<S>>,
    services: Arc<Services>,
    drain: &CancellationToken,
) {
    stream.stream().get_ref().break_after(IDLE_TIMEOUT);
    let connection = stream.connect_info();
    let in_flight = Arc::new(());
    let watches = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let (connection, in_flight, watches) = (connection.clone(), in_flight.clone(), watches.clone());
        move |request: Request<Incoming>| answer(request, &connection, &services, in_flight.clone(), &watches)
    });
    let mut http = http1::Builder::new();
    http.half_close(true).timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD);
    let mut served = pin!(http.serve_connection(TokioIo::new(Lingering::new(stream, watches)), service));
    // Errors concern only this client, which receives them.
    tokio::select! {
        _ = &mut served => return,
        () = drain.cancelled() => served.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = &mut served => return,
        () = connection.too_late().cancelled() => {}
    }
    // Waits only for requests in flight. Two references are not requests: the one here and that of the service.
    if Arc::strong_count(&in_flight) > 2 {
        let _ = served.await;
    }
}

fn answer(
    request: Request<Incoming>,
    connection: &Arc<ConnectionContext>,
    services: &Services,
    in_flight: Arc<()>,
    watches: &Arc<AtomicBool>,
) -> impl Future<Output = Result<Response<UntilSent<Body, Arc<()>>>, Infallible>> + use<> {
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let is_watch = Rpc::of_path(request.uri().path()).is_watch();
    watches.store(is_watch && request.body().is_end_stream(), Relaxed);
    let watches = is_watch.then(|| watches.clone());
    let mut request = request.map(|body| Body::new(Noted { body, is_read: is_read.clone(), watches }));
    request.extensions_mut().insert(connection.clone());
    let answer = services.call(request);
    async move {
        let mut response = answer.await?.map(|body| UntilSent::new(body, in_flight));
        if !is_read.load(Relaxed) {
            // The rest of this request precedes the next one, so the client must not send another one on this
            // connection.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

/// The body of a request, which records whether it was read to its end.
struct Noted {
    body: Incoming,
    is_read: Arc<AtomicBool>,
    /// Set for a watch: its connection records it too.
    watches: Option<Arc<AtomicBool>>,
}

impl http_body::Body for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.is_read.store(true, Relaxed);
            self.watches.iter().for_each(|watches| watches.store(true, Relaxed));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
