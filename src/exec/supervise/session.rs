//! A command and all that it has started, as a session of the system: what can be ended as a whole.
//!
//! 1. The command leads its session, so its process id names it ([`lead`]). What it starts belongs to it, also a job of an
//!    interactive shell, which has a process group of its own.
//! 2. What wants to outlive whoever started it leaves (`setsid`: a daemon); it is not followed.
//! 3. Process ids are given out again. Who is found in a session is looked at once more through a handle that cannot
//!    change hands, and signalled through that.
use rustix::{
    io::Errno,
    process::{self, Pid, Signal},
};
use std::{collections::HashSet, io, time::Duration};

/// Looks at the processes before what does not die of KILL (it waits for a disk that does not answer) is left to itself.
const ROUNDS: u32 = 100;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(5);

/// Makes this process the leader of a new session; with `terminal`, its standard input is the session's terminal. Where
/// the system can do it, the process dies with `parent`.
///
/// # Errors
/// This process leads a group already, standard input is no terminal, or the parent has gone.
pub(crate) fn lead(parent: Option<Pid>, terminal: bool) -> io::Result<()> {
    process::setsid()?;
    if terminal {
        process::ioctl_tiocsctty(io::stdin())?;
    }
    #[cfg(target_os = "linux")]
    process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Looked at afterwards: if it died before, no signal comes.
    if parent.is_some() && process::getppid() != parent {
        return Err(io::Error::other("the exec server has ended"));
    }
    Ok(())
}

/// The session that a process leads, or will in a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session(Pid);

impl Session {
    pub(crate) fn led_by(leader: Pid) -> Self {
        Self(leader)
    }

    pub(crate) fn id(self) -> i32 {
        self.0.as_raw_pid()
    }

    /// Signals the leader's process group: all of the session but the other jobs of an interactive shell. Only while the
    /// leader's status has not been taken.
    pub(crate) fn signal(self, signal: Signal) {
        if !self.signal_group(signal) {
            // It does not lead yet.
            let _ = process::kill_process(self.0, signal);
        }
    }

    /// The same when the leader may be gone; says whether there was anybody.
    pub(crate) fn signal_group(self, signal: Signal) -> bool {
        process::kill_process_group(self.0, signal) != Err(Errno::SRCH)
    }

    /// Whether nothing is left of the leader's process group.
    pub(crate) fn group_is_empty(self) -> bool {
        process::test_kill_process_group(self.0) == Err(Errno::SRCH)
    }
}

/// KILL to every process of these sessions, until there is none. Blocks.
#[cfg(target_os = "linux")]
pub(crate) fn kill_all(sessions: &HashSet<i32>) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    for _ in 0..ROUNDS {
        let mut found = false;
        for process in members(sessions) {
            found = true;
            let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { continue };
            if session_of(process).is_some_and(|session| sessions.contains(&session)) {
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
        }
        if !found {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    tracing::warn!(?sessions, "processes do not die of KILL");
}

/// KILL to the leaders' process groups, which is all that can be found here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_all(sessions: &HashSet<i32>) {
    for _ in 0..ROUNDS {
        let groups = sessions.iter().filter_map(|id| Pid::from_raw(*id));
        if groups.filter(|group| process::kill_process_group(*group, Signal::KILL).is_ok()).count() == 0 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(target_os = "linux")]
fn members(sessions: &HashSet<i32>) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let processes = ids.filter(|id| may_be_of(*id, sessions)).filter_map(Pid::from_raw);
    processes.filter(|process| session_of(*process).is_some_and(|session| sessions.contains(&session))).collect()
}

/// Whether it is worth reading what a process is: that takes ten times as long as asking for its session, which one that
/// has ended has too.
#[cfg(target_os = "linux")]
fn may_be_of(process: i32, sessions: &HashSet<i32>) -> bool {
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(process)));
    session.is_ok_and(|session| sessions.contains(&session.as_raw()))
}

/// The session of a process that runs; `None` for one that has ended and only waits to be seen.
#[cfg(target_os = "linux")]
fn session_of(process: Pid) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    // The name before may have any character in it: `1 (sh) S 0 1 1 …`: state, parent, group, session.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(session)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_a_process_is_what_the_system_says() {
        let own = nix::unistd::getsid(None).unwrap().as_raw();
        assert_eq!(session_of(process::getpid()), Some(own));
        assert!(members(&HashSet::from([own])).contains(&process::getpid()));
    }
}
