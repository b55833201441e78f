//! The server: listeners, connections, health, reflection, and a drain that loses nothing.
//!
//! [`Server::start`] opens the store and then the listeners, so that who can connect is served. [`Server::run`] ends
//! after a drain: health turns NOT_SERVING, streams end with UNAVAILABLE, calls in flight are answered, the store is
//! closed.
pub(crate) mod access;
mod admission;
mod any_service;
pub(crate) mod audit;
mod authority;
mod backend;
pub(crate) mod background_writer;
mod check;
mod connection;
mod content_type;
mod control;
#[cfg(feature = "etcd")]
pub(crate) mod fleet;
pub(crate) mod grpc;
mod grpc_timeout;
mod handshake;
mod http;
mod in_process;
mod listen;
mod metrics_http;
mod pause_log;
mod reflection;
mod reload;
mod routes;
mod services;
mod status;
mod tls;
mod worker;

pub use crate::coordinator::quota::{LimitPair, Limits};
#[cfg(feature = "etcd")]
pub use crate::coordinator::store::etcd::{Endpoints, FleetConfig};
pub use access::{AccessConfig, Grant, JwtConfig, PublicKeys, Role};
#[doc(hidden)]
pub use any_service::{serve_service, with_connect};
pub use audit::Config as AuditConfig;
pub(crate) use check::problems;
pub(crate) use control::ask_for_backup;
#[cfg(feature = "etcd")]
pub use fleet::ReplicaConfig;
pub(crate) use in_process::InProcessConnector;
pub use listen::{Listen, ListenError};
pub use reload::Reload;
pub use tls::TlsFiles;

use self::http::{Browsers, HttpContext};
use crate::clock::{Clock, System};
use crate::coordinator::hub::{Hub, HubStats, OpenPauses};
use crate::coordinator::metrics::{Metrics, State};
use crate::coordinator::quota::Accounts;
use crate::coordinator::store::{self, OpenError, Store};
use crate::coordinator::{ChangeObserver, Coordinator, Fatal, Settings};
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
use access::Access;
#[cfg(feature = "etcd")]
use admission::MemoryLimit;
use admission::{ConnectionLimiter, FIRST_REQUEST_TIME, ServiceContext};
use audit::Trail;
use backend::{Backend, Beat};
use connection::Serving;
use control::Control;
use grpc::{Elicitations, MakeElicitations};
use listen::{Listener, Tcp};
use pause_log::{ChangeObservers, PauseLog};
use reload::{FileDigests, Source};
use routes::{LayerStack, services};
use services::Services;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use worker::{Work, Worker};

/// How long calls in flight have to finish in a drain. With it, the process ends within 5 s.
const DRAIN: Duration = Duration::from_secs(4);
/// How long a process that must end waits until its message is printed.
const TIME_FOR_LAST_MESSAGE: Duration = Duration::from_millis(500);

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// Where the state is kept.
    pub store: StoreConfig,
    /// The lease of an increment that asks for none; `None`: for ever.
    pub anonymous_ttl: Option<Duration>,
    /// The maximum length of a pause, which no renewal extends; `None`: any.
    pub max_pause: Option<Duration>,
    /// Serve plain text off loopback.
    pub insecure: bool,
    /// TLS on every TCP listener.
    pub tls: Option<TlsFiles>,
    /// Serve the Connect protocol and the page too, over HTTP/1.1 and HTTP/2.
    pub http: bool,
    /// Names of the server for browsers and other clients of HTTP/1.1, besides addresses and `localhost`.
    pub web_hosts: Vec<String>,
    /// Access control for every listener; `None`: every client may make every call.
    pub access: Option<AccessConfig>,
    /// Threads that serve connections.
    pub workers: usize,
    /// The limits of callers.
    pub limits: Limits,
    /// Where metrics are served, as HOST:PORT; `None`: nowhere.
    pub metrics: Option<String>,
    /// Serve metrics off loopback.
    pub metrics_insecure: bool,
    /// Where the audit trail is written; `None`: nowhere.
    pub audit: Option<audit::Config>,
    /// Log every pause and its end, however many there are.
    pub log_every_pause: bool,
    /// Make a span of each call, with the global tracer of OpenTelemetry (feature `otel`).
    pub trace_calls: bool,
}

impl Default for Config {
    /// As `pausewatch serve` does it, but with nothing kept.
    fn default() -> Self {
        Config {
            listen: vec![Listen::Tcp("127.0.0.1:7420".into())],
            store: StoreConfig::Memory,
            anonymous_ttl: Some(Duration::from_secs(24 * 60 * 60)),
            max_pause: None,
            insecure: false,
            tls: None,
            http: true,
            web_hosts: Vec::new(),
            access: None,
            workers: 1,
            limits: Limits::default(),
            metrics: None,
            metrics_insecure: false,
            audit: None,
            log_every_pause: false,
            trace_calls: false,
        }
    }
}

