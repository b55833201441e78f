//! How long the task that ends leases sleeps.
use crate::clock::Clock;
use crate::core::types::MIN_TTL;
use std::time::Duration;

/// The maximum sleep: tokio's timers stop while the machine sleeps, leases do not. It is not longer than the shortest
/// lease, so no lease begins and ends within one sleep.
pub(super) const LONGEST_NAP: Duration = MIN_TTL;

/// How long to sleep until `due`.
pub(super) fn nap(due: i64, clock: &dyn Clock) -> Duration {
    let left = due.saturating_sub(clock.boot()).max(0);
    Duration::from_nanos(left.unsigned_abs()).min(LONGEST_NAP)
}
