//! How long a thread has been paused, to the nanosecond, across restarts and reboots.
//!
//! Time is measured on the boot-time clock, which continues while the machine sleeps and which nobody sets. The wall
//! clock only shows people when something began, and bridges a reboot, after which the boot-time clock starts again.
//! The wall clock may have been set back during a reboot; then the reboot counts as 0.
use std::time::Duration;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Nanoseconds on the boot-time clock. A moment before the last boot is below 0.
    pub boot: i64,
    /// Nanoseconds since the Unix epoch.
    pub wall: i64,
}

impl Timestamp {
    /// Later than every other moment: the end of a lease that only another process knows.
    pub const UNKNOWN: Timestamp = Timestamp { boot: i64::MAX, wall: i64::MAX };

    /// From `earlier` to here by the boot-time clock; 0 if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(u64::try_from(self.boot.saturating_sub(earlier.boot)).unwrap_or(0))
    }

    /// The moment `span` later.
    pub fn after(self, span: Duration) -> Timestamp {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        Timestamp { boot: self.boot.saturating_add(span), wall: self.wall.saturating_add(span) }
    }

    /// Converts a moment that an earlier process stored to the boot-time clock of this process.
    ///
    /// In the same boot it stays as it was stored. After a reboot it lies as far back as the wall clock says.
    pub fn rebased(self, same_boot: bool, now: Timestamp) -> Timestamp {
        let boot = match same_boot {
            true => self.boot.min(now.boot),
            false => now.boot.saturating_sub(now.wall.saturating_sub(self.wall).max(0)),
        };
        Timestamp { boot, wall: self.wall }
    }
}

/// The paused time of one thread: the ended pauses, and the open one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// The total of all ended pauses.
    pub accrued: Duration,
    /// When the open one began.
    pub since: Option<Timestamp>,
}

impl Pause {
    /// Length of the open pause, if there is one.
    pub fn open_for(&self, now: Timestamp) -> Option<Duration> {
        self.since.map(|since| now.since(since))
    }

    /// All paused time, the open pause included.
    pub fn total(&self, now: Timestamp) -> Duration {
        self.accrued.saturating_add(self.open_for(now).unwrap_or_default())
    }

    /// Begins a pause at `now` if `paused`, otherwise ends the open one. No effect if that is so already.
    pub fn turned(&self, paused: bool, now: Timestamp) -> Pause {
        match (paused, self.since) {
            (true, None) => Pause { accrued: self.accrued, since: Some(now) },
            (false, Some(_)) => Pause { accrued: self.total(now), since: None },
            _ => *self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(boot: i64, wall: i64) -> Timestamp {
        Timestamp { boot: boot * SECOND, wall: wall * SECOND }
    }

    #[test]
    fn overlapping_pauses_are_counted_once() {
        let mut pause = Pause::default().turned(true, at(10, 0));
        pause = pause.turned(true, at(12, 0));
        assert_eq!(pause.total(at(15, 0)), Duration::from_secs(5));
        pause = pause.turned(false, at(18, 0));
        assert_eq!((pause.total(at(99, 0)), pause.open_for(at(99, 0))), (Duration::from_secs(8), None));
    }

    #[test]
    fn the_wall_clock_has_no_part_in_a_length() {
        let pause = Pause::default().turned(true, at(10, 1_000));
        assert_eq!(pause.total(at(13, -5_000)), Duration::from_secs(3));
    }

    #[test]
    fn a_restart_in_the_same_boot_is_exact() {
        let since = at(10, 1_000).rebased(true, at(70, 9_999));
        assert_eq!(Pause { accrued: Duration::ZERO, since: Some(since) }.total(at(71, 0)), Duration::from_secs(61));
    }

    #[test]
    fn a_reboot_is_bridged_by_the_wall_clock_and_never_below_0() {
        let now = at(5, 1_600);
        assert_eq!(now.since(at(700_000, 1_000).rebased(false, now)), Duration::from_secs(600));
        assert_eq!(now.since(at(700_000, 2_000).rebased(false, now)), Duration::ZERO);
    }
}