impl Config {
    /// Files that are reloaded at run time.
    fn files(&self) -> Vec<PathBuf> {
        let tls = self.tls.iter().flat_map(TlsFiles::paths);
        tls.chain(self.access.iter().flat_map(AccessConfig::files)).collect()
    }

    /// The protocol over TCP.
    fn tcp(&self) -> Tcp {
        match (&self.tls, self.insecure) {
            (Some(_), _) => Tcp::Tls,
            (None, true) => Tcp::Insecure,
            (None, false) => Tcp::Plain,
        }
    }
}

/// Where the state is kept.
#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// In this directory.
    Embedded(PathBuf),
    /// Nowhere: a restart forgets.
    Memory,
    /// In etcd, together with other replicas.
    #[cfg(feature = "etcd")]
    Etcd(Box<ReplicaConfig>),
}

/// Why a server does not start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A certificate, a key or a token.
    #[error("{0}")]
    Security(String),
    /// A listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The audit trail.
    #[error("open the audit trail {0}: {1}")]
    Audit(String, #[source] io::Error),
    /// The system.
    #[error("start a worker: {0}")]
    Worker(#[source] io::Error),
}

/// A server that listens.
pub struct Server {
    backend: Backend,
    context: Arc<ServiceContext>,
    clock: Arc<dyn Clock>,
    scrape: Option<metrics_http::Listener>,
    listeners: Vec<Listener>,
    workers: Vec<Worker>,
    health: HealthReporter,
    drain: CancellationToken,
    sources: Vec<Source>,
    reload: Reload,
    control: Option<Control>,
}

impl Server {
    /// Opens the store and the listeners. Has to be called on a tokio runtime, which then serves too.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let clock = Arc::new(System::new());
        let directory = match &config.store {
            StoreConfig::Memory => return Self::start_on(Box::new(store::Memory), clock, config).await,
            StoreConfig::Embedded(directory) => directory.clone(),
            #[cfg(feature = "etcd")]
            StoreConfig::Etcd(replica) => {
                let replica = replica.clone();
                return Self::start_replica(*replica, clock, config).await;
            }
        };
        let store = store::Embedded::open(&directory, clock.boot_id())?;
        let snapshots = store.snapshots();
        let mut server = Self::start_on(Box::new(store), clock, config).await?;
        match Control::open(&directory, snapshots).await {
            Ok(control) => server.control = Some(control),
            // Not every file system has sockets.
            Err(why) => {
                tracing::warn!(why, "no control socket: backups are possible only while the server is stopped")
            }
        }
        Ok(server)
    }

    /// Starts on a store that is open already; `config.store` is not looked at. `clock`: the one that the store was
    /// opened for.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start_on(store: Box<dyn Store>, clock: Arc<dyn Clock>, config: Config) -> Result<Self, StartError> {
        let base = Base::new(config, clock.clone())?;
        let coordinator = Arc::new(Coordinator::start_with(store, clock.clone(), base.settings()(), end_process)?);
        let elicitations = base.elicitations()(coordinator.clone(), clock);
        let services = services(elicitations, &base.guard);
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
        let services = services.and(base.guard.before_health(health_service));
        let listeners = base.open_listeners().await?;
        base.serve(listeners, services, Backend::Alone(coordinator), health).await
    }

    /// Starts a replica of a fleet on the clock of this machine; `config.store` is not looked at.
    ///
    /// # Errors
    /// See [`StartError`].
    #[cfg(feature = "etcd")]
    #[doc(hidden)]
    pub async fn start_replica(
        replica: ReplicaConfig,
        clock: Arc<dyn Clock>,
        config: Config,
    ) -> Result<Self, StartError> {
        let base = Base::new(config, clock.clone())?;
        let fleet = Arc::new(store::etcd::Fleet::join(&replica.fleet, clock.clone()).await?);
        let leading = fleet::Leading::new(fleet.progress().clone(), clock.clone());
        let shared = Arc::new(fleet::ReplicaClock::new(clock.clone(), fleet.id()));
        let (ca, own) = (replica.peer_ca.as_ref(), base.config.tls.as_ref());
        let peers = fleet::Peers::new(fleet.clone(), clock, shared.clone(), ca, own).map_err(StartError::Security)?;
        let seal = Arc::new(fleet::Seal::new(fleet.peer_key()));
        let (context, access) = (base.guard.context.clone(), base.guard.access.clone());
        let accounts = context.accounts.clone();
        let sure = leading.clone();
        let confirm = move || -> grpc::Confirming {
            let sure = sure.clone();
            Box::pin(async move { sure.confirm().await.map_err(|refusal| status::of(&refusal)) })
        };
        let confirmed = grpc::Confirmed { confirm: Box::new(confirm), heartbeat: fleet::HEARTBEAT };
        let watches = grpc::Watches::new(fleet.progress().hub().clone(), shared.clone(), context, access);
        let forwarder = fleet::Forwarder::new(peers.links(), seal.clone(), shared.clone());
        let elicitations = fleet::ReplicaService::new(leading.clone(), watches.confirmed_by(confirmed), forwarder);
        let forward = fleet::ForwardService::new(leading.clone(), fleet.replica(), seal, accounts, shared.clone());
        let (health, health_service) = tonic_health::server::health_reporter();
        for service in [SERVICE_NAME, fleet::LEADER] {
            health.set_service_status(service, ServingStatus::NotServing).await;
        }
        let look = fleet::LookService::new(leading.clone(), fleet.replica(), fleet.peer_key());
        let services = services(elicitations, &base.guard).and(base.guard.before_health(health_service));
        let services = services.and(base.guard.before_health(look)).and(MemoryLimit(forward));
        let listeners = base.open_listeners().await?;
        let address = replica.advertise.or_else(|| Some(listeners.first()?.address())).unwrap_or_default();
        let replica = fleet::Replica {
            fleet,
            address,
            leading,
            clock: shared,
            health: health.clone(),
            peers,
            settings: base.settings(),
            serve: base.elicitations(),
            broken: end_process,
        };
        base.serve(listeners, services, Backend::Fleet(Box::new(replica)), health).await
    }

    /// What a replica knows of the clock of its leader.
    #[cfg(feature = "etcd")]
    #[doc(hidden)]
    pub fn leader_clock(&self) -> Option<&Arc<store::etcd::LeaderClock>> {
        match &self.backend {
            Backend::Alone(_) => None,
            Backend::Fleet(replica) => Some(replica.fleet.leader_clock()),
        }
    }

    /// To have it read its files again while it runs.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// A way to each worker that no listener is on.
    pub fn inside(&self) -> Vec<InProcessConnector> {
        self.workers.iter().map(|worker| InProcessConnector::of(worker.entrance())).collect()
    }

    /// Where it listens, as clients take it: with the port that the system gave for port 0.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Where metrics are served, as a browser takes it.
    pub fn metrics_address(&self) -> Option<String> {
        self.scrape.as_ref().map(metrics_http::Listener::address)
    }

    /// Serves until `shutdown`, then drains.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let hub = self.backend.hub();
        let beaten = hub.clone();
        let figures = self.backend.figures();
        let beats = tokio::spawn(beat(self.backend.beat(), move || beaten()));
        let (running, coordinator) = self.backend.run(|why| stop_at_once(why));
        let files = tokio::spawn(reload::keep_current(self.sources, self.reload));
        let control = self.control.take().map(|control| tokio::spawn(control.answer(self.clock.clone())));
        let stop_accepting = CancellationToken::new();
        let entrances: Vec<_> = self.workers.iter().map(Worker::entrance).collect();
        let limiter = ConnectionLimiter::new(self.context.clone(), self.clock.clone());
        let scraped = self.scrape.take().map(|scrape| {
            let (context, clock) = (self.context.clone(), self.clock.clone());
            let (hub, limiter) = (hub.clone(), limiter.clone());
            let state = move || State { fleet: figures(), ..state(hub().as_deref(), &limiter, &*clock) };
            tokio::spawn(scrape.serve(move || context.metrics.show(&state())))
        });
        let accepting = self
            .listeners
            .into_iter()
            .map(|listener| tokio::spawn(listener.accept(entrances.clone(), limiter.clone(), stop_accepting.clone())));
        let accepting: Vec<_> = accepting.collect();
        shutdown.await;

        let present = hub();
        tracing::info!(streams = present.as_ref().map_or(0, |hub| hub.streams()), "draining");
        // Another replica serves while this one drains.
        running.stop().await;
        for service in [SERVICE_NAME, ""] {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
        stop_accepting.cancel();
        present.iter().for_each(|hub| hub.close());
        self.drain.cancel();
        let finish = async {
            for task in accepting {
                let _ = task.await;
            }
            for worker in self.workers {
                worker.finish().await;
            }
        };
        let mut finish = pin!(finish);
        if timeout(FIRST_REQUEST_TIME, &mut finish).await.is_err() {
            limiter.close_up();
            if timeout(DRAIN - FIRST_REQUEST_TIME, finish).await.is_err() {
                warn_of_the_rest(self.context.metrics.calls.in_flight(), limiter.connections());
            }
        }
        beats.abort();
        control.iter().for_each(tokio::task::JoinHandle::abort);
        files.abort();
        // To the end, so that a drain that takes long can be watched.
        scraped.iter().for_each(JoinHandle::abort);
        drop(coordinator);
    }
}

