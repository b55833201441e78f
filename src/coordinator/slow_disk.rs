//! Detects a slow disk from the duration of the last commits.
//!
//! A good disk has a few slow commits per second. Each is over when it is detected, and moving the commits of a second
//! to a thread costs more than the next slow commit does. A slow disk has two slow commits in a row
//! (docs/decisions/0007-commits-on-the-workers.md).
use crate::sync::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// A commit of this duration (nanoseconds) is slow: ten times what a good disk needs, and little compared with a
/// heartbeat.
const SLOW: i64 = 2_000_000;
/// One commit of this duration is enough.
const VERY_SLOW: i64 = 20_000_000;
/// How long the disk counts as slow.
const SLOW_FOR: i64 = 1_000_000_000;

pub(super) struct SlowDiskDetector {
    /// On the boot-time clock.
    slow_until: AtomicI64,
    /// How long the last commit took, in nanoseconds.
    last: AtomicI64,
}

impl SlowDiskDetector {
    pub(super) fn new() -> Self {
        SlowDiskDetector { slow_until: AtomicI64::new(i64::MIN), last: AtomicI64::new(0) }
    }

    pub(super) fn is_slow(&self, now: i64) -> bool {
        now < self.slow_until.load(Relaxed)
    }

    /// Records a commit. Calls never overlap, because the engine is locked.
    pub(super) fn committed(&self, began: i64, ended: i64) {
        let took = ended.saturating_sub(began);
        let last = self.last.swap(took, Relaxed);
        if took >= VERY_SLOW || took.min(last) >= SLOW {
            self.slow_until.store(ended.saturating_add(SLOW_FOR), Relaxed);
        }
    }
}
