//! Listens and accepts: TCP on loopback, or with TLS anywhere, and Unix sockets of the same user.
use super::admission::{ConnectionLimiter, ConnectionPermit, Turn};
use super::worker::Entrance;
use crate::coordinator::quota::CallerKey;
use std::fmt;
use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// The maximum number of connections that wait to be accepted, for many clients that reconnect at once. A TCP client
/// beyond it gets no answer, and its system tries again after 1, 3 and 7 s. Linux reduces the number to
/// `net.core.somaxconn`, 4,096 by default (listen(2)).
const BACKLOG: u32 = 16_384;
/// What a connection may have in the kernel that its client has not read, in bytes; Linux doubles it, for its own
/// overhead. These buffers count as memory of a control group, and Linux would let each grow to 4 MiB.
const SEND_BUFFER: u32 = 128 << 10;
/// The delay after an error that would repeat at once, such as running out of file descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The resolution of tokio's timers.
const FINEST_TIMER: Duration = Duration::from_millis(1);

/// Where to listen: `HOST:PORT` (port 0: any) or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}: {why}")]
pub struct ListenError {
    address: String,
    why: String,
}

impl ListenError {
    pub(super) fn new(address: &str, why: String) -> Self {
        ListenError { address: address.to_owned(), why }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // Clients read unix://HOST/PATH as another machine.
            return match path.strip_prefix("//").unwrap_or(path) {
                "" => Err("unix: needs a path".into()),
                relative if path.starts_with("//") && !relative.starts_with('/') => {
                    Err("unix:// needs an absolute path".into())
                }
                path => Ok(Listen::Unix(path.into())),
            };
        }
        let has_port = text
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok());
        match has_port {
            true => Ok(Listen::Tcp(text.into())),
            false => Err("expected HOST:PORT or unix:PATH".into()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => f.write_str(address),
            // Otherwise the second slash would be read as an empty host.
            Listen::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "unix://{}", path.display())
            }
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The protocol over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tcp {
    /// Plain text, on loopback.
    Plain,
    /// Plain text, anywhere.
    Insecure,
    /// TLS, anywhere.
    Tls,
}

/// An open listener. When it is dropped, its socket file is removed.
pub(super) enum Listener {
    Tcp(TcpListener, Tcp),
    Unix(UnixListener, SocketFile),
}

/// The socket file of this process, identified by its inode.
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    pub(super) async fn open(listen: &Listen, tcp: Tcp) -> Result<Self, ListenError> {
        let opened = match listen {
            Listen::Tcp(address) => open_tcp(address, tcp).await.map(|listener| Listener::Tcp(listener, tcp)),
            Listen::Unix(path) => open_unix(path).await.map(|(listener, file)| Listener::Unix(listener, file)),
        };
        opened.map_err(|why| ListenError { address: listen.to_string(), why })
    }

    pub(super) fn address(&self) -> String {
        match self {
            Listener::Tcp(listener, tcp) => {
                let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
                if *tcp == Tcp::Tls { format!("https://{address}") } else { address }
            }
            Listener::Unix(_, file) => Listen::Unix(file.path.clone()).to_string(),
        }
    }

    /// Hands connections to the workers in turn, until `stop`.
    pub(super) async fn accept(
        self,
        entrances: Vec<Entrance>,
        limiter: Arc<ConnectionLimiter>,
        stop: CancellationToken,
    ) {
        for entrance in entrances.iter().cycle() {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.accept_one(entrance, &limiter) => accepted,
            };
            if let Err(error) = accepted {
                tracing::warn!(address = self.address(), %error, "accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }

    async fn accept_one(&self, entrance: &Entrance, limiter: &Arc<ConnectionLimiter>) -> io::Result<()> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let (stream, entrance) = (stream.into_std()?, entrance.clone());
                let enter = move |permit| async move { entrance.tcp(stream, permit).await };
                let_in(limiter, CallerKey::peer(peer.ip()), enter).await;
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let key = CallerKey::User(stream.peer_cred()?.uid());
                let (stream, entrance) = (stream.into_std()?, entrance.clone());
                let enter = move |permit| async move { entrance.unix(stream, permit).await };
                let_in(limiter, key, enter).await;
            }
        }
        Ok(())
    }
}