/// What a server has before it has a store: files, the state that calls share, and the layers before its services.
struct Base {
    config: Config,
    tcp: Tcp,
    seen: FileDigests,
    tls: Option<Arc<Tls>>,
    trail: Option<Arc<Mutex<Trail>>>,
    guard: LayerStack,
}

impl Base {
    fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let tcp = config.tcp();
        let seen = FileDigests::before_loading(config.files());
        let tls = config.tls.clone().map(|files| Tls::load(files, config.http)).transpose();
        let tls = tls.map_err(StartError::Security)?;
        let access = config.access.clone().map(|access| Access::load(access, clock.clone())).transpose();
        let access = access.map_err(StartError::Security)?;
        if access.is_some() && tls.is_none() && config.insecure {
            tracing::warn!("--insecure: others on the network can read and use the tokens; use TLS instead");
        }
        let context = Arc::new(ServiceContext {
            metrics: Arc::<Metrics>::default(),
            accounts: Arc::<Accounts>::default(),
            limits: config.limits,
            trace_calls: config.trace_calls,
        });
        let trail = config.audit.as_ref().map(|audit| {
            let trail = Trail::open(audit, context.metrics.clone(), clock.now());
            trail.map_err(|error| StartError::Audit(audit.path.display().to_string(), error))
        });
        let trail = trail.transpose()?.map(|trail| Arc::new(Mutex::new(trail)));
        let http = config.http.then(|| {
            let names = config.web_hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
            let browsers = Browsers { names, has_tls: tls.is_some() };
            Arc::new(HttpContext::new(routes::methods, browsers, context.metrics.clone()))
        });
        let guard = LayerStack { context, clock, access, http, drain: CancellationToken::new() };
        Ok(Base { config, tcp, seen, tls, trail, guard })
    }

    /// The settings of an engine.
    fn settings(&self) -> Box<dyn Fn() -> Settings + Send + Sync> {
        let Config { anonymous_ttl, max_pause, limits, log_every_pause, .. } = self.config;
        let (trail, metrics) = (self.trail.clone(), self.guard.context.metrics.clone());
        Box::new(move || {
            let mut witnesses: Vec<Box<dyn ChangeObserver>> = vec![Box::new(PauseLog::new(log_every_pause))];
            witnesses.extend(trail.clone().map(|trail| Box::new(trail) as Box<dyn ChangeObserver>));
            let witness: Option<Box<dyn ChangeObserver>> = Some(Box::new(ChangeObservers(witnesses)));
            Settings { anonymous_ttl, max_pause, limits: Some(limits), metrics: metrics.clone(), witness }
        })
    }

    /// The service of an engine.
    fn elicitations(&self) -> MakeElicitations {
        let (context, access) = (self.guard.context.clone(), self.guard.access.clone());
        Box::new(move |coordinator, clock| Elicitations::new(coordinator, clock, context.clone(), access.clone()))
    }

    async fn open_listeners(&self) -> Result<Vec<Listener>, StartError> {
        let mut listeners = Vec::new();
        for listen in &self.config.listen {
            listeners.push(Listener::open(listen, self.tcp).await?);
        }
        Ok(listeners)
    }

    /// A server that serves these services.
    async fn serve(
        self,
        listeners: Vec<Listener>,
        services: Services,
        backend: Backend,
        health: HealthReporter,
    ) -> Result<Server, StartError> {
        let Base { config, seen, tls, guard, .. } = self;
        let LayerStack { context, clock, access, drain, .. } = guard;
        let certificates = tls.iter().cloned().map(|tls| certificates(tls, &seen));
        let sources = certificates.chain(access.map(|access| tokens(access, &seen))).collect();
        let scrape = match &config.metrics {
            Some(address) => Some(metrics_http::Listener::open(address, config.metrics_insecure).await?),
            None => None,
        };
        let serving = Serving { services: Arc::new(services), http: config.http, drain: drain.clone() };
        let mut workers = vec![Worker::here(Work { serving, tls })];
        for i in 1..config.workers {
            let worker = Worker::on_new_thread(i, workers[0].work());
            workers.push(worker.map_err(StartError::Worker)?);
        }
        let (reload, control) = (Reload::default(), None);
        Ok(Server { backend, context, clock, scrape, listeners, workers, health, drain, sources, reload, control })
    }
}

