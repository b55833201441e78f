//! How long the machine has been asleep (suspend, hibernation) since it started.
use std::time::Duration;

/// The difference between the clock that includes sleep and the one that excludes it, which `Instant` uses on Linux.
#[cfg(target_os = "linux")]
pub(super) fn total() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    // Read in this order, an interruption between the two makes the difference too small, never too large.
    let with_sleep = read(ClockId::Boottime);
    with_sleep.saturating_sub(read(ClockId::Monotonic))
}

/// Unknown on this system: a pause that spans a sleep is credited completely, up to the time that was charged.
#[cfg(not(target_os = "linux"))]
pub(super) fn total() -> Duration {
    Duration::ZERO
}
