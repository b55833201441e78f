//! A replica of a fleet: it serves while it leads, and otherwise says who does.
//!
//! - R1: a term has an engine and a hub of its own. When it ends, its calls and watches end with UNAVAILABLE before anything of the
//!   next term is served.
//! - R2: reads and watches begin after etcd has said that the term goes on (`leading.rs`).
//! - R3: a replica that stops gives the leadership up as soon as its calls are answered, so that another one need not wait for its
//!   silence.
mod leading;
mod look;

pub(super) use leading::Leading;
pub(super) use look::{LookService, Peers};

use super::grpc::MakeElicitations;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::etcd::{Fleet, FleetConfig, Term};
use crate::coordinator::{Coordinator, Fatal, Settings};
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
use leading::Serving;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// How long calls in flight have until a term is given up. The next leader answers them when they are sent again.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A fleet, and how its replicas reach each other.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The fleet.
    pub fleet: FleetConfig,
    /// Where clients and other replicas reach this one: `HOST:PORT` or `https://HOST:PORT`; `None`: the first address that it
    /// listens on.
    pub advertise: Option<String>,
    /// The authorities of the certificates of other replicas, a PEM file; `None`: those of the system.
    pub peer_ca: Option<PathBuf>,
}

/// Leads and follows.
pub(super) struct Replica {
    pub(super) fleet: Arc<Fleet>,
    pub(super) address: String,
    pub(super) leading: Leading,
    pub(super) health: HealthReporter,
    pub(super) peers: Peers,
    /// The settings of an engine.
    pub(super) settings: Box<dyn Fn() -> Settings + Send + Sync>,
    pub(super) serve: MakeElicitations,
    pub(super) broken: fn(Fatal),
}

impl Replica {
    /// Leads whenever it can, until `stop`.
    ///
    /// # Errors
    /// What the fleet has stored cannot be used by this replica.
    pub(super) async fn run(&self, stop: CancellationToken) -> Result<(), OpenError> {
        let looking = self.peers.look_at_leader();
        let leading = async {
            while !stop.is_cancelled() {
                let term = tokio::select! {
                    term = self.fleet.lead(&self.address) => term?,
                    () = stop.cancelled() => return Ok(()),
                };
                self.lead(term, &stop).await?;
            }
            Ok(())
        };
        tokio::select! {
            led = leading => led,
            () = looking => Ok(()),
        }
    }

    /// Serves a term to its end.
    async fn lead(&self, term: Term, stop: &CancellationToken) -> Result<(), OpenError> {
        let Term { store, clock, pulse, number, mut ended } = term;
        let broken = self.broken;
        let fatal = move |fatal| match fatal {
            // The end of the term says so too.
            Fatal::Deposed(_) => {}
            fatal => broken(fatal),
        };
        let coordinator = Arc::new(Coordinator::start_with(Box::new(store), clock.clone(), (self.settings)(), fatal)?);
        let calls = TaskTracker::new();
        self.leading.begin(Serving {
            elicitations: (self.serve)(coordinator.clone(), clock.clone()),
            coordinator: coordinator.clone(),
            calls: calls.clone(),
            pulse,
            clock,
            number,
        });
        self.health.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
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
        self.leading.end();
        self.health.set_service_status(SERVICE_NAME, ServingStatus::NotServing).await;
        coordinator.hub().close();
        calls.close();
        if timeout(ANSWER_WITHIN, calls.wait()).await.is_err() {
            tracing::warn!(term = number, calls = calls.len(), "calls were still in flight at the end of the term");
        }
        // It waits for its last commit, and its store then gives up the leadership.
        let _ = tokio::task::spawn_blocking(move || drop(coordinator)).await;
        if !is_over {
            let _ = timeout(ANSWER_WITHIN, ended).await;
        }
        Ok(())
    }
}