/// Says what the drain did not wait for.
fn warn_of_the_rest(calls: u64, connections: u64) {
    let seconds = DRAIN.as_secs();
    match calls {
        0 => tracing::warn!(seconds, connections, "connections were still open at the end of the drain"),
        _ => tracing::warn!(seconds, calls, connections, "calls were still in flight at the end of the drain"),
    }
}

/// The present gauges, for the metrics.
fn state(hub: Option<&Hub>, limiter: &ConnectionLimiter, clock: &dyn Clock) -> State {
    let HubStats { streams, threads, paused, open, deliveries, conflations } =
        hub.map(Hub::figures).unwrap_or_default();
    let OpenPauses { oldest, unwatched } = hub.map(Hub::open_pauses).unwrap_or_default();
    State {
        connections: limiter.connections(),
        streams: streams as u64,
        threads: threads as u64,
        paused: paused as u64,
        open,
        oldest_pause: oldest.map(|since| clock.now().since(since)).unwrap_or_default(),
        unwatched,
        deliveries,
        conflations,
        fleet: None,
    }
}

/// Serves connections that the caller accepts, over any transport, for ever: no listener, no drain, one runtime. Has to be
/// called on a tokio runtime; dropped, it closes the connections and the store.
///
/// # Errors
/// The store cannot be loaded.
pub async fn serve_connections<IO>(
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    connections: impl Stream<Item = io::Result<IO>>,
) -> Result<(), OpenError>
where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let coordinator = Arc::new(Coordinator::start_with(store, clock.clone(), settings, end_process)?);
    let context = Arc::<ServiceContext>::default();
    let elicitations = Elicitations::new(coordinator.clone(), clock.clone(), context.clone(), None);
    let guard = LayerStack { context, clock, access: None, http: None, drain: CancellationToken::new() };
    let services = Arc::new(services(elicitations, &guard));
    let hub = coordinator.hub().clone();
    let drain = CancellationToken::new();
    let _dropped = drain.clone().drop_guard();
    let tracker = TaskTracker::new();
    let serve = async {
        let mut connections = pin!(connections);
        while let Some(connection) = connections.next().await {
            match connection {
                Ok(stream) => {
                    let (services, drain) = (services.clone(), drain.clone());
                    tracker.spawn(async move { connection::serve_http2(stream, services, &drain).await });
                }
                Err(error) => tracing::warn!(%error, "accept a connection"),
            }
        }
        tracker.close();
        tracker.wait().await;
    };
    tokio::select! {
        () = serve => {}
        () = beat(Beat::ALONE, move || Some(hub.clone())) => {}
    }
    Ok(())
}

