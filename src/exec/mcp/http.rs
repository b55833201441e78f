//! Serves many clients over streamable HTTP.
//!
//! 1. Any client can run commands. So the server listens on loopback only by default, refuses web pages (by `Origin`, and by
//!    `Host` against DNS rebinding), and a token keeps other users of the machine out.
//! 2. A command must not approve itself (G8). So a request of a process that may be a command is refused ([`super::peer`]), a session
//!    belongs to the process that began it, and nobody is asked for a caller without a token that commands cannot read, or for one
//!    that is unknown because it is behind a proxy.
//! 3. A session ends when its client deletes it, which ends its commands at once, after a day without a request, or if there are too many
//!    (`http_sessions`). A request without a session is cancelled when its connection closes.
use super::{
    Caller, ExecServer,
    http_caller::{Connection, HttpCaller},
    http_sessions::{HttpSessions, session_of},
    peer::Peer,
};
use crate::http_connections::{HttpConnection, HttpConnections, UntilSent};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{SessionManager, local::LocalSessionManager},
};
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// The path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";
/// How long a session without requests is kept: a person may take long to answer.
const SESSION_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of connections. Each may have a request in flight; without one, it gives way to a new connection.
const MAX_CONNECTIONS: usize = 512;
/// The maximum size of a request, in bytes: a command line, or input for a command.
const MAX_REQUEST: usize = 1024 * 1024;
/// The maximum number of MCP sessions and of requests without a session.
const MAX_CALLERS: usize = 1_024;
/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of the HTTP server.
#[derive(Clone, Default)]
pub(crate) struct Http {
    /// Every request must have `Authorization: Bearer TOKEN`; `None`: no token is needed.
    pub token: Option<HttpToken>,
    /// A person may be asked for callers that are on another machine or behind a proxy.
    pub trusts_proxy: bool,
    /// Accept requests for every host name, not only for those of loopback.
    pub any_host: bool,
}

/// The token of the HTTP server.
#[derive(Clone)]
pub(crate) struct HttpToken {
    pub secret: String,
    /// Whether commands cannot read it, so that its owner may answer questions.
    pub is_hidden: bool,
}

impl Http {
    /// Why nobody is asked for this caller.
    fn unable(&self, peer: Peer) -> Option<&'static str> {
        match peer {
            _ if !self.token.as_ref().is_some_and(|token| token.is_hidden) => {
                Some("over HTTP, the exec server asks only with a token that commands cannot read (--http-token-fd)")
            }
            Peer::Elsewhere if !self.trusts_proxy => {
                Some("the caller is on another machine or behind a proxy (--http-trust-proxy)")
            }
            _ => None,
        }
    }
}

struct Service {
    http: Http,
    mcp: StreamableHttpService<Caller, LocalSessionManager>,
    manager: Arc<LocalSessionManager>,
    sessions: Arc<HttpSessions>,
    server: Arc<ExecServer>,
}

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Serves until the future is dropped.
///
/// # Errors
/// The listener failed.
pub(crate) async fn serve_http(server: &Arc<ExecServer>, listener: TcpListener, http: Http) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_REQUEST)
        .with_cancellation_token(server.shutdown.child_token());
    // The bound address may be another loopback address; DNS rebinding cannot send it as a host name.
    let bound = listener.local_addr()?;
    let own = bound.ip().to_string();
    let config = config.with_allowed_hosts(["localhost", "127.0.0.1", "::1", &own]);
    // Some clients send the server's own address as the origin. This server has no pages, so this admits none.
    let origins = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("http://{host}:{}", bound.port()));
    let config = config.with_allowed_origins(origins.into_iter().chain([format!("http://{bound}")]));
    let config = if http.any_host { config.disable_allowed_hosts() } else { config };
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_TTL);
    let manager = Arc::new(sessions);
    let sessions = Arc::<HttpSessions>::default();
    let (callers, of_callers) = (server.clone(), sessions.clone());
    let call = move || match Arc::strong_count(&callers) {
        // Each caller has a reference.
        count if count > MAX_CALLERS => Err(io::Error::other("too many sessions: delete some")),
        _ => Ok(Caller::over_http(&callers, &of_callers)),
    };
    let service = Arc::new(Service {
        http,
        mcp: StreamableHttpService::new(call, manager.clone(), config),
        manager,
        sessions,
        server: server.clone(),
    });
    let connections = HttpConnections::new(MAX_CONNECTIONS);
    loop {
        connections.wait_for_room().await;
        let (connection, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The connection has closed already, or no file descriptor is free: later connections may succeed.
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Otherwise the end of an answer waits 40 ms for the client's acknowledgement of its beginning (RFC 896). It fails only if the
        // connection has ended.
        let _ = connection.set_nodelay(true);
        // The local address is unknown only if the connection has ended already.
        let Ok(local) = connection.local_addr() else { continue };
        let ends = Connection::new(peer, local);
        let (service, shutdown) = (service.clone(), server.shutdown.clone());
        let place = connections.enter();
        tokio::spawn(async move {
            let respond = service_fn(|request| respond(&service, &ends, &place, request));
            let mut served = http1::Builder::new();
            let served = served
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(connection), respond);
            tokio::select! {
                served = served => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "a connection ended");
                    }
                }
                () = place.closing() => {}
                () = shutdown.cancelled() => {}
            }
        });
    }
}

