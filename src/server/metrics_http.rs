//! Serves `GET /metrics` on a separate port, over HTTP/1, for Prometheus and compatible collectors.
//!
//! It runs on the runtime of the first worker. A connection is for one request, and the number of connections is small,
//! so scrapes do not delay calls.
use super::http::Browsers;
use super::listen::{ListenError, bind, resolve};
use crate::http_connections::{HttpConnection, HttpConnections};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// The maximum number of connections. At the maximum, a connection without a request is closed to admit a new one.
const AT_ONCE: usize = 64;
/// The timeout of a scrape. A connection without a request is closed much sooner.
const LONGEST: Duration = Duration::from_secs(10);
const LONGEST_REQUEST: Duration = Duration::from_secs(1);
/// The delay after an error that would repeat at once, such as running out of file descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Where the metrics are served.
pub(super) struct Listener {
    listener: TcpListener,
    browsers: Browsers,
}

/// Returns the text of the metrics.
pub(super) trait Source: Fn() -> String + Send + Sync + 'static {}
impl<F: Fn() -> String + Send + Sync + 'static> Source for F {}

/// Resolves `HOST:PORT`, and checks that metrics may be served there.
pub(super) async fn allowed(address: &str, insecure: bool) -> Result<SocketAddr, String> {
    let address = resolve(address).await?;
    if !insecure && !address.ip().is_loopback() {
        return Err(
            "metrics are served in plain text, and only on loopback. Listen there, or say --metrics-insecure: then \
                    anyone who reaches the port can read the totals, but no names"
                .into(),
        );
    }
    Ok(address)
}

impl Listener {
    /// `names`: host names of the server besides IP addresses and `localhost`.
    pub(super) async fn open(address: &str, insecure: bool, names: &[String]) -> Result<Self, ListenError> {
        let open = async { bind(allowed(address, insecure).await?) };
        let listener = open.await.map_err(|why| ListenError::new(address, why))?;
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Listener { listener, browsers: Browsers { names, has_tls: false } })
    }

    /// The URL of the metrics.
    pub(super) fn address(&self) -> String {
        self.listener.local_addr().map(|address| format!("http://{address}/metrics")).unwrap_or_default()
    }

    /// Answers forever.
    pub(super) async fn serve(self, source: impl Source) {
        let (source, connections) = (Arc::new(source), HttpConnections::new(AT_ONCE));
        let browsers = Arc::new(self.browsers);
        loop {
            connections.wait_for_room().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (source, browsers, place) = (source.clone(), browsers.clone(), connections.enter());
                    tokio::spawn(async move {
                        tokio::select! {
                            _ = timeout(LONGEST, answer(stream, &place, &browsers, &*source)) => {}
                            () = place.closing() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept a connection for metrics");
                    sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }
}

async fn answer(stream: TcpStream, connection: &Arc<HttpConnection>, browsers: &Browsers, source: &impl Source) {
    // Beyond loopback, other host names may lead here, and everybody may read the metrics.
    let is_local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let checked = if is_local { browsers.check(&request) } else { browsers.check_origin(&request) };
        let answer = match checked {
            Ok(()) => of(request.method(), request.uri().path(), source),
            Err((status, why)) => text(status, why),
        };
        let counted = connection.request();
        let answer = answer.map(|body| counted.until_sent(body));
        async { Ok::<_, Infallible>(answer) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // Clients such as socat and the nc of busybox close their side after the request.
    http.keep_alive(false).half_close(true).timer(TokioTimer::new()).header_read_timeout(LONGEST_REQUEST);
    // Errors concern only this client, which receives them.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

fn of(method: &Method, path: &str, source: &impl Source) -> Response<Full<Bytes>> {
    match path {
        "/metrics" if *method == Method::GET || *method == Method::HEAD => {
            let mut response = Response::new(Full::from(source()));
            let kind = hyper::header::HeaderValue::from_static(crate::coordinator::metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        "/metrics" => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET it\n");
            response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            response
        }
        _ => text(StatusCode::NOT_FOUND, "there is nothing here but /metrics\n"),
    }
}
