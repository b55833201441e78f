//! Workers serve connections: one current-thread runtime each.
//!
//! tokio's multi-thread runtime takes two to four times the CPU here (`docs/decisions/0007-commits-on-the-workers.md`).
//! More workers use more cores; a connection stays with one worker.
use super::admission::{AdmittedStream, ConnectionPermit};
use super::authority::ValidAuthority;
use super::connection::{self, Serving};
use super::handshake::{MaybeTls, shake_hands};
use super::http;
use super::tls::Tls;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, yield_now};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;

/// Accepted connections that wait for a worker.
const QUEUE: usize = 4_096;

/// A runtime that serves connections.
pub(super) struct Worker {
    work: Work,
    entrance: Entrance,
    task: Task,
}

/// The services of a worker, and the settings of its connections.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) serving: Serving,
    /// For TCP; `None`: plain text.
    pub(super) tls: Option<Arc<Tls>>,
}

enum Task {
    Here(JoinHandle<()>),
    Thread(thread::JoinHandle<()>),
}

/// Hands connections to a worker.
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
    /// A worker on the current runtime.
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

/// TCP connections that are ready to be served.
fn ready(
    tls: Option<Arc<Tls>>,
    connections: mpsc::Receiver<(TcpStream, ConnectionPermit)>,
) -> Pin<Box<dyn Stream<Item = (MaybeTls, ConnectionPermit)> + Send>> {
    match tls {
        // If a socket cannot be used, only this connection is lost, not the listener.
        None => {
            Box::pin(ReceiverStream::new(connections).filter_map(|(stream, place)| {
                Some((Either::Left(tokio::net::TcpStream::from_std(stream).ok()?), place))
            }))
        }
        Some(tls) => {
            let (served, ready) = mpsc::channel(QUEUE);
            tokio::spawn(shake_hands(tls, connections, served));
            Box::pin(ReceiverStream::new(ready))
        }
    }
}

/// Serves connections until the drain; then finishes calls in flight.
async fn serve(work: Work, connections: Connections) {
    let Work { serving, tls } = work;
    let tracker = TaskTracker::new();
    let mut tcp = ready(tls, connections.tcp);
    let mut unix = ReceiverStream::new(connections.unix)
        .filter_map(|(stream, permit)| Some((tokio::net::UnixStream::from_std(stream).ok()?, permit)));
    loop {
        tokio::select! {
            () = serving.drain.cancelled() => break,
            Some((stream, permit)) = tcp.next() => {
                let stream = AdmittedStream::new(stream, permit);
                tracker.spawn(connection::serve(serving.clone(), stream, |stream| stream));
            }
            Some((stream, permit)) = unix.next() => {
                let stream = AdmittedStream::new(stream, permit);
                tracker.spawn(connection::serve(serving.clone(), stream, ValidAuthority::new));
            }
            else => break,
        }
        // One connection per turn of the runtime: when many arrive at once, calls on open connections do not wait for
        // all of them.
        yield_now().await;
    }
    drop((tcp, unix));
    tracker.close();
    tracker.wait().await;
}

impl http::Transport for tokio::net::UnixStream {
    /// Does nothing: the system notices when the other side of a Unix socket is gone.
    fn break_after(&self, _: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::super::admission::{ConnectionLimiter, ServiceContext};
    use super::super::services::Services;
    use super::*;
    use crate::clock::System;
    use crate::coordinator::quota::CallerKey;
    use std::convert::Infallible;
    use std::future::pending;
    use tokio_util::sync::CancellationToken;
    use tonic::body::Body;
    use tonic::codegen::http::{Request, Response};

    #[tokio::test]
    async fn of_connections_that_come_at_once_one_is_taken_in_a_turn_of_the_runtime() {
        let never = tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let services = Arc::new(Services::all_by(never));
        let worker = Worker::here(Work {
            serving: Serving { services, http: true, drain: CancellationToken::new() },
            tls: None,
        });
        let limiter = ConnectionLimiter::new(Arc::new(ServiceContext::default()), Arc::new(System::new()));
        let entrance = worker.entrance();
        let mut clients = Vec::new();
        for _ in 0..20 {
            let (client, stream) = UnixStream::pair().unwrap();
            stream.set_nonblocking(true).unwrap();
            entrance.unix(stream, limiter.enter(CallerKey::User(1))).await;
            clients.push(client);
        }
        let mut left = entrance.unix.max_capacity() - entrance.unix.capacity();
        assert!(left >= clients.len() - 1, "{left}");
        while left > 0 {
            yield_now().await;
            let now = entrance.unix.max_capacity() - entrance.unix.capacity();
            assert!(left - now <= 1, "{left}, then {now}");
            left = now;
        }
    }
}
