//! How this process ends: as its command did, so that its parent sees the status of the command.
use super::signal::Signal;
use rustix::process::{self, Pid};
use signal_hook::low_level::emulate_default_handler;
use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

/// The exit code of a command that timed out.
const TIMED_OUT: u8 = 124;

/// The action of this process after its command has ended, or to kill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the command's status is lost, or the command not killed"]
pub(crate) enum ExitAction {
    /// Exit with this code.
    Exit(u8),
    /// Die by the signal that killed the command.
    Die {
        /// The signal.
        signal: Signal,
        /// Whether the system wrote a core dump.
        dumped_core: bool,
    },
    /// Kill the process group of this process, and the command if it still runs.
    KillGroup(Option<Pid>),
}

impl ExitAction {
    pub(crate) fn of(status: ExitStatus, timed_out: bool, preserve_status: bool) -> Self {
        let Some(killer) = status.signal() else {
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
            return Self::Exit(if timed_out && !preserve_status { TIMED_OUT } else { code });
        };
        match Signal::from_raw(killer) {
            Some(signal) if !timed_out => Self::Die { signal, dumped_core: status.core_dumped() },
            _ if timed_out && !preserve_status && killer != Signal::KILL.as_raw() => Self::Exit(TIMED_OUT),
            _ => Self::Exit(shell_status(killer)),
        }
    }

    /// The exit status as a shell shows it, and the signal that killed the command.
    pub(crate) fn status(self) -> (u8, Option<Signal>) {
        match self {
            Self::Exit(code) => (code, None),
            Self::Die { signal, .. } => (shell_status(signal.as_raw()), Some(signal)),
            Self::KillGroup(_) => (shell_status(Signal::KILL.as_raw()), Some(Signal::KILL)),
        }
    }

    /// Ends this process, or returns the exit code with which it should.
    pub(crate) fn carry_out(self) -> ExitCode {
        let signal = match self {
            Self::Exit(code) => return ExitCode::from(code),
            Self::KillGroup(command) => {
                // First the command, which may have left the group: killing the group ends this process too.
                let _ = command.map_or(Ok(()), |command| Signal::KILL.send(command));
                let _ = Signal::KILL.send_to_own_group();
                Signal::KILL
            }
            Self::Die { signal, .. } => {
                if forbid_core_dump() {
                    die_of(signal);
                }
                signal
            }
        };
        ExitCode::from(shell_status(signal.as_raw()))
    }
}

/// Ends this process by the default action of a signal. Returns if that is impossible: then exit with 128 + n.
///
/// The kernel spares process 1 of a container every default action, and `emulate_default_handler` would abort: also
/// without effect there, until the C library runs an instruction that faults (SIGSEGV, 139).
pub(crate) fn die_of(signal: Signal) {
    if process::getpid().is_init() {
        return;
    }
    let _ = emulate_default_handler(signal.as_raw());
    // For a signal that signal-hook does not know.
    let _ = signal.send(process::getpid());
}

/// A core dump of this process must not replace that of the command.
fn forbid_core_dump() -> bool {
    #[cfg(target_os = "linux")]
    return process::set_dumpable_behavior(process::DumpableBehavior::NotDumpable).is_ok();
    #[cfg(not(target_os = "linux"))]
    {
        let maximum = process::getrlimit(process::Resource::Core).maximum;
        process::setrlimit(process::Resource::Core, process::Rlimit { current: Some(0), maximum }).is_ok()
    }
}

fn shell_status(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXITED_3: i32 = 3 << 8;
    const KILLED_BY_TERM: i32 = 15;
    const KILLED_BY_KILL: i32 = 9;

    fn action(status: i32, timed_out: bool, preserve_status: bool) -> ExitAction {
        ExitAction::of(ExitStatus::from_raw(status), timed_out, preserve_status)
    }

    #[test]
    fn the_exit_status_is_the_commands_own_unless_it_timed_out() {
        assert_eq!(action(EXITED_3, false, false), ExitAction::Exit(3));
        assert_eq!(action(EXITED_3, true, false), ExitAction::Exit(124));
        assert_eq!(action(EXITED_3, true, true), ExitAction::Exit(3));
        assert_eq!(action(KILLED_BY_TERM, true, false), ExitAction::Exit(124));
        assert_eq!(action(KILLED_BY_TERM, true, true), ExitAction::Exit(143));
        assert_eq!(action(KILLED_BY_KILL, true, false), ExitAction::Exit(137));
        assert_eq!(
            action(KILLED_BY_TERM, false, true),
            ExitAction::Die { signal: Signal::from_raw(15).unwrap(), dumped_core: false }
        );
    }
}
