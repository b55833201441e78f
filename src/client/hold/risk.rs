//! The warning before a lease ends because it cannot be renewed.
use super::Error;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// A lease that could not be renewed for two thirds of its ttl, made by [`Hold::risk`](super::Hold::risk).
#[derive(Debug, Clone)]
pub struct LeaseRisk {
    /// The latest end of the lease, unless a renewal succeeds before. A coordinator that is restarted gives it a full
    /// ttl again.
    pub ends: Instant,
    /// Why the last renewal failed; `None`: it has no answer yet.
    pub error: Option<Error>,
}

/// Whether the lease is at risk. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Risk(Arc<watch::Sender<Option<LeaseRisk>>>);

impl Risk {
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<LeaseRisk>> {
        self.0.subscribe()
    }

    /// Waits until a third of the ttl is left, and reports it once.
    pub(super) async fn report(&self, ends: Instant, ttl: Duration, error: Option<&Error>) {
        if let Some(from) = ends.checked_sub(ttl / 3) {
            sleep_until(from).await;
        }
        let new = || Some(LeaseRisk { ends, error: error.cloned() });
        self.0.send_if_modified(|risk| risk.is_none() && std::mem::replace(risk, new()).is_none());
    }

    /// A renewal has succeeded.
    pub(super) fn clear(&self) {
        self.0.send_if_modified(|risk| risk.take().is_some());
    }
}
