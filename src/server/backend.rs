//! The backend of a server: the coordinator of its store or, in a replica of a fleet, that of the term in which it
//! leads.
#[cfg(feature = "etcd")]
use super::fleet::{HEARTBEAT, Replica};
use super::stop::Stop;
use crate::coordinator::Coordinator;
use crate::coordinator::hub::Hub;
use crate::coordinator::metrics::FleetState;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// How long a stopping replica takes to end its watches, so that their clients do not all connect to the other replicas
/// at once: this long per watch, and in total at most the value below.
const END_EACH: Duration = Duration::from_millis(1);
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const PARTS: u32 = 40;

pub(super) enum Backend {
    Alone(Arc<Coordinator>),
    #[cfg(feature = "etcd")]
    Fleet(Box<Replica>),
}

/// Returns the hub that is served, if this server knows the latest state.
pub(super) type PresentHub = Arc<dyn Fn() -> Option<Arc<Hub>> + Send + Sync>;

/// A round of heartbeats: the number of its parts, and the time between two parts. A watch is silent for two rounds at
/// most.
#[derive(Clone, Copy)]
pub(super) struct Beat {
    pub(super) every: Duration,
    pub(super) parts: usize,
}

impl Beat {
    /// The longest silence is two rounds, 14 s: the contract allows 15 s.
    pub(super) const ALONE: Beat = Beat { every: Duration::from_secs(1), parts: 7 };
}

/// The background tasks of a backend.
pub(super) struct Running {
    task: Option<JoinHandle<()>>,
    stop: Stop,
}

impl Backend {
    pub(super) fn hub(&self) -> PresentHub {
        match self {
            Backend::Alone(coordinator) => {
                let hub = coordinator.hub().clone();
                Arc::new(move || Some(hub.clone()))
            }
            #[cfg(feature = "etcd")]
            Backend::Fleet(replica) => {
                let (leading, hub) = (replica.leading.clone(), replica.fleet.progress().hub().clone());
                Arc::new(move || leading.is_fresh().then(|| hub.clone()))
            }
        }
    }

    /// The metrics of a replica.
    pub(super) fn figures(&self) -> Arc<dyn Fn() -> Option<FleetState> + Send + Sync> {
        match self {
            Backend::Alone(_) => Arc::new(|| None),
            #[cfg(feature = "etcd")]
            Backend::Fleet(replica) => {
                let (leading, fleet) = (replica.leading.clone(), replica.fleet.clone());
                let leader = fleet.leader();
                Arc::new(move || {
                    let term = leader.borrow().as_ref().map(|leader| leader.term);
                    Some(leading.figures(term, fleet.leader_clock()))
                })
            }
        }
    }

    /// The round of heartbeats of this backend.
    pub(super) fn beat(&self) -> Beat {
        match self {
            Backend::Alone(_) => Beat::ALONE,
            // The longest silence is two rounds.
            #[cfg(feature = "etcd")]
            Backend::Fleet(_) => Beat { every: HEARTBEAT / 10, parts: 5 },
        }
    }

    /// Starts the backend. A single coordinator lives until the result is dropped. `broken`: called if the stored data
    /// cannot be used.
    pub(super) fn run(self, broken: impl Fn(&str) + Send + 'static) -> (Running, Option<Arc<Coordinator>>) {
        let stop = Stop::default();
        match self {
            Backend::Alone(coordinator) => {
                drop(broken);
                (Running { task: None, stop }, Some(coordinator))
            }
            #[cfg(feature = "etcd")]
            Backend::Fleet(replica) => {
                let stopped = stop.clone();
                let task = tokio::spawn(async move {
                    let _handed_over = stopped.handed_over.clone().drop_guard();
                    match tokio::spawn(async move { replica.run(stopped).await }).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => broken(&error.to_string()),
                        // A server that can never lead again must not continue as if it could.
                        Err(panic) => broken(&panic.to_string()),
                    }
                });
                (Running { task: Some(task), stop }, None)
            }
        }
    }
}

impl Running {
    /// Gives up the leadership, so that another replica can take over.
    pub(super) async fn hand_over(&self) {
        self.stop.hand_over.cancel();
        if self.task.is_some() {
            self.stop.handed_over.cancelled().await;
        }
    }

    /// Ends the watches of `hub` and the background tasks. Clients of a fleet move to the other replicas one after the
    /// other.
    pub(super) async fn stop(self, hub: Option<Arc<Hub>>) {
        if let (Some(hub), Some(_)) = (&hub, &self.task) {
            let count = u32::try_from(hub.streams()).unwrap_or(u32::MAX);
            let part = ENDS_WITHIN.min(END_EACH.saturating_mul(count)) / PARTS;
            for number in 0..PARTS {
                hub.end(number as usize, PARTS as usize);
                sleep(part).await;
            }
        }
        hub.iter().for_each(|hub| hub.close());
        self.stop.end.cancel();
        if let Some(task) = self.task {
            // After a panic there is nothing to hand over.
            let _ = task.await;
        }
    }
}
