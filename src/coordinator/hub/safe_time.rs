//! Up to when it is known how long a thread has been paused.
//!
//! A change has the time at which it was judged, and is seen when it is durable, a commit later. Who asked in between how
//! long a thread that was just resumed has been paused would be told more than it was, and less afterwards. So nobody is
//! told of time after the beginning of a batch that was not published yet.
//!
//! - Z1: whatever is published later was judged at or after each moment that was given out before.
//!
//! A batch is in one place at a time, and goes through them in their order: it enters the next before it leaves the one
//! before, and readers look in the same order. So none slips through between two looks.
use crate::core::Timestamp;
use crate::sync::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;

/// Nothing is there.
const NOTHING: i64 = i64::MAX;

/// When the batches began that were not published yet.
#[derive(Debug)]
pub struct SafeTime {
    committing: AtomicI64,
    /// Committed by one thread, to be published by another.
    waiting: AtomicI64,
    publishing: AtomicI64,
}

impl Default for SafeTime {
    fn default() -> Self {
        let nothing = || AtomicI64::new(NOTHING);
        SafeTime { committing: nothing(), waiting: nothing(), publishing: nothing() }
    }
}

impl SafeTime {
    /// `now`, or the latest time before it up to which all changes are published. Call this before the state is read.
    pub fn limit(&self, now: Timestamp) -> Timestamp {
        let known = self.committing.load(SeqCst);
        let known = known.min(self.waiting.load(SeqCst));
        let known = known.min(self.publishing.load(SeqCst));
        let unknown = now.boot.saturating_sub(known).max(0);
        Timestamp { boot: now.boot - unknown, wall: now.wall.saturating_sub(unknown) }
    }

    /// A batch begins at this boot time. Call this before the time is read at which the batch is decided.
    pub fn begin(&self, now: i64) {
        self.committing.store(now, SeqCst);
    }

    /// The batch is committed and waits for who publishes it.
    pub fn wait(&self) {
        self.waiting.fetch_min(self.committing.load(SeqCst), SeqCst);
        self.committing.store(NOTHING, SeqCst);
    }

    /// All that waits is going to be published. Nothing may begin to wait meanwhile.
    pub fn take(&self) {
        self.publishing.store(self.waiting.load(SeqCst), SeqCst);
        self.waiting.store(NOTHING, SeqCst);
    }

    /// The batch is published.
    pub fn published(&self) {
        self.publishing.store(NOTHING, SeqCst);
    }

    /// Another process decides, and all that it has decided before `until` (boot time) is published.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas follow"))]
    pub fn follow(&self, until: i64) {
        self.committing.store(until, SeqCst);
        self.waiting.store(NOTHING, SeqCst);
        self.publishing.store(NOTHING, SeqCst);
    }

    /// The batch that began is published by who committed it.
    pub fn end(&self) {
        self.committing.store(NOTHING, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: i64) -> Timestamp {
        Timestamp { boot, wall: 1_000 + boot }
    }

    #[test]
    fn readers_see_no_time_after_the_start_of_an_unpublished_batch() {
        let safe_time = SafeTime::default();
        assert_eq!(safe_time.limit(at(9)), at(9));
        safe_time.begin(10);
        assert_eq!((safe_time.limit(at(9)), safe_time.limit(at(12))), (at(9), at(10)));
        safe_time.wait();
        safe_time.begin(20);
        assert_eq!(safe_time.limit(at(21)), at(10), "the first one waits");
        safe_time.take();
        safe_time.wait();
        assert_eq!(safe_time.limit(at(22)), at(10), "it is being published");
        safe_time.published();
        assert_eq!(safe_time.limit(at(23)), at(20), "the second one waits");
        safe_time.take();
        safe_time.published();
        assert_eq!(safe_time.limit(at(24)), at(24));
        safe_time.begin(30);
        safe_time.end();
        assert_eq!(safe_time.limit(at(31)), at(31));
    }

    #[test]
    fn of_several_that_wait_the_first_counts() {
        let safe_time = SafeTime::default();
        for began in [10, 20] {
            safe_time.begin(began);
            safe_time.wait();
        }
        assert_eq!(safe_time.limit(at(25)), at(10));
    }
}
