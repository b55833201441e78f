//! A TCP proxy that can break: what lies between a client and the server on a bad day.
//!
//! 1. Its port stays its own while it refuses: a socket is bound to it that does not listen, so that a connection is
//!    refused by the system, and nobody else gets the port.
//! 2. A connection that lost bytes cannot be mended, so mending drops what was there while something was lost.
//! 3. Several proxies before one server are its replicas, as far as a client can see.
//! 4. A process that another case is starting has copies of all sockets until it executes its program. Closing a listener
//!    leaves it listening in such a copy; only a shutdown ends it for all.
use crate::{
    frames::{From, Reader, Streams},
    refusals,
};
use rustix::net::{Shutdown, shutdown};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    task::{AbortHandle, JoinHandle},
};

/// More connections than a case makes at a moment.
const BACKLOG: u32 = 128;

/// A port of this machine that nobody else gets, on which a server may listen or not.
pub(crate) struct Port {
    _bound: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn reserve() -> io::Result<Self> {
        let socket = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Port { address: socket.local_addr()?, _bound: socket })
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

pub(crate) struct Proxy {
    port: Port,
    to: SocketAddr,
    links: Links,
    faults: Arc<Faults>,
    /// When the latest connection was made, compared with other proxies; 0: none was.
    latest: Arc<AtomicU64>,
    refusing: Option<JoinHandle<()>>,
    /// Something was lost: connections of now cannot be mended.
    spoiled: bool,
    accepting: Option<Accepting>,
}

struct Accepting {
    listener: Arc<TcpListener>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Faults {
    /// What the server says is dropped.
    swallowing: AtomicBool,
    /// Nothing is carried either way.
    hanging: AtomicBool,
}

/// Numbers the connections of all proxies.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

type Links = Arc<Mutex<Vec<Link>>>;

/// One connection through the proxy.
struct Link {
    streams: Arc<Mutex<Streams>>,
    pump: AbortHandle,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> io::Result<Self> {
        let port = Port::reserve()?;
        let (links, faults, latest) = Default::default();
        let mut proxy = Proxy { port, to, links, faults, latest, refusing: None, spoiled: false, accepting: None };
        proxy.accept(to)?;
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(SeqCst)
    }

    /// Drops all connections and refuses new ones.
    pub(crate) async fn cut(&mut self) {
        self.stop_accepting().await;
        self.drop_links();
    }

    /// Drops all connections; new ones are taken, and their calls refused with UNAVAILABLE, as by a server that is stopped
    /// in order.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        self.cut().await;
        let listener = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?.listen(BACKLOG)?;
        let to = listener.local_addr()?;
        self.refusing = Some(tokio::spawn(refusals::serve(listener)));
        self.spoiled = true;
        self.accept(to)
    }

    /// Keeps connections and takes new ones, and carries nothing any more.
    pub(crate) fn hang(&mut self) {
        self.faults.hanging.store(true, Relaxed);
        self.spoiled = true;
    }

    async fn stop_accepting(&mut self) {
        if let Some(Accepting { listener, task }) = self.accepting.take() {
            // Point 4. It fails only where the listener has ended.
            let _ = shutdown(&*listener, Shutdown::Both);
            task.abort();
            let _ = task.await;
        }
    }

    /// Goes on bringing calls to the server, and drops what it answers.
    pub(crate) fn swallow_answers(&mut self) {
        self.faults.swallowing.store(true, Relaxed);
        self.spoiled = true;
    }

    /// Drops what the server says on streams that are open now; everything else goes on.
    pub(crate) fn mute_watches(&mut self) {
        lock(&self.links).iter().for_each(|link| lock(&link.streams).mute());
        self.spoiled = true;
    }

    /// Lets new connections through, and drops those that may have lost something.
    pub(crate) async fn mend(&mut self) -> io::Result<()> {
        self.faults.swallowing.store(false, Relaxed);
        self.faults.hanging.store(false, Relaxed);
        if let Some(refusing) = self.refusing.take() {
            refusing.abort();
            self.stop_accepting().await;
        }
        if std::mem::take(&mut self.spoiled) {
            self.drop_links();
        }
        if self.accepting.is_none() { self.accept(self.to) } else { Ok(()) }
    }

    /// Streams that are open now, over all connections.
    pub(crate) fn open_streams(&self) -> usize {
        let links = lock(&self.links);
        let alive = links.iter().filter(|link| !link.pump.is_finished());
        alive.map(|link| lock(&link.streams).open()).sum()
    }

    fn accept(&mut self, to: SocketAddr) -> io::Result<()> {
        let listener = Arc::new(bound(self.port.address)?.listen(BACKLOG)?);
        let (links, faults, latest) = (self.links.clone(), self.faults.clone(), self.latest.clone());
        let listening = listener.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listening.accept().await {
                latest.store(CONNECTIONS.fetch_add(1, SeqCst), SeqCst);
                let streams = Arc::<Mutex<Streams>>::default();
                let pump = tokio::spawn(pump(client, to, streams.clone(), faults.clone())).abort_handle();
                lock(&links).push(Link { streams, pump });
            }
        });
        self.accepting = Some(Accepting { listener, task });
        Ok(())
    }

    fn drop_links(&self) {
        lock(&self.links).drain(..).for_each(|link| link.pump.abort());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let accepting = self.accepting.take().map(|accepting| accepting.task);
        accepting.into_iter().chain(self.refusing.take()).for_each(|task| task.abort());
        self.drop_links();
    }
}

/// Carries bytes both ways until either side is done.
async fn pump(client: TcpStream, to: SocketAddr, streams: Arc<Mutex<Streams>>, faults: Arc<Faults>) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    // What is small must not wait for more.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = carry(from_client, to_server, From::Client, &streams, &faults) => {}
        _ = carry(from_server, to_client, From::Server, &streams, &faults) => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    who: From,
    streams: &Mutex<Streams>,
    faults: &Faults,
) -> io::Result<()> {
    let is_swallowed = || who == From::Server && faults.swallowing.load(Relaxed);
    let mut reader = Reader::new(who);
    let (mut bytes, mut passed) = (vec![0; 16 * 1_024], Vec::new());
    loop {
        let length = from.read(&mut bytes).await?;
        if faults.hanging.load(Relaxed) {
            // Until the connection is dropped, also when its other side ends it.
            return std::future::pending().await;
        }
        if length == 0 {
            return Ok(());
        }
        passed.clear();
        reader.read(&bytes[..length], &mut lock(streams), &mut passed);
        if !is_swallowed() {
            to.write_all(&passed).await?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Point 4: with a copy of the listener, a proxy refuses when it is cut, and listens again when it is mended or drained.
pub(crate) async fn check_itself() {
    let server = Port::reserve().expect("a port can be had");
    let mut proxy = Proxy::start(server.address).expect("a proxy can be started");
    let copy =
        |proxy: &Proxy| rustix::io::dup(&*proxy.accepting.as_ref().expect("it listens").listener).expect("a copy");
    let first = copy(&proxy);
    proxy.cut().await;
    assert!(TcpStream::connect(proxy.address()).await.is_err(), "a proxy that is cut refuses");
    proxy.mend().await.expect("it listens again after a cut");
    let second = copy(&proxy);
    proxy.drain().await.expect("it listens again for a drain");
    assert!(TcpStream::connect(proxy.address()).await.is_ok(), "a proxy that drains takes connections");
    drop((first, second));
}