fn certificates(tls: Arc<Tls>, seen: &FileDigests) -> Source {
    let reload = Box::new({
        let tls = tls.clone();
        move || tls.reload()
    });
    Source::new("certificates", tls.files(), seen, reload)
}

fn tokens(access: Arc<Access>, seen: &FileDigests) -> Source {
    let files = access.files();
    if let Some(path) = access.secret_file() {
        reload::warn_if_open_to_others("--tokens", path);
    }
    Source::new("tokens", files, seen, Box::new(move || access.reload()))
}

/// Heartbeats for those who would hear nothing else.
async fn beat(Beat { every, parts }: Beat, hub: impl Fn() -> Option<Arc<Hub>>) {
    let mut next = interval(every);
    for part in (0..parts).cycle() {
        next.tick().await;
        if let Some(hub) = hub() {
            hub.beat(part, parts);
        }
    }
}

/// The contents of the disk are unknown: no call may be answered. A new process starts from the store.
fn end_process(fatal: Fatal) {
    stop_at_once(&format!(
        "{fatal}. Stopping at once; start again when the disk is sound: nothing that was acknowledged is lost"
    ));
}

/// Ends the process with this message.
fn stop_at_once(why: &str) -> ! {
    tracing::error!(why, "stopping at once");
    let message = format!("pausewatch: {why}");
    let (printed, is_printed) = std::sync::mpsc::channel::<()>();
    // Not by this thread: standard error may be a pipe that nobody reads.
    let print = move || {
        eprintln!("{message}");
        drop(printed);
    };
    let _ = std::thread::Builder::new().spawn(print);
    let _ = is_printed.recv_timeout(TIME_FOR_LAST_MESSAGE);
    std::process::exit(1);
}
