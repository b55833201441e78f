//! What lies between a client and the server on a bad day: connections break, before a call has come through, after it, or
//! when its answer was on the way.
use fastrand::Rng;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What the client says on a connection before it breaks, in pieces: a call is one or two.
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

    /// The server has started again, elsewhere.
    pub(crate) fn turn_to(&self, to: SocketAddr) {
        *lock(&self.to) = to;
    }

    /// How many connections it broke before a call, after one, before an answer.
    pub(crate) fn broken(&self) -> [usize; 3] {
        *lock(&self.broken)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds the lock")
}

/// Carries bytes both ways until either side is done, or it breaks: then true.
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
