//! What lies between any two of client, replica and etcd on a bad day: connections that break, or that hold what is sent in one direction
//! or both until the day is over.
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    /// What is sent waits, both ways.
    Stalled,
    /// What the client sends waits.
    HoldsCalls,
    /// What the server sends waits.
    HoldsAnswers,
    /// Connections end at once.
    Cut,
}

/// A proxy. Dropped, its connections end.
pub(crate) struct Proxy {
    pub(crate) address: String,
    targets: Arc<Mutex<Vec<String>>>,
    mode: watch::Sender<Mode>,
    _links: JoinSet<()>,
}

impl Proxy {
    /// To `targets`, one after the other for each new connection.
    pub(crate) async fn start(targets: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (targets, mode) = (Arc::new(Mutex::new(targets)), watch::Sender::new(Mode::Whole));
        let (to, modes, mut links) = (targets.clone(), mode.subscribe(), JoinSet::new());
        links.spawn(async move {
            let mut links = JoinSet::new();
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let target = {
                    let targets = to.lock().expect("no panic while locked");
                    (!targets.is_empty()).then(|| targets[number % targets.len()].clone())
                };
                if let Some(target) = target {
                    links.spawn(carry(client, target, modes.clone()));
                }
            }
        });
        Proxy { address, targets, mode, _links: links }
    }

    pub(crate) fn turn_to(&self, targets: Vec<String>) {
        *self.targets.lock().expect("no panic while locked") = targets;
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// Carries bytes both ways until either side is done, or the proxy is cut.
async fn carry(client: TcpStream, target: String, mode: watch::Receiver<Mode>) {
    let mut cut = mode.clone();
    let both = async {
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((asks, answers), (answered, asked)) = (client.into_split(), server.into_split());
        let calls = pump(asks, asked, mode.clone(), [Mode::Stalled, Mode::HoldsCalls]);
        let answers = pump(answered, answers, mode, [Mode::Stalled, Mode::HoldsAnswers]);
        tokio::select! {
            () = calls => {}
            () = answers => {}
        }
    };
    tokio::select! {
        () = both => {}
        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>, held: [Mode; 2]) {
    let mut bytes = [0; 16_384];
    loop {
        let Ok(length @ 1..) = from.read(&mut bytes).await else { return };
        if mode.wait_for(|mode| !held.contains(mode)).await.is_err() || to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
