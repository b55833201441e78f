//! The signals that were ignored when this process was started.
//!
//! Rust's runtime ignores SIGPIPE before `main`, so afterwards nothing shows whether it was ignored before. The program
//! therefore calls [`record_ignored_signals`] before the runtime starts (docs/decisions/0003-record-before-main.md).
//! Linux only: elsewhere no signal counts as ignored.
use rustix::process::Signal;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Signal n is bit n - 1.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// Records which signals are ignored. It runs before Rust's runtime, so it does not allocate and cannot panic.
pub(crate) fn record_ignored_signals() {
    #[cfg(target_os = "linux")]
    IGNORED.store(currently_ignored().unwrap_or(0), Relaxed);
}

/// The signals 1 to 31 that this process was started with as ignored: signal n is bit n - 1.
pub(crate) fn ignored_at_start() -> u32 {
    IGNORED.load(Relaxed)
}

/// Whether this process was started with `signal` ignored. `false` for real-time signals.
pub(crate) fn was_ignored(signal: Signal) -> bool {
    let bit = u32::try_from(signal.as_raw() - 1).ok().and_then(|shift| 1_u32.checked_shl(shift));
    bit.is_some_and(|bit| ignored_at_start() & bit != 0)
}

#[cfg(target_os = "linux")]
fn currently_ignored() -> Option<u32> {
    use rustix::fs::{Mode, OFlags, open};
    // Its numbers are bounded, so it always fits.
    let mut stat = [0; 2048];
    let file = open(c"/proc/self/stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut stat).ok()?;
    ignored_in(stat.get(..length)?)
}

/// The signals 1 to 31 that a line of `/proc/PID/stat` shows as ignored: field 33 (`man 5 proc_pid_stat`).
fn ignored_in(stat: &[u8]) -> Option<u32> {
    // Field 2 is the name in parentheses, which may contain any character.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let field =
        stat.get(name_end + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).nth(33 - 3)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status_of_a_process() {
        let stat = b"7 (a) 1 2) S 1 7 7 0 -1 4194304 98 0 0 0 0 0 0 0 20 0 1 0 5216 3194880 359 18446744073709551615 1 1 0 0 0 0 0 4097 1024 1 0 0 17 0 0";
        assert_eq!(ignored_in(stat), Some(4097));
        assert_eq!(ignored_in(b"7 (sh) S 1 7"), None);
        assert_eq!(ignored_in(b""), None);
    }
}
