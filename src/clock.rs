//! The clock of the server: the only place in which the rules, the coordinator and the gRPC service read the time.
//!
//! Durations come from the boot-time clock (`CLOCK_BOOTTIME` in clock_gettime(2)): it continues while the machine
//! sleeps, and cannot be set. The boot id shows whether a stored time is of the same boot.
use crate::core::Timestamp;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum time between the readings of two clocks; after a longer time, both are read again.
const ONE_MOMENT: Duration = Duration::from_millis(1);
/// Maximum number of readings, on a machine that is too busy.
const MAX_READINGS: usize = 10;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
    /// The boot-time clock alone, without reading the wall clock.
    fn boot(&self) -> i64 {
        self.now().boot
    }
    /// How long the machine has been awake, counted from an arbitrary start. If it grows by less than [`Clock::now`],
    /// the machine has slept.
    fn awake(&self) -> Duration;
    /// How long the machine has slept in total (nanoseconds), counted from an arbitrary start.
    fn slept(&self) -> i64 {
        self.boot().saturating_sub(nanos(self.awake()))
    }
    /// Identifies the boot that the boot-time clock counts from, and the offset of its time namespace.
    fn boot_id(&self) -> u64;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct System {
    boot_id: u64,
}

impl System {
    /// Reads the boot id. Without one, every process counts as a new boot, and the wall clock bridges the time between.
    pub fn new() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let boot_id = named(&read("/proc/sys/kernel/random/boot_id"), &read("/proc/self/timens_offsets"));
        System { boot_id: boot_id.unwrap_or_else(|| nanos(wall()).unsigned_abs()) }
    }
}

impl Default for System {
    fn default() -> Self {
        Self::new()
    }
}

/// The id of the boot-time clock that this process reads. It combines the `boot_id` with the `offsets` of the time
/// namespace (time_namespaces(7)).
fn named(boot_id: &str, offsets: &str) -> Option<u64> {
    let digits = boot_id.replace('-', "");
    let boot_id = u64::from_str_radix(digits.get(..16)?, 16).ok()?;
    let mut clocks = offsets.lines().map(|line| line.split_whitespace());
    let moved = clocks.find_map(|mut words| (words.next() == Some("boottime")).then_some(words));
    let mut numbers = moved.into_iter().flatten().map(|number| number.parse::<i64>().unwrap_or_default());
    let (seconds, nanos) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    Some(boot_id ^ seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos).cast_unsigned())
}

/// The wall clock: for people and labels, not for durations.
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn read(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    read(clock)
}

/// Reads the clock `boot`, and another one at the same moment. If the process stalled in between, both are read again:
/// the stall would look like a sleep of the machine or a step of the wall clock.
fn at_one_moment(boot: impl Fn() -> Duration, other: impl Fn() -> Duration) -> (i64, i64) {
    let mut first = boot();
    for _ in 1..MAX_READINGS {
        let (read, next) = (other(), boot());
        if next.saturating_sub(first) <= ONE_MOMENT {
            return (nanos(first), nanos(read));
        }
        first = next;
    }
    (nanos(first), nanos(other()))
}

impl Clock for System {
    fn now(&self) -> Timestamp {
        let (boot, wall) = at_one_moment(boot, wall);
        Timestamp { boot, wall }
    }

    fn boot(&self) -> i64 {
        nanos(boot())
    }

    fn awake(&self) -> Duration {
        read(rustix::time::ClockId::Monotonic)
    }

    fn slept(&self) -> i64 {
        let (boot, awake) = at_one_moment(boot, || self.awake());
        boot.saturating_sub(awake)
    }

    fn boot_id(&self) -> u64 {
        self.boot_id
    }
}

/// A clock that changes only when it is moved.
#[derive(Debug)]
pub struct Manual(Mutex<(Timestamp, Duration, u64)>);

impl Manual {
    /// Starts at `now`, in the boot `boot_id`.
    pub fn new(now: Timestamp, boot_id: u64) -> Self {
        Manual(Mutex::new((now, Duration::ZERO, boot_id)))
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.lock().expect("no panic while locked");
        state.0 = state.0.after(by);
        state.1 += by;
    }

    /// The machine sleeps: only the boot-time clock and the wall clock advance.
    pub fn sleep(&self, by: Duration) {
        let mut state = self.0.lock().expect("no panic while locked");
        state.0 = state.0.after(by);
    }

    /// The machine boots again after `off`, and its wall clock is off by `skew_ns`.
    pub fn reboot(&self, off: Duration, skew_ns: i64) {
        let mut state = self.0.lock().expect("no panic while locked");
        let wall = state.0.after(off).wall.saturating_add(skew_ns);
        *state = (Timestamp { boot: 0, wall }, Duration::ZERO, state.2 + 1);
    }
}

impl Clock for Manual {
    fn now(&self) -> Timestamp {
        self.0.lock().expect("no panic while locked").0
    }

    fn awake(&self) -> Duration {
        self.0.lock().expect("no panic while locked").1
    }

    fn boot_id(&self) -> u64 {
        self.0.lock().expect("no panic while locked").2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn two_clocks_are_read_again_if_the_process_stood_still_in_between() {
        let now = Cell::new(Duration::from_secs(5));
        let pass = |time| {
            now.set(now.get() + time);
            now.get()
        };
        let stalls = Cell::new(2);
        let read_boot = || pass(Duration::from_micros(1));
        let read_other = || {
            let read = pass(Duration::from_micros(1));
            if stalls.get() > 0 {
                stalls.set(stalls.get() - 1);
                pass(Duration::from_millis(700));
            }
            read
        };
        let (boot, other) = at_one_moment(read_boot, read_other);
        assert_eq!(other - boot, 1_000, "one microsecond apart");
        assert!(boot > 6_400_000_000, "after both stalls");
        stalls.set(usize::MAX);
        at_one_moment(read_boot, read_other);
        assert_eq!(usize::MAX - stalls.get(), MAX_READINGS, "it does not try for ever");
    }

    #[test]
    fn a_clock_that_a_time_namespace_moves_has_another_name() {
        const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef\n";
        let at = |offset: &str| named(BOOT, &format!("monotonic           5         6\nboottime {offset}\n"));
        assert_eq!(named(BOOT, ""), Some(0x0123_4567_89ab_cdef));
        assert_eq!(at("          0         0"), named(BOOT, ""), "as without namespaces");
        let others = [at("      86400         0"), at("     -86400         0"), at("          0         1")];
        for (i, other) in others.iter().enumerate() {
            assert!(other.is_some() && !others[..i].contains(other) && *other != named(BOOT, ""), "{i}");
        }
        assert_eq!(named("", ""), None);
    }
}
