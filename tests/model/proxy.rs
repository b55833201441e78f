//! A faulty network between a client and the server: connections break before a call has arrived, after it, or before
//! its answer has arrived.
use fastrand::Rng;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The number of pieces that the client sends on a connection before it breaks; a call is one or two.
const PIECES: usize = 30;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    to: Arc<Mutex<SocketAddr>>,
    broken: Arc<Mutex<[usize; 3]>>,
    _links: JoinSet<()>,
}

/// Where a connection breaks.
#[derive(Clone, Copy)]
enum Break {
    BeforeTheCall,
    AfterTheCall,
    BeforeTheAnswer,
}

impl Proxy {
    pub(crate) async fn start(to: SocketAddr, mut random: Rng) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, to) = (listener.local_addr()?, Arc::new(Mutex::new(to)));
        let (broken, mut links) = (Arc::<Mutex<[usize; 3]>>::default(), JoinSet::new());
        let (server, counts) = (to.clone(), broken.clone());
        links.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let how = [Break::BeforeTheCall, Break::AfterTheCall, Break::BeforeTheAnswer][random.usize(..3)];
                let (pieces, to, counts) = (3 + random.usize(..PIECES), *lock(&server), counts.clone());
                links.spawn(async move {
                    if let Ok(true) = carry(client, to, pieces, how).await {
                        lock(&counts)[how as usize] += 1;
                    }
                });
            }
        });
        Ok(Proxy { address, to, broken, _links: links })
    }

    /// The server was restarted at another address.
    pub(crate) fn turn_to(&self, to: SocketAddr) {
        *lock(&self.to) = to;
    }

    /// The numbers of connections that broke before a call, after one, and before an answer.
    pub(crate) fn broken(&self) -> [usize; 3] {
        *lock(&self.broken)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the lock")
}

/// Copies bytes in both directions until either side closes (returns false), or the connection breaks (returns true).
async fn carry(mut client: TcpStream, to: SocketAddr, mut pieces: usize, how: Break) -> io::Result<bool> {
    let mut server = TcpStream::connect(to).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut answered) = ([0; 16_384], [0; 16_384]);
    let mut swallowing = false;
    loop {
        tokio::select! {
            length = client.read(&mut asked) => {
                let said = &asked[..length?];
                pieces = pieces.saturating_sub(1);
                match how {
                    _ if said.is_empty() => return Ok(false),
                    Break::BeforeTheCall if pieces == 0 => return Ok(true),
                    _ => server.write_all(said).await?,
                }
                match how {
                    Break::AfterTheCall if pieces == 0 => return Ok(true),
                    Break::BeforeTheAnswer if pieces == 0 => swallowing = true,
                    _ => {}
                }
            }
            length = server.read(&mut answered) => match &answered[..length?] {
                [] => return Ok(false),
                _ if swallowing => return Ok(true),
                said => client.write_all(said).await?,
            },
        }
    }
}
