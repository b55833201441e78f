//! Signals: names as in `timeout` and `kill`, and sending.
//!
//! 1. Exactly the spellings of GNU `timeout -s` are accepted: a number, a name in any case with or without
//!    `SIG`, `RTMIN+n`, `RTMAX-n`, and the status of a killed command (137 is KILL).
//! 2. Signal 0 (`EXIT`) is valid and sends nothing.
use rustix::{
    io::Errno,
    process::{self, Pid, Signal as SystemSignal},
};
use std::{fmt, num::IntErrorKind, str::FromStr};

/// A signal of this system, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Signal(i32);

/// A string that names no signal of this system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid signal")]
pub(crate) struct UnknownSignal;

/// If a number has several names, the first is printed.
const NAMES: &[(&str, SystemSignal)] = &[
    ("HUP", SystemSignal::HUP),
    ("INT", SystemSignal::INT),
    ("QUIT", SystemSignal::QUIT),
    ("ILL", SystemSignal::ILL),
    ("TRAP", SystemSignal::TRAP),
    ("ABRT", SystemSignal::ABORT),
    ("IOT", SystemSignal::ABORT),
    ("BUS", SystemSignal::BUS),
    ("FPE", SystemSignal::FPE),
    ("KILL", SystemSignal::KILL),
    ("USR1", SystemSignal::USR1),
    ("SEGV", SystemSignal::SEGV),
    ("USR2", SystemSignal::USR2),
    ("PIPE", SystemSignal::PIPE),
    ("ALRM", SystemSignal::ALARM),
    ("TERM", SystemSignal::TERM),
    ("CHLD", SystemSignal::CHILD),
    ("CLD", SystemSignal::CHILD),
    ("CONT", SystemSignal::CONT),
    ("STOP", SystemSignal::STOP),
    ("TSTP", SystemSignal::TSTP),
    ("TTIN", SystemSignal::TTIN),
    ("TTOU", SystemSignal::TTOU),
    ("URG", SystemSignal::URG),
    ("XCPU", SystemSignal::XCPU),
    ("XFSZ", SystemSignal::XFSZ),
    ("VTALRM", SystemSignal::VTALARM),
    ("PROF", SystemSignal::PROF),
    ("WINCH", SystemSignal::WINCH),
    ("POLL", SystemSignal::IO),
    ("IO", SystemSignal::IO),
    ("SYS", SystemSignal::SYS),
    #[cfg(target_os = "linux")]
    ("STKFLT", SystemSignal::STKFLT),
    #[cfg(target_os = "linux")]
    ("PWR", SystemSignal::POWER),
];

impl Signal {
    pub(crate) const KILL: Self = Self(SystemSignal::KILL.as_raw());
    pub(crate) const CONT: Self = Self(SystemSignal::CONT.as_raw());
    pub(crate) const ALRM: Self = Self(SystemSignal::ALARM.as_raw());
    pub(crate) const INT: Self = Self(SystemSignal::INT.as_raw());
    pub(crate) const QUIT: Self = Self(SystemSignal::QUIT.as_raw());

    pub(crate) const fn of(signal: SystemSignal) -> Self {
        Self(signal.as_raw())
    }

    /// The number: 0 to 64 on Linux.
    pub(crate) const fn as_raw(self) -> i32 {
        self.0
    }

    pub(crate) fn from_raw(raw: i32) -> Option<Self> {
        (raw == 0 || system_signal(raw).is_some()).then_some(Self(raw))
    }

    /// `None` for 0.
    pub(super) fn system(self) -> Option<SystemSignal> {
        system_signal(self.0)
    }

    /// Sends it to one process. A process that has ended is no error.
    ///
    /// # Errors
    /// We may not signal the process: nothing was sent.
    pub(crate) fn send(self, to: Pid) -> Result<(), Errno> {
        sent(match system_signal(self.0) {
            Some(signal) => process::kill_process(to, signal),
            None => process::test_kill_process(to),
        })
    }

    /// Like [`Self::send`], and then CONT: a stopped process handles a signal only after it continues.
    ///
    /// # Errors
    /// We may not signal the process: nothing was sent.
    pub(crate) fn send_and_continue(self, to: Pid) -> Result<(), Errno> {
        self.send(to)?;
        Self::CONT.send(to)
    }

