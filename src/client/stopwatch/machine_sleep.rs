//! How long the machine has been asleep (suspend, hibernation) since it started.
use std::time::Duration;

/// An interruption between the readings of two clocks that is as long as this could not be told from a sleep (`MIN_SLEEP` of
/// `paused_time.rs`, with room for another one in the next reading).
#[cfg(target_os = "linux")]
const LONGEST_READING: Duration = Duration::from_millis(10);
/// How often the clocks are read again. On a machine that is too busy for all of them, the shortest reading counts.
#[cfg(target_os = "linux")]
const READINGS: usize = 100;

/// The difference between the clock that includes sleep and the one that excludes it, which `Instant` uses on Linux.
#[cfg(target_os = "linux")]
pub(super) fn total() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    difference(|| read(ClockId::Monotonic), || read(ClockId::Boottime))
}

/// How far `with_sleep` is ahead of `awake`, at most as wrong as the shortest reading of both took.
#[cfg(target_os = "linux")]
fn difference(mut awake: impl FnMut() -> Duration, mut with_sleep: impl FnMut() -> Duration) -> Duration {
    let mut reading = || {
        let (before, at, after) = (awake(), with_sleep(), awake());
        (after.saturating_sub(before), at.saturating_sub(after))
    };
    let mut shortest = reading();
    for _ in 1..READINGS {
        if shortest.0 < LONGEST_READING {
            break;
        }
        shortest = shortest.min(reading());
    }
    shortest.1
}

/// Unknown on this system: a pause that spans a sleep is credited completely, up to the time that was charged.
#[cfg(not(target_os = "linux"))]
pub(super) fn total() -> Duration {
    Duration::ZERO
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::cell::Cell;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// The difference on a machine that has slept for an hour, where the process is interrupted for so many milliseconds before each
    /// reading of a clock, in turn.
    fn read(interruptions: &[u64]) -> Duration {
        let (now, next) = (Cell::new(Duration::from_secs(7)), Cell::new(0));
        let tick = || {
            let milliseconds = interruptions.get(next.get()).copied().unwrap_or_default();
            next.set(next.get() + 1);
            now.set(now.get() + Duration::from_millis(milliseconds));
            now.get()
        };
        difference(tick, || tick() + HOUR)
    }

    #[test]
    fn an_interruption_between_the_clocks_is_no_sleep() {
        assert_eq!(read(&[]), HOUR);
        for interruptions in [&[0, 0, 500][..], &[0, 500], &[0, 0, 500, 0, 0, 500, 0, 500, 500], &[900, 9, 0]] {
            assert_eq!(read(interruptions), HOUR, "{interruptions:?}");
        }
        // Never a short one: the shortest counts.
        let mut always = vec![30; 3 * READINGS];
        (always[10], always[11]) = (20, 20);
        assert_eq!(read(&always), HOUR - Duration::from_millis(20));
        // It is really asleep for no time here.
        assert!(total().abs_diff(total()) < Duration::from_millis(50));
    }
}