/// Lets a connection of this caller in. One that has to wait for its turn delays no other.
async fn let_in<F>(
    limiter: &Arc<ConnectionLimiter>,
    key: CallerKey,
    enter: impl FnOnce(ConnectionPermit) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send,
{
    match limiter.turn(&key) {
        Turn::Now => {
            let permit = limiter.enter(key);
            let pause = permit.pause();
            enter(permit).await;
            yield_to_requests(pause).await;
        }
        Turn::Later(waiting) => {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                if waiting.over().await {
                    enter(limiter.enter(key)).await;
                }
            });
        }
    }
}

/// Waits after a connection was closed for a new one, so that new connections have time for a first request.
async fn yield_to_requests(pause: Option<Duration>) {
    match pause {
        Some(pause) if pause >= FINEST_TIMER => tokio::time::sleep(pause).await,
        Some(_) => tokio::task::yield_now().await,
        None => {}
    }
}

async fn open_tcp(address: &str, tcp: Tcp) -> Result<TcpListener, String> {
    bind(allowed(address, tcp).await?)
}

/// Resolves `HOST:PORT`, and checks that `tcp` is allowed there.
pub(super) async fn allowed(address: &str, tcp: Tcp) -> Result<SocketAddr, String> {
    let address = resolve(address).await?;
    if tcp == Tcp::Plain && !address.ip().is_loopback() {
        return Err("plain text is served only on loopback and on Unix sockets. Listen there, or serve TLS with \
                    --tls-cert and --tls-key, or say --insecure: then anyone on the network can read and change what is \
                    sent"
            .into());
    }
    Ok(address)
}

/// The address of `HOST:PORT`.
pub(super) async fn resolve(address: &str) -> Result<SocketAddr, String> {
    let addresses = tokio::net::lookup_host(address).await.map_err(|error| error.to_string())?;
    addresses.into_iter().next().ok_or_else(|| "the name has no address".into())
}

pub(super) fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit it.
        socket.set_send_buffer_size(SEND_BUFFER)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: stop it, or listen elsewhere (port 0 takes a free one)".into()
        }
        _ => error.to_string(),
    })
}

pub(super) async fn open_unix(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    remove_stale(path).await?;
    let open = || -> io::Result<_> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // No client can connect before the socket listens, so only the owner ever can.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let file = SocketFile { path: path.to_owned(), inode: fs::symlink_metadata(path)?.ino() };
        listen(&socket, BACKLOG as i32)?;
        Ok((UnixListener::from_std(socket.into())?, file))
    };
    open().map_err(|error| error.to_string())
}

/// Removes the socket file of a server that was killed.
async fn remove_stale(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt;
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err("a file that is not a socket exists there; it was not changed".into())
        }
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => Err("another program listens there: stop it, or listen elsewhere".into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| format!("remove the socket of a previous server: {error}"))
            }
            Err(error) => Err(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listen_address_is_host_and_port_or_a_path() {
        let parse = |text: &str| text.parse::<Listen>();
        assert_eq!(parse("127.0.0.1:0"), Ok(Listen::Tcp("127.0.0.1:0".into())));
        assert_eq!(parse("[::1]:7420"), Ok(Listen::Tcp("[::1]:7420".into())));
        assert_eq!(parse("unix:/run/p.sock"), Ok(Listen::Unix("/run/p.sock".into())));
        assert_eq!(parse("unix:///run/p.sock"), Ok(Listen::Unix("/run/p.sock".into())));
        for bad in [
            "",
            "7420",
            ":7420",
            "host",
            "host:",
            "host:65536",
            "unix:",
            "unix://",
            "unix://host/p.sock",
            "http://127.0.0.1:0",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn g7_the_kernel_keeps_a_bounded_part_of_what_a_client_does_not_read() {
        use rustix::net::sockopt::socket_send_buffer_size;
        let listener = bind("127.0.0.1:0".parse().expect("it is an address")).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let (client, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (_client, (stream, _)) = (client.expect("it listens"), accepted.expect("it was opened"));
        let size = socket_send_buffer_size(&stream).expect("it is a socket");
        assert!(size <= 2 * SEND_BUFFER as usize, "{size}");
    }

    #[test]
    fn a_printed_path_is_parsed_as_the_same_path() {
        for path in ["/run/p.sock", "p.sock", "//run/p.sock", "///p.sock"] {
            let listen = Listen::Unix(path.into());
            assert_eq!(listen.to_string().parse(), Ok(listen));
        }
    }
}
