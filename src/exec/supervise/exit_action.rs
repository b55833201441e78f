//! How this process ends: as its command did, so that whoever looks at it sees the command.
use super::signal::Signal;
use rustix::process::{self, Pid};
use signal_hook::low_level::emulate_default_handler;
use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

/// The exit code of a command whose time was up.
const TIMED_OUT: u8 = 124;

/// What this process should do now that its command has ended, or is to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the command's status is lost, or the command not killed"]
pub(crate) enum ExitAction {
    /// Exit with this code.
    Exit(u8),
    /// A signal of its own has killed the command: die by the same one. `dumped_core`: the command left a core dump.
    Die {
        /// The signal.
        signal: Signal,
        /// Whether the system wrote a core dump.
        dumped_core: bool,
    },
    /// The whole process group, of which this process is one, is to be killed, and the command, if it still runs.
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

    /// Ends this process, or returns the exit code with which it should.
    pub(crate) fn carry_out(self) -> ExitCode {
        let signal = match self {
            Self::Exit(code) => return ExitCode::from(code),
            Self::KillGroup(command) => {
                // First the command: it may have left the group, and the group's end is ours.
                let _ = command.map_or(Ok(()), |command| Signal::KILL.send(command));
                let _ = Signal::KILL.send_to_own_group();
                Signal::KILL
            }
            Self::Die { signal, .. } => {
                if forbid_core_dump() {
                    let _ = emulate_default_handler(signal.as_raw());
                    // For a signal that is not in its table and that nothing here catches.
                    let _ = signal.send(process::getpid());
                }
                signal
            }
        };
        ExitCode::from(shell_status(signal.as_raw()))
    }
}

/// The command's core dump must not be followed, or replaced, by ours.
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

    fn verdict(status: i32, timed_out: bool, preserve_status: bool) -> ExitAction {
        ExitAction::of(ExitStatus::from_raw(status), timed_out, preserve_status)
    }

    #[test]
    fn a_status_is_the_commands_own_unless_its_time_was_up() {
        assert_eq!(verdict(EXITED_3, false, false), ExitAction::Exit(3));
        assert_eq!(verdict(EXITED_3, true, false), ExitAction::Exit(124));
        assert_eq!(verdict(EXITED_3, true, true), ExitAction::Exit(3));
        assert_eq!(verdict(KILLED_BY_TERM, true, false), ExitAction::Exit(124));
        assert_eq!(verdict(KILLED_BY_TERM, true, true), ExitAction::Exit(143));
        assert_eq!(verdict(KILLED_BY_KILL, true, false), ExitAction::Exit(137));
        assert_eq!(
            verdict(KILLED_BY_TERM, false, true),
            ExitAction::Die { signal: Signal::from_raw(15).unwrap(), dumped_core: false }
        );
    }
}
