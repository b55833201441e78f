//! The threads that a controller follows.
use super::thread::ThreadClock;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a thread without stopwatches is still followed.
pub(super) const LINGER: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Threads(Mutex<HashMap<Arc<str>, FollowedThread>>);

#[derive(Debug)]
pub(super) struct FollowedThread {
    pub(super) clock: Arc<ThreadClock>,
    pub(super) registrations: usize,
    pub(super) idle_since: Instant,
    /// The follower is going to check whether the thread is idle.
    pub(super) idle_check_pending: bool,
}

/// The result of [`Threads::forget_if_idle`].
pub(super) enum Idle {
    InUse,
    CheckAgainAt(Instant),
    Forgotten,
}

impl Threads {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, FollowedThread>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self, thread_id: &str) -> Option<Arc<ThreadClock>> {
        self.lock().get(thread_id).map(|thread| thread.clock.clone())
    }

    /// Forgets a thread that has been idle for [`LINGER`].
    pub(super) fn forget_if_idle(&self, thread_id: &str, now: Instant) -> Idle {
        let mut threads = self.lock();
        let Some(thread) = threads.get_mut(thread_id) else { return Idle::Forgotten };
        if thread.registrations > 0 {
            thread.idle_check_pending = false;
            return Idle::InUse;
        }
        let due = thread.idle_since + LINGER;
        if now < due {
            return Idle::CheckAgainAt(due);
        }
        threads.remove(thread_id);
        Idle::Forgotten
    }
}
