//! The shell of a Bash call and everything that it runs.
//!
//! 1. A process id that the system has given to another process is not signalled: on Linux, the shell is a file descriptor.
//! 2. Claude Code gives each shell a process group. Where it does not (in a sandbox), the descendants are looked up once.
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group},
};
use std::{io, thread::sleep, time::Duration, time::Instant};

/// The time between TERM and KILL.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// The interval of looking whether processes have ended.
const POLL: Duration = Duration::from_millis(50);

/// A shell that calls, or has called, `clock`.
pub(super) struct Shell {
    pid: Pid,
    #[cfg(target_os = "linux")]
    descriptor: std::os::fd::OwnedFd,
}

impl Shell {
    /// # Errors
    /// The process does not exist.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            pid,
            #[cfg(target_os = "linux")]
            descriptor: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?,
        })
    }

    /// Waits for its end, by a thread of the tokio runtime.
    pub(super) async fn ended(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let descriptor = self.descriptor.try_clone()?;
            let waiting = tokio::task::spawn_blocking(move || while !is_readable(&descriptor, None) {});
            waiting.await.map_err(io::Error::other)
        }
        #[cfg(not(target_os = "linux"))]
        {
            while !self.has_ended() {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            is_readable(&self.descriptor, Some(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
        }
        #[cfg(not(target_os = "linux"))]
        {
            test_kill_process(self.pid) == Err(Errno::SRCH)
        }
    }

    /// Sends TERM to the shell and its commands, and KILL to those that are left after 5 s.
    pub(super) fn end(&self) {
        if self.has_ended() {
            return;
        }
        let targets = Targets::of(self.pid);
        targets.send(Signal::TERM);
        let end = Instant::now() + KILL_AFTER;
        while targets.exist() {
            if Instant::now() >= end {
                targets.send(Signal::KILL);
                return;
            }
            sleep(POLL);
        }
    }
}

/// Whether the process of the descriptor has ended, or ends within this time.
#[cfg(target_os = "linux")]
fn is_readable(descriptor: &std::os::fd::OwnedFd, timeout: Option<rustix::event::Timespec>) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// The processes to end.
enum Targets {
    Group(Pid),
    Processes(Vec<Pid>),
}

impl Targets {
    fn of(shell: Pid) -> Self {
        let id = nix::unistd::Pid::from_raw(shell.as_raw_pid());
        match nix::unistd::getpgid(Some(id)) == Ok(id) {
            true => Self::Group(shell),
            false => Self::Processes(with_descendants(shell)),
        }
    }

    fn send(&self, signal: Signal) {
        // A process that has ended meanwhile is no problem.
        match self {
            Self::Group(group) => _ = kill_process_group(*group, signal),
            Self::Processes(all) => all.iter().for_each(|pid| _ = kill_process(*pid, signal)),
        }
    }

    fn exist(&self) -> bool {
        match self {
            Self::Group(group) => test_kill_process_group(*group) != Err(Errno::SRCH),
            Self::Processes(all) => all.iter().any(|pid| test_kill_process(*pid) != Err(Errno::SRCH)),
        }
    }
}

/// The process and its descendants, without the calling process. Without `/proc`, the process alone.
fn with_descendants(root: Pid) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let parents: Vec<(Pid, Pid)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(pid, of)| *of == parent && *pid != own).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// The parent's id is the second field after the name, which is in parentheses and may contain any character.
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    Pid::from_raw(stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?)
}
