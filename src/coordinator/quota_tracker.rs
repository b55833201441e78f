//! Counts the open elicitations and known threads of each caller. Only the engine uses it, so two calls cannot pass a limit at
//! the same time.
//!
//! The opener of an elicitation is not stored: after a restart or a takeover, elicitations from before count in total, and for no caller.
use crate::coordinator::quota::{Account, CallerKey, Exceeded, Limit, Limits};
use crate::core::types::{ElicitationId, ThreadId};
use hashbrown::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The retry delay of refusals: a person has to answer, or a day has to pass, before there is room.
const RETRY_AFTER: Duration = Duration::from_secs(10);

pub(super) struct QuotaTracker {
    limits: Option<Limits>,
    open: usize,
    openers: HashMap<ElicitationId, Arc<Account>>,
    namers: HashMap<ThreadId, Arc<Account>>,
}

impl QuotaTracker {
    /// `open`: elicitations that are open already.
    pub(super) fn new(limits: Option<Limits>, open: usize) -> Self {
        QuotaTracker { limits, open, openers: HashMap::new(), namers: HashMap::new() }
    }

    /// Counts one more elicitation. `first`: the thread, if it is new; `threads`: the number of known threads.
    pub(super) fn open(
        &mut self,
        id: ElicitationId,
        first: Option<&ThreadId>,
        threads: usize,
        by: Option<&Arc<Account>>,
    ) -> Result<(), Exceeded> {
        if let Some(limits) = &self.limits {
            within(Limit::OpenElicitations, self.open as u64, limits.open.in_all, None)?;
            if first.is_some() {
                within(Limit::Threads, threads as u64, limits.threads.in_all, None)?;
            }
            if let Some(by) = by {
                let has = |what: &AtomicU64| what.load(Relaxed);
                let key = Some(by.key());
                within(Limit::OpenElicitationsPerCaller, has(&by.open), limits.open.per_caller, key)?;
                if first.is_some() {
                    within(Limit::ThreadsPerCaller, has(&by.threads), limits.threads.per_caller, key)?;
                }
            }
        }
        self.open += 1;
        if let Some(by) = by.filter(|_| self.limits.is_some()) {
            by.open.fetch_add(1, Relaxed);
            self.openers.insert(id, by.clone());
            if let Some(thread) = first {
                by.threads.fetch_add(1, Relaxed);
                self.namers.insert(thread.clone(), by.clone());
            }
        }
        Ok(())
    }

    /// Counts one elicitation less: it was closed, or its increment was reverted.
    pub(super) fn close(&mut self, id: ElicitationId) {
        self.open -= 1;
        if let Some(by) = self.openers.remove(&id) {
            by.open.fetch_sub(1, Relaxed);
        }
    }

    /// Counts one thread less: it was forgotten, or the change that created it was reverted.
    pub(super) fn forget(&mut self, thread: &ThreadId) {
        if let Some(by) = self.namers.remove(thread) {
            by.threads.fetch_sub(1, Relaxed);
        }
    }
}

/// Releases the usage: a replica keeps running when its engine has ended, and its next engine counts from zero.
impl Drop for QuotaTracker {
    fn drop(&mut self) {
        self.openers.values().for_each(|by| _ = by.open.fetch_sub(1, Relaxed));
        self.namers.values().for_each(|by| _ = by.threads.fetch_sub(1, Relaxed));
    }
}

fn within(limit: Limit, was: u64, allowed: Option<u64>, caller: Option<&CallerKey>) -> Result<(), Exceeded> {
    match allowed {
        Some(allowed) if was >= allowed => {
            let caller = caller.map(CallerKey::name);
            Err(Exceeded { limit, was, allowed, caller, retry_after: RETRY_AFTER })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::quota::Accounts;

    #[test]
    fn the_end_of_an_engine_gives_back_what_its_callers_had() {
        let accounts = Accounts::default();
        let caller = accounts.of(CallerKey::Subject("a".into()), Duration::ZERO);
        let thread = ThreadId::parse("", "t").expect("valid");
        let mut tracker = QuotaTracker::new(Some(Limits::default()), 0);
        for id in 0..3 {
            let first = (id == 0).then_some(&thread);
            tracker.open(ElicitationId(id), first, 0, Some(&caller)).expect("within the limits");
        }
        tracker.close(ElicitationId(1));
        assert_eq!((caller.open.load(Relaxed), caller.threads.load(Relaxed)), (2, 1));
        drop(tracker);
        assert_eq!((caller.open.load(Relaxed), caller.threads.load(Relaxed)), (0, 0));
    }
}
