//! The threads that a controller follows, shared by the controller and its follower.
use super::thread::ThreadClock;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a thread without stopwatches is still followed.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// Whether the coordinator is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Nothing has been heard yet, nor has anything failed.
    Connecting,
    /// All threads are known.
    Connected,
    /// At least one thread is not heard of; why.
    Disconnected(String),
}

/// What the follower is told. At most one of each per thread is on the way.
#[derive(Debug)]
pub(super) enum Command {
    Follow(Arc<str>),
    MayBeIdle(Arc<str>),
}

/// The threads that are followed.
#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<HashMap<Arc<str>, Thread>>);

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) clock: Arc<ThreadClock>,
    pub(super) registered: usize,
    pub(super) idle_since: Instant,
    /// The follower will look whether it is idle.
    pub(super) doubted: bool,
}

impl Threads {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Thread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self, thread_id: &str) -> Option<Arc<ThreadClock>> {
        self.lock().get(thread_id).map(|thread| thread.clock.clone())
    }

    /// Forgets a thread that has been idle long enough; otherwise says when to look again, if at all.
    pub(super) fn forget_if_idle(&self, thread_id: &str, now: Instant) -> Idle {
        let mut threads = self.lock();
        let Some(thread) = threads.get_mut(thread_id) else { return Idle::Forgotten };
        if thread.registered > 0 {
            thread.doubted = false;
            return Idle::InUse;
        }
        let due = thread.idle_since + LINGER;
        if now < due {
            return Idle::LookAgain(due);
        }
        threads.remove(thread_id);
        Idle::Forgotten
    }
}

pub(super) enum Idle {
    InUse,
    LookAgain(Instant),
    Forgotten,
}
