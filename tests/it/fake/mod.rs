//! A coordinator for the tests of the client side: in this process, over in-memory connections, on tokio's clock.
//!
//! It does what the proto says and no more, and it obeys a script: lose an answer, refuse a call, hold answers back, cut
//! or freeze the network, forget everything. With a paused clock time moves only when nothing is left to do, so
//! `settle` is enough to let a change arrive everywhere.
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

/// One call as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) rpc: &'static str,
    pub(crate) thread_id: String,
    pub(crate) request_id: String,
    /// When it came, since the fake began.
    pub(crate) at: Duration,
}

/// What the test tells the fake to do wrong.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Take effect, and answer UNAVAILABLE, this many times.
    pub(crate) lose_answers: u32,
    /// Refuse the next calls of any kind with these.
    pub(crate) refuse: Vec<Status>,
    /// Refuse every request of a watch that names this thread.
    pub(crate) refuse_watch_of: Option<String>,
    /// Refuse the next requests of watches, this many, because of a limit; they may be sent again after 1 s.
    pub(crate) limit_requests: u32,
    /// Send no heartbeats and no changes, only answers: a stream that is far behind.
    pub(crate) mute: bool,
    /// Send heartbeats this often, and say so; of a longer time than that of the protocol, only say so.
    pub(crate) interval: Option<Duration>,
}

/// What the fake has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: Vec<Call>,
    /// The number of ids that each watch has added, in order.
    pub(crate) watches: Vec<usize>,
    /// The ids that each request of a watch has added, and has asked to confirm.
    pub(crate) requests: Vec<[usize; 2]>,
    /// The most ids in one request.
    pub(crate) largest_request: usize,
    pub(crate) open_watches: usize,
    /// The threads that the last watch with a request watches.
    pub(crate) watched: Vec<String>,
}

struct Network {
    up: bool,
    pumps: Vec<AbortHandle>,
    /// While true bytes go nowhere and nobody is told.
    frozen: watch::Sender<bool>,
}

/// The fake coordinator. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

struct Inner {
    world: Mutex<World>,
    script: Mutex<Script>,
    seen: Mutex<Seen>,
    network: Mutex<Network>,
    began: tokio::time::Instant,
    /// Rises with each change of the world, to wake the watches.
    version: watch::Sender<u64>,
    /// While true calls take effect, and their answers wait.
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

    /// Breaks every connection; new ones are welcome.
    pub(crate) fn drop_connections(&self) {
        self.0.network.lock().unwrap().pumps.drain(..).for_each(|pump| pump.abort());
    }

    pub(crate) fn mend(&self) {
        self.0.network.lock().unwrap().up = true;
    }

    /// Lets bytes go nowhere (or again somewhere), and tells nobody.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.0.network.lock().unwrap().frozen.send_replace(frozen);
    }

    /// Keeps all answers back (or lets them go): the calls have taken effect.
    pub(crate) fn hold_answers(&self, wait: bool) {
        self.0.answers_wait.send_replace(wait);
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.script.lock().unwrap()
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap()
    }

    /// The calls of one RPC so far; of "confirm": the threads that watches have asked to confirm.
    pub(crate) fn calls(&self, rpc: &str) -> Vec<Call> {
        self.seen().calls.iter().filter(|call| call.rpc == rpc).cloned().collect()
    }

    /// The most ids in one request of a watch.
    pub(crate) fn largest_request(&self) -> usize {
        self.seen().largest_request
    }

    /// Reads or changes the state of the threads; watches are told.
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

/// Lets everything that is under way arrive: the paused clock moves only when all tasks wait for time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
