//! The time up to which paused durations are exact.
//!
//! A change carries the time at which it was decided, and becomes visible when it is durable, one commit later. A
//! reader in between would compute too long a pause for a thread that was just resumed, and later a shorter one. So
//! durations are shown only up to the beginning of the oldest batch that is not published yet.
//!
//! - Z1: everything published later was decided at or after each moment that [`SafeTime::limit`] has returned.
//!
//! A batch goes through the three fields in their order. It enters the next one before it leaves the previous one, and
//! readers read them in the same order, so they never miss a batch.
use crate::core::Timestamp;
use crate::sync::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;

/// No batch.
const NOTHING: i64 = i64::MAX;

/// When the batches began that are not published yet.
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

    /// A batch begins at this boot time. Call this before reading the time at which the batch is decided.
    pub fn begin(&self, now: i64) {
        self.committing.store(now, SeqCst);
    }

    /// The batch is committed and waits to be published.
    pub fn wait(&self) {
        self.waiting.fetch_min(self.committing.load(SeqCst), SeqCst);
        self.committing.store(NOTHING, SeqCst);
    }

    /// All waiting batches are about to be published. No batch may begin to wait meanwhile.
    pub fn take(&self) {
        self.publishing.store(self.waiting.load(SeqCst), SeqCst);
        self.waiting.store(NOTHING, SeqCst);
    }

    /// The batch is published.
    pub fn published(&self) {
        self.publishing.store(NOTHING, SeqCst);
    }

    /// Another process decides; everything that it decided before `until` (boot time) is published.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas follow"))]
    pub fn follow(&self, until: i64) {
        self.committing.store(until, SeqCst);
        self.waiting.store(NOTHING, SeqCst);
        self.publishing.store(NOTHING, SeqCst);
    }

    /// The current batch was published by the same thread that committed it.
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
