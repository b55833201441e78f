//! Detects that the server stalled: the process was stopped, got no CPU, or a worker waited for the disk.
//!
//! No holder could renew its lease meanwhile, so the ends of the leases move by the same time (E4). Stalls of less than
//! 1.5 s are ignored: a lease still has two thirds of its length when its holder renews it, so they end none whose ttl is 2.25 s
//! or more. The ends move and do not restart: on a machine that stalls repeatedly, restarted leases would never end.
use super::nap::LONGEST_NAP;
use crate::sync::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Beats come more often than this (nanoseconds), unless the server stalls.
const TOO_LONG: i64 = LONGEST_NAP.as_nanos() as i64 + 500_000_000;

pub(super) struct StallDetector {
    /// When the last beat was, on the boot-time clock.
    last: AtomicI64,
    /// The length of the stalls since the last query, in nanoseconds.
    stalled: AtomicI64,
}

impl StallDetector {
    pub(super) fn new(now: i64) -> Self {
        StallDetector { last: AtomicI64::new(now), stalled: AtomicI64::new(0) }
    }

    /// Records that the server runs.
    pub(super) fn beat(&self, now: i64) {
        // Another thread may have read the clock later and beaten first: a stall counts once.
        let since = now.saturating_sub(self.last.fetch_max(now, Relaxed));
        if since > TOO_LONG {
            self.stalled.fetch_add(since, Relaxed);
        }
    }

    /// The length of the stalls up to `now`, since the last query.
    pub(super) fn take_stall(&self, now: i64) -> Duration {
        self.beat(now);
        Duration::from_nanos(self.stalled.swap(0, Relaxed).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000_000;

    #[test]
    fn a_stall_counts_once_if_two_threads_beat_after_it_in_either_order() {
        let detector = StallDetector::new(0);
        detector.beat(MINUTE);
        // This thread read the clock before the stall.
        detector.beat(0);
        assert_eq!(detector.take_stall(MINUTE), Duration::from_secs(60));
        assert_eq!(detector.take_stall(MINUTE), Duration::ZERO);
    }
}
