//! How long the task that ends leases sleeps.
use crate::clock::Clock;
use crate::core::types::MIN_TTL;
use std::time::Duration;

/// How long the keeper of the leases sleeps at most: tokio's timers stand still while the machine sleeps, leases do not. No
/// lease is shorter either: none that begins while it sleeps ends before it wakes.
pub(super) const LONGEST_NAP: Duration = MIN_TTL;

/// How long to sleep until `due`.
pub(super) fn nap(due: i64, clock: &dyn Clock) -> Duration {
    let left = due.saturating_sub(clock.boot()).max(0);
    Duration::from_nanos(left.unsigned_abs()).min(LONGEST_NAP)
}
