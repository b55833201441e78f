//! A TCP proxy that can break: what lies between a client and the server on a bad day.
//!
//! 1. Its port stays its own while it refuses: a socket is bound to it that does not listen, so that a connection is
//!    refused by the system, and nobody else gets the port.
//! 2. A connection that lost bytes cannot be mended, so mending drops what was there while something was lost.
use crate::frames::{From, Reader, Streams};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
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
    swallowing: Arc<AtomicBool>,
    /// Something was lost: connections of now cannot be mended.
    spoiled: bool,
    accepting: Option<JoinHandle<()>>,
}

type Links = Arc<Mutex<Vec<Link>>>;

/// One connection through the proxy.
struct Link {
    streams: Arc<Mutex<Streams>>,
    pump: AbortHandle,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> io::Result<Self> {
        let port = Port::reserve()?;
        let (links, swallowing) = Default::default();
        let mut proxy = Proxy { port, to, links, swallowing, spoiled: false, accepting: None };
        proxy.accept()?;
        Ok(proxy)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Drops all connections and refuses new ones.
    pub(crate) async fn cut(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // The listener is closed when its task is gone.
            let _ = accepting.await;
        }
        self.drop_links();
    }

    /// Goes on bringing calls to the server, and drops what it answers.
    pub(crate) fn swallow_answers(&mut self) {
        self.swallowing.store(true, Relaxed);
        self.spoiled = true;
    }

    /// Drops what the server says on streams that are open now; everything else goes on.
    pub(crate) fn mute_watches(&mut self) {
        lock(&self.links).iter().for_each(|link| lock(&link.streams).mute());
        self.spoiled = true;
    }

    /// Lets new connections through, and drops those that may have lost something.
    pub(crate) fn mend(&mut self) -> io::Result<()> {
        self.swallowing.store(false, Relaxed);
        if std::mem::take(&mut self.spoiled) {
            self.drop_links();
        }
        if self.accepting.is_none() { self.accept() } else { Ok(()) }
    }

    /// Streams that are open now, over all connections.
    pub(crate) fn open_streams(&self) -> usize {
        let links = lock(&self.links);
        let alive = links.iter().filter(|link| !link.pump.is_finished());
        alive.map(|link| lock(&link.streams).open()).sum()
    }

    fn accept(&mut self) -> io::Result<()> {
        let listener = bound(self.port.address)?.listen(BACKLOG)?;
        let (to, links, swallowing) = (self.to, self.links.clone(), self.swallowing.clone());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let streams = Arc::<Mutex<Streams>>::default();
                let pump = tokio::spawn(pump(client, to, streams.clone(), swallowing.clone())).abort_handle();
                lock(&links).push(Link { streams, pump });
            }
        }));
        Ok(())
    }

    fn drop_links(&self) {
        lock(&self.links).drain(..).for_each(|link| link.pump.abort());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
        self.drop_links();
    }
}

/// Carries bytes both ways until either side is done.
async fn pump(client: TcpStream, to: SocketAddr, streams: Arc<Mutex<Streams>>, swallowing: Arc<AtomicBool>) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    // What is small must not wait for more.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let never = AtomicBool::new(false);
    tokio::select! {
        _ = carry(from_client, to_server, Reader::new(From::Client), &streams, &never) => {}
        _ = carry(from_server, to_client, Reader::new(From::Server), &streams, &swallowing) => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut reader: Reader,
    streams: &Mutex<Streams>,
    swallowing: &AtomicBool,
) -> io::Result<()> {
    let (mut bytes, mut passed) = (vec![0; 16 * 1_024], Vec::new());
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        passed.clear();
        reader.read(&bytes[..length], &mut lock(streams), &mut passed);
        if !swallowing.load(Relaxed) {
            to.write_all(&passed).await?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
