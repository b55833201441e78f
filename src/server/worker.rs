//! Workers serve connections: one current-thread runtime each.
//!
//! tokio's multi-thread runtime would take two to four times the CPU here: woken streams hop between its threads, so
//! that their frames are written one by one instead of many at once (`docs/performance.md`). More cores are used by
//! more workers; a connection stays with one.
use super::admission::{AdmittedStream, ConnectionPermit};
use super::authority::ValidAuthority;
use super::handshake::{MaybeTls, shake_hands};
use super::http;
use super::tls::Tls;
use std::convert::Infallible;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;

/// Streams of one connection at most. A client that needs more should watch several threads on one stream.
const MAX_STREAMS: u32 = 10_000;
/// Bytes of headers of one request at most.
const MAX_HEADERS: u32 = 16 << 10;
/// A connection without traffic for this long is sent a ping...
const PING_AFTER: Duration = Duration::from_secs(30);
/// ...and is closed when there is none: its watches would otherwise stay for ever.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Accepted connections that wait for a worker.
const QUEUE: usize = 64;

/// A runtime that serves connections.
pub(super) struct Worker {
    work: Work,
    entrance: Entrance,
    task: Task,
}

/// The services of a worker.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) routes: Routes,
    /// For TCP; `None`: plain text.
    pub(super) tls: Option<Arc<Tls>>,
    /// HTTP/1 is served too.
    pub(super) http: bool,
    pub(super) drain: CancellationToken,
}

enum Task {
    Here(JoinHandle<()>),
    Thread(thread::JoinHandle<()>),
}

/// Where a worker takes connections.
#[derive(Clone)]
pub(super) struct Entrance {
    tcp: mpsc::Sender<(TcpStream, ConnectionPermit)>,
    unix: mpsc::Sender<(UnixStream, ConnectionPermit)>,
}

struct Connections {
    tcp: mpsc::Receiver<(TcpStream, ConnectionPermit)>,
    unix: mpsc::Receiver<(UnixStream, ConnectionPermit)>,
}

fn entrance() -> (Entrance, Connections) {
    let (tcp, tcp_connections) = mpsc::channel(QUEUE);
    let (unix, unix_connections) = mpsc::channel(QUEUE);
    (Entrance { tcp, unix }, Connections { tcp: tcp_connections, unix: unix_connections })
}

impl Entrance {
    pub(super) async fn tcp(&self, connection: TcpStream, place: ConnectionPermit) {
        // A worker that has ended drops the connection: the server is stopping.
        let _ = self.tcp.send((connection, place)).await;
    }

    pub(super) async fn unix(&self, connection: UnixStream, place: ConnectionPermit) {
        let _ = self.unix.send((connection, place)).await;
    }
}

impl Worker {
    /// A worker on the runtime that this is called on.
    pub(super) fn here(work: Work) -> Self {
        let (entrance, connections) = entrance();
        let task = Task::Here(tokio::spawn(serve(work.clone(), connections)));
        Worker { work, entrance, task }
    }

    /// A worker on a runtime of its own.
    pub(super) fn on_new_thread(number: usize, work: Work) -> io::Result<Self> {
        let (entrance, connections) = entrance();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let served = work.clone();
        let run = move || runtime.block_on(serve(served, connections));
        let task = Task::Thread(thread::Builder::new().name(format!("serve-{number}")).spawn(run)?);
        Ok(Worker { work, entrance, task })
    }

    pub(super) fn work(&self) -> Work {
        self.work.clone()
    }

    pub(super) fn entrance(&self) -> Entrance {
        self.entrance.clone()
    }

    /// Waits until all its connections have ended.
    pub(super) async fn finish(self) {
        let _ = match self.task {
            Task::Here(task) => task.await.is_ok(),
            Task::Thread(thread) => tokio::task::spawn_blocking(|| thread.join().is_ok()).await.is_ok(),
        };
    }
}

/// The settings of every connection.
pub(super) fn with_limits() -> Server {
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keepalive_interval(Some(PING_AFTER))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
}

/// TCP connections that are ready to be served.
fn ready(
    tls: Option<Arc<Tls>>,
    connections: mpsc::Receiver<(TcpStream, ConnectionPermit)>,
) -> Pin<Box<dyn Stream<Item = (MaybeTls, ConnectionPermit)> + Send>> {
    match tls {
        // A socket that cannot be taken over is one connection lost, not the listener.
        None => Box::pin(ReceiverStream::new(connections).filter_map(|(stream, place)| {
            Some((MaybeTls::Plain(tokio::net::TcpStream::from_std(stream).ok()?), place))
        })),
        Some(tls) => {
            let (served, ready) = mpsc::channel(QUEUE);
            tokio::spawn(shake_hands(tls, connections, served));
            Box::pin(ReceiverStream::new(ready))
        }
    }
}

/// Serves what comes in, until the drain; then finishes what is in flight.
async fn serve(work: Work, connections: Connections) {
    let Work { routes, tls, http, drain } = work;
    let tcp = ready(tls, connections.tcp).map(|(stream, place)| AdmittedStream::new(stream, place));
    let unix = ReceiverStream::new(connections.unix)
        .filter_map(|(stream, place)| Some(AdmittedStream::new(tokio::net::UnixStream::from_std(stream).ok()?, place)));
    if http {
        let tracker = TaskTracker::new();
        let tcp = http::separate(tcp, routes.clone(), drain.clone(), tracker.clone());
        let unix = http::separate(unix, routes.clone(), drain.clone(), tracker.clone());
        let unix = ReceiverStream::new(unix).map(ValidAuthority::new);
        tokio::join!(serve_http2(ReceiverStream::new(tcp), &routes, &drain), serve_http2(unix, &routes, &drain));
        tracker.close();
        tracker.wait().await;
    } else {
        tokio::join!(serve_http2(tcp, &routes, &drain), serve_http2(unix.map(ValidAuthority::new), &routes, &drain));
    }
}

async fn serve_http2<S>(connections: impl Stream<Item = S>, routes: &Routes, drain: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let server = with_limits().add_routes(routes.clone());
    let connections = connections.map(Ok::<_, Infallible>);
    if let Err(error) = server.serve_with_incoming_shutdown(connections, drain.cancelled()).await {
        tracing::error!(%error, "serve connections");
    }
}

impl http::Transport for tokio::net::UnixStream {
    /// The system notices when the other side is gone.
    fn break_after(&self, _: Duration) {}
}
