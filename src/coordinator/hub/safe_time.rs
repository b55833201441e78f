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
    /// `now`, or the latest moment before it up to which all is known. To be asked for before the state is read.
    pub fn limit(&self, now: Timestamp) -> Timestamp {
        let known = self.committing.load(SeqCst);
        let known = known.min(self.waiting.load(SeqCst));
        let known = known.min(self.publishing.load(SeqCst));
        let unknown = now.boot.saturating_sub(known).max(0);
        Timestamp { boot: now.boot - unknown, wall: now.wall.saturating_sub(unknown) }
    }

    /// A batch begins, at this moment of the boot-time clock. To be told before the moment is read at which it is judged.
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

    /// What was taken is published.
    pub fn published(&self) {
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
    fn nobody_sees_beyond_the_beginning_of_what_is_not_published() {
        let horizon = SafeTime::default();
        assert_eq!(horizon.limit(at(9)), at(9));
        horizon.begin(10);
        assert_eq!((horizon.limit(at(9)), horizon.limit(at(12))), (at(9), at(10)));
        horizon.wait();
        horizon.begin(20);
        assert_eq!(horizon.limit(at(21)), at(10), "the first one waits");
        horizon.take();
        horizon.wait();
        assert_eq!(horizon.limit(at(22)), at(10), "it is being published");
        horizon.published();
        assert_eq!(horizon.limit(at(23)), at(20), "the second one waits");
        horizon.take();
        horizon.published();
        assert_eq!(horizon.limit(at(24)), at(24));
        horizon.begin(30);
        horizon.end();
        assert_eq!(horizon.limit(at(31)), at(31));
    }

    #[test]
    fn of_several_that_wait_the_first_counts() {
        let horizon = SafeTime::default();
        for began in [10, 20] {
            horizon.begin(began);
            horizon.wait();
        }
        assert_eq!(horizon.limit(at(25)), at(10));
    }
}
