//! The state of a controller's connection to the coordinator, as its program sees it.
use crate::client::Error;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The state of the connection to the coordinator. Made by [`StopwatchController::link`](super::StopwatchController::link).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// No state has arrived yet, and nothing has failed.
    Connecting,
    /// The state of every followed thread is known and up to date, except of those that the coordinator refuses. A refused
    /// thread counts as disconnected, and the refusal is logged as a warning of `tracing`.
    Connected,
    /// The state of at least one thread may be out of date: stopwatches use the last known one.
    Disconnected {
        /// When the connection was lost; if it was silent for 15 s before, when its last message arrived.
        since: Instant,
        /// The cause.
        reason: String,
    },
    /// Disconnected for longer than the disconnect grace: paused threads count as running, and stopwatches that run out expire
    /// without a confirmation.
    GraceSpent {
        /// When the connection was lost; if it was silent for 15 s before, when its last message arrived.
        since: Instant,
        /// The cause.
        reason: String,
    },
    /// The controller is closed.
    Closed,
}

impl Link {
    /// Why the coordinator is unreachable: `Some` while the link is disconnected, before and after the end of the grace.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Disconnected { reason, .. } | Self::GraceSpent { reason, .. } => Some(reason),
            Self::Connecting | Self::Connected | Self::Closed => None,
        }
    }
}

/// Threads that the coordinator refuses; the watch goes on with the others.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "other programs read the log"))]
pub(crate) struct Refusal {
    pub(crate) thread_ids: Vec<Arc<str>>,
    pub(crate) reason: String,
}

/// Reports changes of the link, and refused threads. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct LinkReporter {
    link: Arc<watch::Sender<Link>>,
    refusal: Arc<watch::Sender<Option<Refusal>>>,
    grace: Duration,
}

impl LinkReporter {
    pub(super) fn new(link: Link, grace: Duration) -> Self {
        Self { link: Arc::new(watch::Sender::new(link)), refusal: Arc::default(), grace }
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    /// The latest refusal of threads.
    #[cfg(feature = "cli")]
    pub(super) fn subscribe_to_refusals(&self) -> watch::Receiver<Option<Refusal>> {
        self.refusal.subscribe()
    }

    pub(super) fn connected(&self) {
        let before = self.replace(Link::Connected);
        if before.is_some_and(|before| before.reason().is_some()) {
            tracing::info!("connected to the coordinator again");
        }
    }

    /// The connection is lost since `since`. The first loss counts: there is one grace for all threads.
    pub(super) fn disconnected(&self, since: Instant, error: &Error) {
        if self.link.borrow().reason().is_none() {
            tracing::warn!(%error, "the coordinator is unreachable: timeouts continue with the last known states");
            self.replace(Link::Disconnected { since, reason: error.to_string() });
        }
    }

    pub(super) fn refused(&self, thread_ids: &[Arc<str>], error: &Error) {
        tracing::warn!(%error, ?thread_ids, "threads are not watched: their timeouts continue without their pauses");
        self.refusal.send_replace(Some(Refusal { thread_ids: thread_ids.to_vec(), reason: error.to_string() }));
    }

    /// Waits for the end of the grace of a lost link, and reports it.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub(super) async fn grace_spent(&self) {
        let link = self.link.borrow().clone();
        let Link::Disconnected { since, reason } = link else { return std::future::pending().await };
        match since.checked_add(self.grace) {
            Some(end) => sleep_until(end).await,
            // The end of the grace is beyond every clock.
            None => std::future::pending().await,
        }
        tracing::warn!(%reason, "the disconnect grace is spent: paused threads count as running");
        self.replace(Link::GraceSpent { since, reason });
    }

    pub(super) fn closed(&self) {
        self.replace(Link::Closed);
    }

    /// Returns the previous link; `None`: it is closed, or has not changed.
    fn replace(&self, new: Link) -> Option<Link> {
        let mut before = None;
        self.link.send_if_modified(|link| {
            let is_news = *link != Link::Closed && *link != new;
            if is_news {
                before = Some(std::mem::replace(link, new));
            }
            is_news
        });
        before
    }
}