    /// Sends it to our process group, this process included.
    pub(crate) fn send_to_own_group(self) -> Result<(), Errno> {
        sent(match system_signal(self.0) {
            Some(signal) => process::kill_current_process_group(signal),
            None => Ok(()),
        })
    }
}

fn sent(result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(Errno::SRCH) { Ok(()) } else { result }
}

#[cfg(target_os = "linux")]
fn system_signal(raw: i32) -> Option<SystemSignal> {
    rustix_libc_wrappers::process::SignalExt::from_raw(raw)
}

#[cfg(not(target_os = "linux"))]
fn system_signal(raw: i32) -> Option<SystemSignal> {
    SystemSignal::from_named_raw(raw)
}

/// The first and the last real-time signal, if the system has any.
#[cfg(target_os = "linux")]
fn realtime() -> Option<(i32, i32)> {
    use rustix_libc_wrappers::process::SignalExt;
    Some((SystemSignal::rt_min().as_raw(), SystemSignal::rt_max().as_raw()))
}

#[cfg(not(target_os = "linux"))]
fn realtime() -> Option<(i32, i32)> {
    None
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().map_err(|_| UnknownSignal).and_then(from_status);
        }
        let name = text.to_ascii_uppercase();
        named(&name).or_else(|| name.strip_prefix("SIG").and_then(named)).ok_or(UnknownSignal)
    }
}

/// Converts a number, which may also be the status that a shell (128 + n) or ksh (256 + n) shows for a killed command.
fn from_status(number: i32) -> Result<Signal, UnknownSignal> {
    let raw = if number >= 0xFF { number & 0xFF } else { number & 0x7F };
    Signal::from_raw(raw).ok_or(UnknownSignal)
}

fn named(name: &str) -> Option<Signal> {
    if name == "EXIT" {
        return Some(Signal(0));
    }
    if let Some((_, signal)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(Signal(signal.as_raw()));
    }
    let (first, last) = realtime()?;
    let (base, offset) = match name.strip_prefix("RTMIN") {
        Some(offset) => (first, offset),
        None => (last, name.strip_prefix("RTMAX")?),
    };
    let offset = match offset.parse::<i32>() {
        Ok(offset) => offset,
        Err(error) if *error.kind() == IntErrorKind::Empty => 0,
        Err(_) => return None,
    };
    base.checked_add(offset).filter(|raw| (first..=last).contains(raw)).map(Signal)
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("EXIT");
        }
        if let Some((name, _)) = NAMES.iter().find(|(_, signal)| signal.as_raw() == self.0) {
            return f.write_str(name);
        }
        match realtime() {
            Some((first, _)) if self.0 == first => f.write_str("RTMIN"),
            Some((_, last)) if self.0 == last => f.write_str("RTMAX"),
            Some((first, last)) if self.0 <= first + (last - first) / 2 => write!(f, "RTMIN+{}", self.0 - first),
            Some((_, last)) => write!(f, "RTMAX-{}", last - self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Option<i32> {
        text.parse().map(Signal::as_raw).ok()
    }

    #[test]
    fn a_signal_parses_from_its_number_and_its_name_in_any_case() {
        for term in ["15", "TERM", "term", "SIGTERM", "SigTerm", "015", "143", "271"] {
            assert_eq!(raw(term), Some(15), "{term}");
        }
        for none in
            ["", "SIG", "SIGSIGTERM", "-1", "+9", "9x", " 9", "65", "127", "255", "99999999999", "TERM ", "RTMIN-1"]
        {
            assert_eq!(raw(none), None, "{none}");
        }
        assert_eq!(raw("EXIT"), Some(0));
        assert_eq!(raw("0"), Some(0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn realtime_signals_count_from_both_ends() {
        let (first, last) = realtime().expect("Linux has them");
        assert_eq!(raw("RTMIN"), Some(first));
        assert_eq!(raw("sigrtmin+3"), Some(first + 3));
        assert_eq!(raw("RTMAX-2"), Some(last - 2));
        assert_eq!(raw("RTMAX+1"), None);
        assert_eq!(raw("RTMIN+99"), None);
        assert_eq!(raw(&(first - 1).to_string()), None, "reserved by libc");
    }

    #[test]
    fn a_printed_signal_parses_to_itself() {
        for signal in (0..=64).filter_map(Signal::from_raw) {
            assert_eq!(signal.to_string().parse(), Ok(signal));
        }
    }
}
