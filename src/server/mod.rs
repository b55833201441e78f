//! The server: listeners, connections, health, reflection, and a drain that loses nothing.
//!
//! [`Server::start`] opens the store and then the listeners, so that every client that can connect is served.
//! [`Server::run`] drains before it returns: health turns NOT_SERVING, streams end with UNAVAILABLE, calls in flight
//! are answered, the store is closed.
pub(crate) mod access;
mod admission;
mod any_service;
pub(crate) mod audit;
mod authority;
mod backend;
pub(crate) mod background_writer;
mod base;
mod check;
mod config;
mod connection;
mod content_type;
mod control;
mod fatal;
#[cfg(feature = "etcd")]
pub(crate) mod fleet;
pub(crate) mod grpc;
mod grpc_timeout;
mod handshake;
mod http;
mod http2;
mod in_process;
pub(crate) mod links;
mod listen;
mod metrics_http;
mod named_file;
mod pause_log;
mod reflection;
mod reload;
mod routes;
mod services;
mod status;
mod stop;
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
pub use config::{Config, StartError, StoreConfig};
pub(crate) use control::ask_for_backup;
#[cfg(feature = "etcd")]
pub use fleet::ReplicaConfig;
pub(crate) use in_process::InProcessConnector;
pub use listen::{Listen, ListenError};
pub use reload::Reload;
pub use tls::TlsFiles;

use crate::clock::{Clock, System};
use crate::coordinator::hub::{Hub, HubStats, OpenPauses};
use crate::coordinator::metrics::State;
use crate::coordinator::store::{self, OpenError, Presence, Store};
use crate::coordinator::{Coordinator, Settings};
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
#[cfg(feature = "etcd")]
use admission::MemoryLimit;
use admission::{ConnectionLimiter, FIRST_REQUEST_TIME, ServiceContext};
use audit::Trail;
use backend::{Backend, Beat};
use base::Base;
use connection::Serving;
use control::Control;
use fatal::{end_process, stop_at_once, stop_without_store};
use grpc::Elicitations;
use listen::Listener;
use reflection::MAX_SMALL_REQUEST;
use reload::Source;
use routes::{LayerStack, services};
use services::Services;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::SERVICE_NAME as HEALTH;
use tonic_health::server::HealthReporter;
use worker::{Work, Worker};

/// The maximum time that a drain waits for calls in flight, so that a single server ends within 5 s. A replica hands the
/// leadership over before that, which takes up to another 5 s if etcd is not reached.
const DRAIN: Duration = Duration::from_secs(4);

/// How often a server without changes checks that its store is still there.
const CHECK_STORE_EVERY: Duration = Duration::from_secs(1);

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
    trail: Option<Arc<Mutex<Trail>>>,
    sources: Vec<Source>,
    reload: Reload,
    control: Option<Control>,
    /// `None`: the store has no directory.
    presence: Option<Presence>,
}

