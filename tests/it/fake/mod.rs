//! A fake coordinator for tests of the client: in this process, over in-memory connections, by tokio's clock.
//!
//! It implements the proto and no more. A script makes it misbehave: lose an answer, refuse a call, delay answers, cut
//! or freeze the network, lose its state. A paused clock advances only when all tasks wait, so `settle` is enough for a
//! change to arrive everywhere.
mod feed;
mod service;
mod world;

use hyper_util::rt::TokioIo;
use pausewatch::client::{Client, Config};
use pausewatch::proto::v1::elicitation_service_server::ElicitationServiceServer;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    sync::{mpsc, watch},
    task::AbortHandle,
};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{
    Status,
    transport::{Endpoint, Server},
};
pub(crate) use world::World;

/// One call that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) rpc: &'static str,
    pub(crate) thread_id: String,
    pub(crate) request_id: String,
    /// When it arrived, since the start of the fake.
    pub(crate) at: Duration,
}

/// The faults that the test asks for.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The number of calls that take effect, but are answered with UNAVAILABLE.
    pub(crate) lose_answers: u32,
    /// The statuses that refuse the next calls of any kind.
    pub(crate) refuse: Vec<Status>,
    /// Every request of a watch that names this thread is refused.
    pub(crate) refuse_watch_of: Option<String>,
    /// The number of watch requests that are refused because of a limit, and may be sent again after 1 s.
    pub(crate) limit_requests: u32,
    /// Sends no heartbeats and no changes, only answers: as a stream that is far behind.
    pub(crate) mute: bool,
    /// Announces this heartbeat interval, and sends them as often; if it is longer than the protocol's, it is only
    /// announced.
    pub(crate) interval: Option<Duration>,
}

/// Everything that the fake has recorded.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: Vec<Call>,
    /// The number of ids that each watch has added, in order.
    pub(crate) watches: Vec<usize>,
    /// The numbers of ids that each watch request has added, and has asked to confirm.
    pub(crate) requests: Vec<[usize; 2]>,
    /// The maximum number of ids in one request.
    pub(crate) largest_request: usize,
    pub(crate) open_watches: usize,
    /// The threads of the watch that sent the last request.
    pub(crate) watched: Vec<String>,
}

struct Network {
    up: bool,
    pumps: Vec<AbortHandle>,
    /// While true, bytes are lost, and neither side notices.
    frozen: watch::Sender<bool>,
}

/// The fake coordinator. Clones share one state.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

struct Inner {
    world: Mutex<World>,
    script: Mutex<Script>,
    seen: Mutex<Seen>,
    network: Mutex<Network>,
    began: tokio::time::Instant,
    /// Incremented with each change, to wake the watches.
    version: watch::Sender<u64>,
    /// While true, calls take effect, but their answers wait.
    answers_wait: watch::Sender<bool>,
    accept: mpsc::UnboundedSender<DuplexStream>,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let (accept, incoming) = mpsc::unbounded_channel();
        let network = Network { up: true, pumps: Vec::new(), frozen: watch::channel(false).0 };
        let fake = Self(Arc::new(Inner {
            world: Mutex::default(),
            script: Mutex::default(),
            seen: Mutex::default(),
            network: Mutex::new(network),
            began: tokio::time::Instant::now(),
            version: watch::channel(0).0,
            answers_wait: watch::channel(false).0,
            accept,
        }));
        let service = ElicitationServiceServer::new(fake.clone());
        let incoming = UnboundedReceiverStream::new(incoming).map(Ok::<_, io::Error>);
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        fake
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(&Config::default())
    }

    pub(crate) fn client_with(&self, config: &Config) -> Client {
        let fake = self.clone();
        let connector = tower::service_fn(move |_| {
            let connection = fake.connect().map(TokioIo::new);
            async move { connection }
        });
        let endpoint = Endpoint::from_static("http://fake");
        Client::with_channel(endpoint.connect_with_connector_lazy(connector), config)
    }

    fn connect(&self) -> io::Result<DuplexStream> {
        let mut network = self.0.network.lock().unwrap();
        if !network.up {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, mut near_end) = duplex(64 << 10);
        let (mut far_end, far) = duplex(64 << 10);
        let mut frozen = network.frozen.subscribe();
        let pump = tokio::spawn(async move {
            let copied = async { copy_bidirectional(&mut near_end, &mut far_end).await };
            tokio::pin!(copied);
            loop {
                tokio::select! {
                    biased;
                    _ = frozen.wait_for(|frozen| *frozen) => {}
                    _ = &mut copied => return,
                }
                if frozen.wait_for(|frozen| !*frozen).await.is_err() {
                    return;
                }
            }
        });
        network.pumps.push(pump.abort_handle());
        self.0.accept.send(far).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(near)
    }

    /// Breaks every connection and refuses new ones.
    pub(crate) fn cut(&self) {
        let mut network = self.0.network.lock().unwrap();
        network.up = false;
        network.pumps.drain(..).for_each(|pump| pump.abort());
    }

    /// Breaks every connection; new ones are accepted.
    pub(crate) fn drop_connections(&self) {
        self.0.network.lock().unwrap().pumps.drain(..).for_each(|pump| pump.abort());
    }

    pub(crate) fn mend(&self) {
        self.0.network.lock().unwrap().up = true;
    }

    /// Loses all bytes, unnoticed by either side, or stops doing so.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.0.network.lock().unwrap().frozen.send_replace(frozen);
    }

    /// Holds all answers back, or releases them: the calls have taken effect.
    pub(crate) fn hold_answers(&self, wait: bool) {
        self.0.answers_wait.send_replace(wait);
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.script.lock().unwrap()
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap()
    }

    /// The calls of one RPC so far; for "confirm": the threads that watches have asked to confirm.
    pub(crate) fn calls(&self, rpc: &str) -> Vec<Call> {
        self.seen().calls.iter().filter(|call| call.rpc == rpc).cloned().collect()
    }

    /// The maximum number of ids in one request of a watch.
    pub(crate) fn largest_request(&self) -> usize {
        self.seen().largest_request
    }

    /// Reads or changes the state of the threads, and wakes the watches.
    pub(crate) fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let result = change(&mut self.0.world.lock().unwrap());
        self.0.version.send_modify(|version| *version += 1);
        result
    }

    pub(crate) fn pause(&self, thread_id: &str) -> String {
        self.world(|world| world.open(thread_id, None))
    }

    pub(crate) fn resume(&self, thread_id: &str) {
        self.world(|world| world.close_oldest(thread_id));
    }

    pub(crate) fn count(&self, thread_id: &str) -> u32 {
        self.world(|world| world.state(thread_id).count)
    }
}

/// Lets everything arrive that was sent: the paused clock advances only when all tasks wait for time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
