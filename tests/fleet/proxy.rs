//! A faulty network between any two of client, replica and etcd: connections break, or hold back data in one direction
//! or both until the fault ends.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    /// Data waits in both directions.
    Stalled,
    /// Data from the client waits.
    HoldsCalls,
    /// Data from the server waits.
    HoldsAnswers,
    /// Connections are closed at once.
    Cut,
}

/// A proxy. When it is dropped, its connections are closed.
pub(crate) struct Proxy {
    pub(crate) address: String,
    targets: Arc<Mutex<Vec<String>>>,
    mode: watch::Sender<Mode>,
    /// The number of bytes of calls after which it holds them back.
    hold_after: Arc<AtomicU64>,
    _links: JoinSet<()>,
}

impl Proxy {
    /// Forwards to `targets`, a different one for each new connection, in turn.
    pub(crate) async fn start(targets: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (targets, mode) = (Arc::new(Mutex::new(targets)), watch::Sender::new(Mode::Whole));
        let (to, modes, mut links) = (targets.clone(), mode.clone(), JoinSet::new());
        let hold_after = Arc::new(AtomicU64::new(u64::MAX));
        let left = hold_after.clone();
        links.spawn(async move {
            let mut links = JoinSet::new();
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let target = {
                    let targets = to.lock().expect("no panic while locked");
                    (!targets.is_empty()).then(|| targets[number % targets.len()].clone())
                };
                if let Some(target) = target {
                    links.spawn(carry(client, target, modes.clone(), left.clone()));
                }
            }
        });
        Proxy { address, targets, mode, hold_after, _links: links }
    }

    pub(crate) fn turn_to(&self, targets: Vec<String>) {
        *self.targets.lock().expect("no panic while locked") = targets;
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Holds calls back after this many of their bytes.
    pub(crate) fn hold_calls_after(&self, bytes: u64) {
        self.hold_after.store(bytes, SeqCst);
    }

    /// Waits until calls are held back.
    pub(crate) async fn holds(&self) {
        let held = self.mode.subscribe().wait_for(|mode| *mode == Mode::HoldsCalls).await.is_ok();
        assert!(held, "the proxy owns the sender");
    }
}

/// Copies bytes in both directions until either side closes, or the proxy is cut.
async fn carry(client: TcpStream, target: String, mode: watch::Sender<Mode>, hold_after: Arc<AtomicU64>) {
    let mut cut = mode.subscribe();
    let both = async {
        let Ok(server) = TcpStream::connect(target).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((asks, answers), (answered, asked)) = (client.into_split(), server.into_split());
        let count = |bytes| {
            let left = hold_after.fetch_update(SeqCst, SeqCst, |left| Some(left.saturating_sub(bytes)));
            if left.is_ok_and(|left| left <= bytes) {
                mode.send_replace(Mode::HoldsCalls);
            }
        };
        let calls = pump(asks, asked, mode.subscribe(), [Mode::Stalled, Mode::HoldsCalls], count);
        let answers = pump(answered, answers, mode.subscribe(), [Mode::Stalled, Mode::HoldsAnswers], |_| ());
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

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    held: [Mode; 2],
    sent: impl Fn(u64),
) {
    let mut bytes = [0; 16_384];
    loop {
        let Ok(length @ 1..) = from.read(&mut bytes).await else { return };
        if mode.wait_for(|mode| !held.contains(mode)).await.is_err() || to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
        sent(length as u64);
    }
}
