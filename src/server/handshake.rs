//! TLS handshakes, limited in time and number. They do not delay connections that are already served.
//!
//! A connection that does not finish its handshake within [`LONGEST`] is closed. If there are [`MOST`] handshakes, the
//! oldest is closed for a new one. Normal handshakes take a few round trips, so only a flood causes this.
//!
//! A failed handshake is answered by an alert. The connection is closed only when nothing more arrives, or a moment
//! later: closing it with unread bytes would reset it, and the alert might be lost (RFC 9112, 9.6).
use super::admission::ConnectionPermit;
use super::http::Transport;
use super::tls::Tls;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// The maximum time of a handshake: a distant and lossy link needs a second or two.
const LONGEST: Duration = Duration::from_secs(10);
/// How long the server reads after a failed handshake.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes that the server reads then: many times what is in flight before the alert arrives.
const MAX_DRAINED: u64 = 1 << 20;
/// The maximum of concurrent handshakes per worker: about 20 kB each.
const MOST: usize = 1_024;
/// The maximum of unsent bytes that a connection buffers: one record of TLS.
const BUFFER: usize = 16 << 10;

/// A TCP connection, without TLS (left) or with it.
pub(super) type MaybeTls = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Sends on connections after their handshake, until the receiver is closed or no more arrive.
pub(super) async fn shake_hands(
    tls: Arc<Tls>,
    mut connections: mpsc::Receiver<(std::net::TcpStream, ConnectionPermit)>,
    served: mpsc::Sender<(MaybeTls, ConnectionPermit)>,
) {
    let mut under_way = Handshakes::default();
    loop {
        tokio::select! {
            () = served.closed() => return,
            connection = connections.recv() => match connection {
                Some((stream, place)) => under_way.begin(&tls, stream, place),
                // The server is stopping: new connections are no longer served.
                None => return,
            },
            Some(connection) = under_way.next() => {
                let _ = served.send(connection).await;
            }
        }
    }
}

#[derive(Default)]
struct Handshakes {
    tasks: JoinSet<(u64, Option<(MaybeTls, ConnectionPermit)>)>,
    /// By their number, which is the order in which they began.
    running: BTreeMap<u64, AbortHandle>,
    begun: u64,
}

impl Handshakes {
    fn begin(&mut self, tls: &Tls, stream: std::net::TcpStream, place: ConnectionPermit) {
        if self.running.len() >= MOST
            && let Some((_, oldest)) = self.running.pop_first()
        {
            oldest.abort();
        }
        let (number, acceptor, closing) = (self.begun, tls.acceptor(), place.closing());
        self.begun += 1;
        let handshake = async move {
            let stream = TcpStream::from_std(stream)?;
            let shaken = async {
                let done = timeout(LONGEST, acceptor.accept(stream).into_fallible()).await;
                match done.map_err(|_| io::ErrorKind::TimedOut)? {
                    Ok(stream) => Ok(stream),
                    Err((error, stream)) => {
                        // The handshake has already failed, so errors do not matter.
                        let _ = timeout(LINGER, drain_input(stream)).await;
                        Err(error)
                    }
                }
            };
            let mut stream = tokio::select! {
                () = closing.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
                shaken = shaken => shaken?,
            };
            stream.get_mut().1.set_buffer_limit(Some(BUFFER));
            Ok(Either::Right(Box::new(stream)))
        };
        let task = async move {
            match handshake.await {
                Ok(wire) => (number, Some((wire, place))),
                Err(error) => {
                    failed(&error);
                    (number, None)
                }
            }
        };
        self.running.insert(number, self.tasks.spawn(task));
    }

    /// The next finished handshake. `None`: there are none.
    async fn next(&mut self) -> Option<(MaybeTls, ConnectionPermit)> {
        loop {
            // An error: the handshake was aborted to admit another one.
            if let Ok((number, done)) = self.tasks.join_next().await? {
                self.running.remove(&number);
                if done.is_some() {
                    return done;
                }
            }
        }
    }
}

/// Closes our side, and reads until the client has closed its side.
async fn drain_input(mut stream: TcpStream) -> io::Result<u64> {
    stream.shutdown().await?;
    io::copy(&mut stream.take(MAX_DRAINED), &mut io::sink()).await
}

/// Logs a failed handshake, at debug level: otherwise any client could fill the log.
fn failed(error: &io::Error) {
    tracing::debug!(%error, "a TLS handshake failed");
}

impl Transport for MaybeTls {
    fn break_after(&self, silence: Duration) {
        let socket = match self {
            Either::Left(stream) => stream,
            Either::Right(stream) => stream.get_ref().0,
        };
        break_after(socket, silence);
    }
}

#[cfg(target_os = "linux")]
fn break_after(socket: &TcpStream, silence: Duration) {
    let ms = silence.as_millis().try_into().unwrap_or(u32::MAX);
    // If this fails, the connection breaks when TCP gives up by itself.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(socket, ms);
}

#[cfg(not(target_os = "linux"))]
fn break_after(_: &TcpStream, _: Duration) {}
