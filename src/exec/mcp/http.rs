//! Serving many clients, over streamable HTTP.
//!
//! 1. Who can call can run commands. So it listens on loopback alone unless told otherwise, no page in a browser gets
//!    through (by its `Origin`, or by a name that was bent to loopback), and a token keeps other users of the machine out.
//! 2. A session ends when its client deletes it (its commands at once), or is not heard of for a day; a request of the era without sessions is
//!    cancelled when its connection closes.
use super::{
    Caller, ExecServer,
    deletions::{Deletions, SESSION as SESSION_HEADER},
};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore};

/// Where it is served.
pub(crate) const PATH: &str = "/mcp";
/// How long a session is kept of which nothing is heard: a person may take a while.
const SESSION: Duration = Duration::from_secs(24 * 60 * 60);
/// Connections at a time. Each may have a request on its way.
const CONNECTIONS: usize = 512;
/// The largest request: a command line, or what is written to a command.
const REQUEST: usize = 1024 * 1024;
/// MCP sessions at a time, with the requests that have none.
const CALLERS: usize = 1_024;
/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// How to serve.
#[derive(Clone, Default)]
pub(crate) struct Http {
    /// Requests have to bring it: `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
    /// Take requests for every host name, not only for those of loopback.
    pub any_host: bool,
}

type Service = StreamableHttpService<Caller, LocalSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves until it is dropped.
///
/// # Errors
/// The listener failed.
pub(crate) async fn serve_http(server: &Arc<ExecServer>, listener: TcpListener, http: Http) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_max_request_body_bytes(REQUEST)
        .with_cancellation_token(server.shutdown.child_token());
    // No name can be bent to our own address, where it is another one of loopback.
    let bound = listener.local_addr()?;
    let own = bound.ip().to_string();
    let config = config.with_allowed_hosts(["localhost", "127.0.0.1", "::1", &own]);
    // A page of our own port would be ours; there is none, but clients may say so.
    let origins = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("http://{host}:{}", bound.port()));
    let config = config.with_allowed_origins(origins.into_iter().chain([format!("http://{bound}")]));
    let config = if http.any_host { config.disable_allowed_hosts() } else { config };
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION);
    let (callers, deletions) = (server.clone(), Arc::<Deletions>::default());
    let deleted = deletions.clone();
    let call = move || match Arc::strong_count(&callers) {
        // Each has one.
        count if count > CALLERS => Err(io::Error::other("too many sessions: delete some")),
        _ => Ok(Caller::over_http(&callers, &deletions)),
    };
    let service = Service::new(call, Arc::new(sessions), config);
    let token: Option<Arc<str>> = http.token.map(Into::into);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
        let connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            // Of one connection that has gone already, or no more files: others may still come.
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (service, token, over) = (service.clone(), token.clone(), server.shutdown.clone());
        let deleted = deleted.clone();
        tokio::spawn(async move {
            let answering = service_fn(|request| answer(&service, token.as_deref(), &deleted, request));
            let mut served = http1::Builder::new();
            let served = served
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(connection), answering);
            tokio::select! {
                served = served => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "a connection ended");
                    }
                }
                () = over.cancelled() => {}
            }
            drop(place);
        });
    }
}

async fn answer(
    service: &Service,
    token: Option<&str>,
    deletions: &Deletions,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    if let Some(token) = token
        && !brings(&request, token)
    {
        let why = "give the token of the exec server: Authorization: Bearer TOKEN\n";
        let mut refused = plain(StatusCode::UNAUTHORIZED, why);
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return Ok(refused);
    }
    Ok(match request.uri().path() {
        PATH => handle(service, deletions, request).await,
        _ => plain(StatusCode::NOT_FOUND, "MCP is served at /mcp\n"),
    })
}

async fn handle(service: &Service, deletions: &Deletions, request: Request<Incoming>) -> Answer {
    let session = request.headers().get(SESSION_HEADER).filter(|_| request.method() == Method::DELETE).cloned();
    let answer = service.handle(request).await;
    if let Some(Ok(session)) = session.as_ref().map(|session| session.to_str())
        && answer.status().is_success()
    {
        deletions.deleted(session);
    }
    answer
}

fn brings(request: &Request<Incoming>, token: &str) -> bool {
    let value = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let Some((scheme, brought)) = value.and_then(|value| value.split_at_checked(7)) else { return false };
    // All of it is looked at, whatever is found: the time says nothing.
    let differ = brought.iter().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    scheme.eq_ignore_ascii_case(b"Bearer ") && brought.len() == token.len() && differ == 0
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
