//! A replica of a fleet: it serves watches itself, and passes unary calls to the replica that leads.
//!
//! - R1: each term has an engine of its own, but the hub stays. So watches continue when this replica becomes the
//!   leader or stops leading, and the unary calls of a term end with UNAVAILABLE when the term does.
//! - R2: reads and watches begin after this replica has checked that it shows the latest state (`leading.rs`).
//! - R3: a stopping replica gives up the leadership as soon as its calls are answered, so that the others need not wait
//!   until it is silent.
//! - R4: a replica that was not sure of the latest state for 3 s ends its watches, sends no heartbeats and begins no
//!   watch (fleet invariant I11, docs/guarantees.md).
mod answer_room;
mod clock;
mod forward;
mod health;
mod leading;
mod look;
mod looking;
mod peers;
mod seal;
mod service;

pub use clock::ReplicaClock;
pub(super) use forward::{FORWARD, ForwardService, Forwarder};
pub(super) use health::DescribedHealth;
pub use leading::{Leading, Leads, Vouched};
pub(super) use look::{LookService, REPLICA};
pub use looking::{LeaderLink, Looking};
pub(super) use peers::{PeerFiles, Peers};
pub(super) use seal::Seal;
pub(super) use service::ReplicaService;

use super::grpc::MakeElicitations;
use super::stop::Stop;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::etcd::{Fleet, FleetConfig, Term};
use crate::coordinator::{Coordinator, Fatal, Settings};
use crate::core::Timestamp;
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
use leading::Serving;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The time for calls in flight before a term is given up. The next leader answers them when clients repeat them.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The name under which the health service says whether this replica leads.
pub(super) const LEADER: &str = "pausewatch.Leader";
/// The longest silence of a watch.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often a replica checks whether it knows the latest state.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A fleet, and how its replicas reach each other.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The fleet.
    pub fleet: FleetConfig,
    /// The address at which clients and other replicas reach this one: `HOST:PORT` or `https://HOST:PORT`; `None`: the
    /// first address that it listens on.
    pub advertise: Option<String>,
    /// The authorities of the certificates of other replicas, a PEM file; `None`: those of the system.
    pub peer_ca: Option<PathBuf>,
}

impl ReplicaConfig {
    /// The files for TLS to etcd and to other replicas, besides those of the server.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.fleet.endpoints.files().into_iter().chain(self.peer_ca.clone()).collect()
    }
}

/// Leads and follows.
pub(super) struct Replica {
    pub(super) fleet: Arc<Fleet>,
    pub(super) address: String,
    pub(super) leading: Leading,
    pub(super) clock: Arc<ReplicaClock>,
    pub(super) health: HealthReporter,
    pub(super) peers: Arc<Peers>,
    /// The settings of an engine.
    pub(super) settings: Box<dyn Fn() -> Settings + Send + Sync>,
    pub(super) serve: MakeElicitations,
    pub(super) broken: fn(Fatal),
}

impl Replica {
    /// Leads whenever it can until `stop.hand_over`, and follows until `stop.end`.
    ///
    /// # Errors
    /// This replica cannot use the stored data of the fleet.
    pub(super) async fn run(&self, stop: Stop) -> Result<(), OpenError> {
        self.fleet.progress().begin(i64::MIN);
        let led = tokio::select! {
            led = self.keep_leading(&stop) => led,
            () = self.peers.follow_leader(&self.address) => Ok(()),
            () = self.keep_fresh() => Ok(()),
            () = stop.end.cancelled() => Ok(()),
        };
        self.leading.stop();
        led
    }

    async fn keep_leading(&self, stop: &Stop) -> Result<(), OpenError> {
        loop {
            // One future for each term: it keeps what it has read until then.
            let mut winning = pin!(self.fleet.lead(&self.address));
            let term = tokio::select! {
                biased;
                () = self.give_up(stop) => winning.await?,
                term = &mut winning => term?,
            };
            // If the term was won before it was given up, it ends at once.
            self.lead(term, &stop.hand_over).await?;
        }
    }

    /// After `stop.hand_over`, this replica does not lead again, and holds no calls.
    async fn give_up(&self, stop: &Stop) {
        stop.hand_over.cancelled().await;
        self.leading.stop();
        self.fleet.abstain();
        stop.handed_over.cancel();
    }

    /// Ends watches when this replica may not know the latest state, and reports it in the log and the health service.
    async fn keep_fresh(&self) {
        let hub = self.fleet.progress().hub();
        let mut was_fresh = false;
        loop {
            let is_fresh = self.leading.is_fresh();
            if is_fresh != was_fresh && !self.leading.is_stopping() {
                was_fresh = is_fresh;
                let status = if is_fresh { ServingStatus::Serving } else { ServingStatus::NotServing };
                if is_fresh {
                    hub.reopen();
                } else {
                    tracing::warn!("this replica may not know the latest state: its watches end");
                    hub.close();
                }
                self.health.set_service_status(SERVICE_NAME, status).await;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Serves a term to its end.
    async fn lead(&self, term: Term, stop: &CancellationToken) -> Result<(), OpenError> {
        let Term { store, clock, pulse, number, mut ended } = term;
        let broken = self.broken;
        let fatal = move |fatal| match fatal {
            // The end of the term reports this too.
            Fatal::Deposed(_) => {}
            fatal => broken(fatal),
        };
        let hub = self.fleet.progress().hub().clone();
        self.clock.set(clock.at(0));
        self.clock.beat(Some(pulse.clone()));
        // Everything that was decided is shown. Nothing new is shown until the engine has started.
        hub.safe_time().end();
        let (store, settings) = (Box::new(store), (self.settings)());
        let coordinator = Coordinator::start_on(hub.clone(), store, clock.clone(), settings, fatal);
        let coordinator = Arc::new(coordinator?);
        let calls = TaskTracker::new();
        self.leading.begin(Serving {
            elicitations: (self.serve)(coordinator.clone(), self.clock.clone()),
            coordinator: coordinator.clone(),
            calls: calls.clone(),
            pulse: pulse.clone(),
            clock: clock.clone(),
            number,
        });
        self.health.set_service_status(LEADER, ServingStatus::Serving).await;
        let is_over = tokio::select! {
            why = &mut ended => {
                let why = why.unwrap_or_else(|_| "its thread has ended".into());
                tracing::warn!(term = number, why, "this replica no longer leads the fleet");
                true
            }
            () = stop.cancelled() => {
                tracing::info!(term = number, "this replica gives up the leadership");
                false
            }
        };
        if !is_over {
            self.leading.stop();
        }
        self.leading.end();
        self.health.set_service_status(LEADER, ServingStatus::NotServing).await;
        calls.close();
        if timeout(ANSWER_WITHIN, calls.wait()).await.is_err() {
            tracing::warn!(term = number, calls = calls.len(), "calls were still in flight at the end of the term");
        }
        // This waits for the last commit; then the store gives up the leadership.
        let _ = tokio::task::spawn_blocking(move || drop(coordinator)).await;
        if !is_over {
            let _ = timeout(ANSWER_WITHIN, ended).await;
        }
        // The coordinator publishes nothing more. Another leader may have decided since etcd was last reached.
        let sure = Timestamp { boot: clock.at(pulse.last()), wall: 0 };
        self.fleet.progress().begin(hub.safe_time().limit(sure).boot);
        self.clock.beat(None);
        Ok(())
    }
}
