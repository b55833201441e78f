//! A TCP proxy that simulates network faults between a client and the server.
//!
//! 1. Its port stays reserved while it refuses connections: a socket is bound to it but does not listen, so the system
//!    refuses connections, and no other process gets the port.
//! 2. A connection that lost bytes cannot be repaired, so `mend` drops the connections that existed while bytes were
//!    lost.
//! 3. To a client, several proxies before one server look like its replicas.
//! 4. A child process of another case has copies of all sockets until it executes its program. A closed listener still
//!    listens in such a copy; only a shutdown ends it for all.
#[path = "../it/support/port.rs"]
mod port;

use crate::{
    frames::{From, Reader, Streams},
    refusals,
};
pub(crate) use port::Port;
use port::bound;
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
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    task::{AbortHandle, JoinHandle},
};

/// More connections than a case opens at once.
const BACKLOG: u32 = 128;

pub(crate) struct Proxy {
    port: Port,
    to: SocketAddr,
    links: Links,
    faults: Arc<Faults>,
    /// The number of the latest connection, to compare with other proxies; 0: there was none.
    latest: Arc<AtomicU64>,
    refusing: Option<JoinHandle<()>>,
    /// Whether bytes were lost, so that present connections cannot be repaired.
    spoiled: bool,
    accepting: Option<Accepting>,
}

struct Accepting {
    listener: Arc<TcpListener>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Faults {
    /// Whether bytes from the server are dropped.
    swallowing: AtomicBool,
    /// Whether no bytes are passed on, in either direction.
    hanging: AtomicBool,
}

/// Counts the connections of all proxies.
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

    /// Drops all connections; new ones are accepted, and their calls refused with UNAVAILABLE, as by a server that is
    /// stopping.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        self.cut().await;
        let listener = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?.listen(BACKLOG)?;
        let to = listener.local_addr()?;
        self.refusing = Some(tokio::spawn(refusals::serve(listener)));
        self.spoiled = true;
        self.accept(to)
    }

    /// Keeps connections and accepts new ones, but passes no bytes on.
    pub(crate) fn hang(&mut self) {
        self.faults.hanging.store(true, Relaxed);
        self.spoiled = true;
    }

    async fn stop_accepting(&mut self) {
        if let Some(Accepting { listener, task }) = self.accepting.take() {
            // Point 4. This fails only if the listener has ended.
            let _ = shutdown(&*listener, Shutdown::Both);
            task.abort();
            let _ = task.await;
        }
    }

    /// Passes calls on to the server, but drops its answers.
    pub(crate) fn swallow_answers(&mut self) {
        self.faults.swallowing.store(true, Relaxed);
        self.spoiled = true;
    }

    /// Drops the server's data on streams that are open now; everything else passes.
    pub(crate) fn mute_watches(&mut self) {
        lock(&self.links).iter().for_each(|link| lock(&link.streams).mute());
        self.spoiled = true;
    }

    /// Passes new connections on, and drops those that may have lost bytes.
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

    /// The number of open streams of all connections.
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

/// Copies bytes in both directions until either side closes.
async fn pump(client: TcpStream, to: SocketAddr, streams: Arc<Mutex<Streams>>, faults: Arc<Faults>) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    // Small messages must not wait for more data.
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
            // Until the connection is dropped, even if its other side has closed it.
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

/// Point 4: with a copy of the listener in a child, a proxy refuses when it is cut, and listens again when it is
/// repaired or drained.
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
