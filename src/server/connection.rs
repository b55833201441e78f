//! Serves a connection, from its first byte to its end.
//!
//! 1. The first bytes determine whether the connection is HTTP/2 (RFC 9113) or HTTP/1, if HTTP/1 is served.
//! 2. A call with a deadline (`grpc-timeout`) is answered by its deadline; a stream begins by its deadline.
//! 3. A drain lets calls in flight finish.
use super::admission::{AdmittedStream, ConnectionContext};
use super::grpc_timeout;
use super::http::{IDLE_TIMEOUT, Rewound, Transport, begins_with_preface, serve_http1};
use super::http2::{Guarded, LiveCalls, Unread};
use super::services::{Answering, Services};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::CONTENT_LENGTH;
use tonic::codegen::http::{Extensions, Method, Request, Response};
use tonic::transport::server::Connected;

/// The maximum of streams per connection: HTTP/2 visits all of them for some frames. A client that needs more should
/// watch several threads on one stream.
const MAX_STREAMS: u32 = 1_024;
/// A connection is closed when the server has reset this many of its streams because of errors of the client, such as
/// data on streams above the limit (CVE-2025-8671).
const MAX_RESETS: usize = 1_024;
/// The maximum of streams that a client has reset before they were accepted. [`Guarded`] counts the resets of calls that
/// are not answered; this must allow its burst of 1,000.
const MAX_RESETS_BEFORE_ACCEPT: usize = 1_024;
/// The maximum of answers of a stream that HTTP/2 takes before they are written, in bytes.
const MAX_UNSENT: usize = 64 << 10;
/// The maximum of request headers in bytes.
const MAX_HEADERS: u32 = 16 << 10;
/// The maximum of header fields of a request, as over HTTP/1: each takes about 96 bytes besides its text.
const MAX_FIELDS: usize = 100;
/// A ping is sent on a connection that had no traffic for this long.
const PING_AFTER: Duration = Duration::from_secs(30);
/// A connection is closed if a ping is not answered within this time: otherwise its watches would stay forever.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How connections are served.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) services: Arc<Services>,
    /// Whether HTTP/1 is served too.
    pub(super) http: bool,
    /// Cancelled when connections must finish their calls in flight and end.
    pub(super) drain: CancellationToken,
}

/// Serves a connection to its end. `over_http2` wraps the stream of an HTTP/2 connection.
pub(super) async fn serve<S, T>(
    serving: Serving,
    stream: AdmittedStream<S>,
    over_http2: impl FnOnce(Rewound<AdmittedStream<S>>) -> T,
) where
    S: Transport,
    T: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let Serving { services, http, drain } = serving;
    if !http {
        return serve_http2(over_http2(Rewound::unread(stream)), services, &drain).await;
    }
    let first = timeout(IDLE_TIMEOUT, begins_with_preface(stream));
    match drain.run_until_cancelled(first).await {
        Some(Ok(Ok((true, stream)))) => serve_http2(over_http2(stream), services, &drain).await,
        // Boxed, so that connections of HTTP/2 need no memory for it.
        Some(Ok(Ok((false, stream)))) => Box::pin(serve_http1(stream, services, &drain)).await,
        // The client sent nothing, or closed the connection.
        Some(Ok(Err(_)) | Err(_)) | None => {}
    }
}

/// Serves a connection of HTTP/2 to its end.
pub(super) async fn serve_http2<S>(stream: S, services: Arc<Services>, drain: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let mut extensions = Extensions::new();
    let connection = stream.connect_info();
    extensions.insert(connection.clone());
    let live = LiveCalls::default();
    let stream = Guarded::new(stream, Unread::new(extensions.remove::<Arc<ConnectionContext>>(), live.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(connection.clone());
        let (call, answer) = (live.begin(), call(&services, request));
        async move { answer.await.map(|answer| call.until_end(answer)) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_local_error_reset_streams(MAX_RESETS)
        .max_pending_accept_reset_streams(MAX_RESETS_BEFORE_ACCEPT)
        .max_send_buf_size(MAX_UNSENT)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIMEOUT);
    let mut served = pin!(http.serve_connection(TokioIo::new(stream), service));
    // Errors concern only this client, which receives them.
    tokio::select! {
        _ = &mut served => return,
        () = drain.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

/// The answer of the service, or DEADLINE_EXCEEDED.
fn call(services: &Services, request: Request<Body>) -> Answering {
    if request.headers().len() > MAX_FIELDS {
        let status = Status::resource_exhausted("the request has more than 100 header fields");
        return Box::pin(ready(Ok(status.into_http())));
    }
    let limit = grpc_timeout::of(request.headers());
    let is_head = *request.method() == Method::HEAD;
    let mut answer = services.call(request);
    if is_head {
        answer = Box::pin(async { answer.await.map(without_body) });
    }
    match limit {
        None => answer,
        Some(limit) => Box::pin(async move {
            let late = |_| Ok(Status::deadline_exceeded("the time of the call was over").into_http());
            timeout(limit, answer).await.unwrap_or_else(late)
        }),
    }
}

/// An answer to HEAD has the headers of one to GET, and no body (RFC 9110, 9.3.2). hyper does this for HTTP/1 only.
fn without_body(answer: Response<Body>) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::pending;
    use tokio::time::Instant;
    use tonic::Code;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_answered_when_its_time_is_over() {
        let never = tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let request = Request::builder().header("grpc-timeout", "250m").body(Body::empty()).expect("it is valid");
        let begin = Instant::now();
        let response = call(&Services::all_by(never), request).await.expect("it cannot fail");
        let status = Status::from_header_map(response.headers()).expect("it is in the headers");
        assert_eq!((status.code(), begin.elapsed()), (Code::DeadlineExceeded, Duration::from_millis(250)));
    }
}
