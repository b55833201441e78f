//! The signals that were ignored, and the standard streams that were closed, when this process was started.
//!
//! Before `main`, Rust's runtime ignores SIGPIPE and opens /dev/null in the place of closed standard streams, so afterwards
//! nothing shows how they were before. The program therefore calls [`record`] before the runtime starts
//! (docs/decisions/0003-record-before-main.md). Linux only: elsewhere no signal counts as ignored, and no stream as closed.
use rustix::{
    io::{FdFlags, fcntl_getfd, fcntl_setfd},
    process::Signal,
    stdio::{stderr, stdin, stdout},
};
use std::{
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Signal n is bit n - 1.
static IGNORED: AtomicU32 = AtomicU32::new(0);
/// File descriptor n is bit n.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Records which signals are ignored, and which standard streams are closed. It runs before Rust's runtime, so it does not
/// allocate and cannot panic.
pub(crate) fn record() {
    let closed = standard_streams().into_iter().filter(|stream| fcntl_getfd(stream).is_err());
    CLOSED.store(closed.fold(0, |closed, stream| closed | 1 << stream.as_raw_fd()), Relaxed);
    #[cfg(target_os = "linux")]
    IGNORED.store(currently_ignored().unwrap_or(0), Relaxed);
}

fn standard_streams() -> [BorrowedFd<'static>; 3] {
    [stdin(), stdout(), stderr()]
}

/// Whether this process was started without this standard stream (`>&-`).
pub(crate) fn was_closed(number: RawFd) -> bool {
    (0..=2).contains(&number) && CLOSED.load(Relaxed) & 1 << number != 0
}

/// Lets every program that inherits the standard streams of this process start without those that were closed, as from a
/// shell: a command that cannot print must fail instead of printing to /dev/null.
pub(crate) fn keep_streams_closed() {
    standard_streams().into_iter().filter(|stream| was_closed(stream.as_raw_fd())).for_each(close_on_exec);
}

/// Lets the programs that this process executes or starts begin without this standard stream.
pub(crate) fn close_on_exec(stream: BorrowedFd<'_>) {
    let _ = fcntl_setfd(stream, FdFlags::CLOEXEC);
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