impl Server {
    /// Opens the store and the listeners. It must be called on a tokio runtime, which then also serves connections.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let clock = Arc::new(System::new());
        // Addresses that are not allowed are refused before the store and the audit trail are created.
        if let Some(refused) = check::refused_addresses(&config).await.into_iter().next() {
            return Err(refused.into());
        }
        let directory = match &config.store {
            StoreConfig::Memory => return Self::start_on(Box::new(store::Memory), clock, config).await,
            StoreConfig::Embedded(directory) => directory.clone(),
            #[cfg(feature = "etcd")]
            StoreConfig::Etcd(replica) => {
                let replica = replica.clone();
                return Self::start_replica(*replica, clock, config).await;
            }
        };
        let base = Base::new(config, clock.clone())?;
        let store = store::Embedded::open(&directory, clock.boot_id())?;
        let (snapshots, presence) = (store.snapshots(), store.presence());
        let mut server = Self::start_alone(base, Box::new(store), clock).await?;
        server.presence = presence;
        match Control::open(&directory, snapshots).await {
            Ok(control) => server.control = Some(control),
            // Not every file system supports sockets.
            Err(why) => {
                tracing::warn!(why, "no control socket: backups are possible only while the server is stopped")
            }
        }
        Ok(server)
    }

    /// Starts on a store that is open already; `config.store` is ignored. `clock`: the clock with which the store was
    /// opened.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start_on(store: Box<dyn Store>, clock: Arc<dyn Clock>, config: Config) -> Result<Self, StartError> {
        Self::start_alone(Base::new(config, clock.clone())?, store, clock).await
    }

    async fn start_alone(base: Base, store: Box<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let coordinator = Arc::new(Coordinator::start_with(store, clock.clone(), base.settings()(), end_process)?);
        let elicitations = base.elicitations()(coordinator.clone(), clock);
        let services = services(elicitations, &base.guard);
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
        let health_service = health_service.max_decoding_message_size(MAX_SMALL_REQUEST);
        let services = services.and(HEALTH, base.guard.before_health(health_service));
        let listeners = base.open_listeners().await?;
        Self::of(base, listeners, services, Backend::Alone(coordinator), health).await
    }

    /// Starts a replica of a fleet on the clock of this machine; `config.store` is ignored.
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
        let files = fleet::PeerFiles::new(replica.peer_ca.as_ref(), base.config.tls.as_ref());
        let peers = fleet::Peers::new(fleet.clone(), clock, shared.clone(), files.clone());
        let peers = Arc::new(peers.map_err(StartError::Security)?);
        let (to_etcd, to_peers) = (fleet.clone(), peers.clone());
        let etcd = replica.fleet.endpoints.files();
        let sources = [
            base.source("certificates for etcd", etcd, Box::new(move || to_etcd.reload_certificates())),
            base.source("certificates for other replicas", files.paths(), Box::new(move || to_peers.reload())),
        ];
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
        let (described, known, id) = (leading.clone(), fleet.clone(), fleet.id());
        let leader = fleet.leader();
        let describe = move || {
            let term = leader.borrow().as_ref().map(|leader| leader.term);
            described.figures(term, known.leader_clock())
        };
        let health_service = health_service.max_decoding_message_size(MAX_SMALL_REQUEST);
        let health_service = fleet::DescribedHealth::new(health_service, id, Arc::new(describe));
        let look = fleet::LookService::new(leading.clone(), fleet.replica(), fleet.peer_key());
        let services = services(elicitations, &base.guard).and(HEALTH, base.guard.before_health(health_service));
        // Their messages are sealed with the key of the fleet; the limits of clients do not apply to replicas.
        let services = services.and(fleet::REPLICA, MemoryLimit(look)).and(fleet::FORWARD, MemoryLimit(forward));
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
        let mut server = Self::of(base, listeners, services, Backend::Fleet(Box::new(replica)), health).await?;
        server.sources.extend(sources.into_iter().flatten());
        Ok(server)
    }

    /// A server that serves these services.
    async fn of(
        base: Base,
        listeners: Vec<Listener>,
        services: Services,
        backend: Backend,
        health: HealthReporter,
    ) -> Result<Server, StartError> {
        let sources = base.sources();
        let Base { config, tls, trail, guard, .. } = base;
        let LayerStack { context, clock, drain, .. } = guard;
        let scrape = match &config.metrics {
            Some(address) => {
                Some(metrics_http::Listener::open(address, config.metrics_insecure, &config.web_hosts).await?)
            }
            None => None,
        };
        let serving = Serving { services: Arc::new(services), http: config.http, drain: drain.clone() };
        let mut workers = vec![Worker::here(Work { serving, tls })];
        for i in 1..config.workers {
            let worker = Worker::on_new_thread(i, workers[0].work());
            workers.push(worker.map_err(StartError::Worker)?);
        }
        let (reload, control, presence) = (Reload::default(), None, None);
        Ok(Server {
            backend,
            context,
            clock,
            scrape,
            listeners,
            workers,
            health,
            drain,
            trail,
            sources,
            reload,
            control,
            presence,
        })
    }

    /// The clock of the leader, as far as this replica knows it; `None`: not a replica.
    #[cfg(feature = "etcd")]
    #[doc(hidden)]
    pub fn leader_clock(&self) -> Option<&Arc<store::etcd::LeaderClock>> {
        match &self.backend {
            Backend::Alone(_) => None,
            Backend::Fleet(replica) => Some(replica.fleet.leader_clock()),
        }
    }

    /// A handle to make the server read its files again while it runs.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// A connector to each worker that needs no listener.
    pub fn inside(&self) -> Vec<InProcessConnector> {
        self.workers.iter().map(|worker| InProcessConnector::of(worker.entrance())).collect()
    }

    /// The addresses in the form that clients take, with the port that the system chose for port 0.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// The URL of the metrics; `None`: they are not served.
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
        let watched_over = self.presence.take().map(|presence| tokio::spawn(watch_over(presence)));
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
        // The leadership is given up first, so that another replica serves while this one drains.
        running.hand_over().await;
        for service in [SERVICE_NAME, ""] {
            self.health.set_service_status(service, ServingStatus::NotServing).await;
        }
        stop_accepting.cancel();
        self.drain.cancel();
        let finish = async {
            running.stop(present).await;
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
        control.iter().chain(&watched_over).for_each(JoinHandle::abort);
        files.abort();
        // Metrics are served until the end, so that a slow drain can be observed.
        scraped.iter().for_each(JoinHandle::abort);
        drop(coordinator);
        // Connections that outlast the drain may still hold the coordinator, and so the trail.
        if let Some(trail) = self.trail {
            trail.lock().expect("nothing panics while it writes a line").close();
        }
    }
}

/// Logs the calls or connections that were still open at the end of the drain.
fn warn_of_the_rest(calls: u64, connections: u64) {
    let seconds = DRAIN.as_secs();
    match calls {
        0 => tracing::warn!(seconds, connections, "connections were still open at the end of the drain"),
        _ => tracing::warn!(seconds, calls, connections, "calls were still in flight at the end of the drain"),
    }
}

/// The gauges for the metrics.
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

/// Serves connections that the caller accepts, over any transport, forever: no listener, no drain, one runtime. It must
/// be called on a tokio runtime. If the future is dropped, the connections and the store are closed.
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

/// Ends the process when its store is deleted or replaced. A change is checked by itself before it is acknowledged.
async fn watch_over(presence: Presence) {
    let mut next = interval(CHECK_STORE_EVERY);
    loop {
        next.tick().await;
        if let Err(gone) = presence.check() {
            stop_without_store(&gone);
        }
    }
}

/// Sends heartbeats on silent watches.
async fn beat(Beat { every, parts }: Beat, hub: impl Fn() -> Option<Arc<Hub>>) {
    let mut next = interval(every);
    for part in (0..parts).cycle() {
        next.tick().await;
        if let Some(hub) = hub() {
            hub.beat(part, parts);
        }
    }
}