async fn respond(
    service: &Service,
    ends: &Connection,
    connection: &Arc<HttpConnection>,
    request: Request<Incoming>,
) -> Result<HttpResponse, Infallible> {
    if let Some(token) = &service.http.token
        && !has_token(&request, &token.secret)
    {
        let why = "send the token of the exec server: Authorization: Bearer TOKEN\n";
        let mut refused = plain(StatusCode::UNAUTHORIZED, why);
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return Ok(refused);
    }
    Ok(match request.uri().path() {
        PATH => {
            let counted = connection.request();
            let response = service.handle(ends, request).await;
            response.map(|body| counted.until_sent(body).boxed())
        }
        _ => plain(StatusCode::NOT_FOUND, "MCP is served at /mcp\n"),
    })
}

impl Service {
    async fn handle(&self, ends: &Connection, request: Request<Incoming>) -> HttpResponse {
        let (mut parts, body) = request.into_parts();
        let body = match Limited::new(body, MAX_REQUEST).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 1 MiB\n");
            }
            Err(_) => return plain(StatusCode::BAD_REQUEST, "the request is incomplete\n"),
        };
        let peer = match ends.sender(&parts.headers, &body).await {
            Ok(peer) => peer,
            Err(why) => return plain(StatusCode::FORBIDDEN, why),
        };
        let method = parts.method.clone();
        let named = session_of(&parts.headers);
        if named.as_deref().is_some_and(|session| !self.sessions.belongs_to(session, peer)) {
            // As for a session that does not exist.
            return plain(StatusCode::NOT_FOUND, "Not Found: Session not found");
        }
        parts.extensions.insert(HttpCaller { peer, unable: self.http.unable(peer) });
        // A stream that only listens does not count as use.
        let counted = named.as_deref().filter(|_| method == Method::POST).map(|session| self.sessions.request(session));
        let response = self.mcp.handle(Request::from_parts(parts, Full::new(body))).await;
        match named {
            Some(session) if method == Method::DELETE && response.status().is_success() => {
                self.sessions.end(&session);
            }
            None if method == Method::POST => {
                if let Some(session) = session_of(response.headers()) {
                    self.make_room_for(&session, peer).await;
                }
            }
            _ => {}
        }
        response.map(|body| UntilSent::new(body, counted).boxed())
    }

    async fn make_room_for(&self, session: &str, peer: Peer) {
        if let Some(unused) = self.sessions.add(session, peer, |owner| self.server.commands.has_any(owner))
            && let Err(error) = self.manager.close_session(&unused.as_str().into()).await
        {
            tracing::warn!(%error, "end a session that is not used");
        }
    }
}

fn has_token(request: &Request<Incoming>, token: &str) -> bool {
    let value = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some((scheme, given)) = value.and_then(|value| value.split_at_checked(7)) else { return false };
    // Compares every byte, so that the time reveals nothing about the token.
    let differ = given.iter().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.len() == token.len() && differ == 0
}

fn plain(status: StatusCode, text: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
