//! The shell of a Bash call and everything that it runs.
//!
//! 1. A process id that the system has given to another process is not signalled ([`OtherProcess`]).
//! 2. Claude Code gives each shell a process group. If it does not (in a sandbox), the descendants are looked up, and
//!    each is stopped when it is found. Otherwise a process could start another one and end, and the new one would not
//!    be found.
use crate::cli::{other_process::OtherProcess, stderr};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group},
};
use std::{io, thread::sleep, time::Duration, time::Instant};

/// The time between TERM and KILL.
const KILL_AFTER: Duration = Duration::from_secs(5);
/// The maximum time that the end of the shell is delayed until the reason for it is written.
const SAID_WITHIN: Duration = Duration::from_secs(5);
/// The interval between two checks whether processes have ended.
const POLL: Duration = Duration::from_millis(50);
/// The maximum time for looking up descendants while no new ones are found: a process that waits for a disk stops later.
const LOOK_UP: Duration = Duration::from_secs(1);
/// The same while new ones are found, on a busy machine.
const LONGEST_LOOK_UP: Duration = Duration::from_secs(20);

/// A shell that calls, or has called, `clock`.
pub(super) struct Shell(OtherProcess);

impl Shell {
    /// # Errors
    /// The process does not exist.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self(OtherProcess::of(pid)?))
    }

    /// Waits for the end of the shell ([`OtherProcess::ended`]).
    pub(super) async fn ended(&self) -> io::Result<()> {
        self.0.ended().await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Sends TERM to the shell and its commands, and KILL to those that are left after 5 s. Earlier messages are
    /// written first, because nobody reads the output of a shell that has ended.
    pub(super) fn end(&self) {
        stderr::flush_within(SAID_WITHIN);
        if self.has_ended() {
            return;
        }
        let targets = Targets::of(self.0.pid);
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
            false => Self::Processes(stopped_with_descendants(shell)),
        }
    }

    fn send(&self, signal: Signal) {
        // A stopped process handles TERM only after it continues. A process that has ended meanwhile is no problem.
        for signal in [signal, Signal::CONT] {
            match self {
                Self::Group(group) => _ = kill_process_group(*group, signal),
                Self::Processes(all) => all.iter().for_each(|pid| _ = kill_process(*pid, signal)),
            }
        }
    }

    fn exist(&self) -> bool {
        match self {
            Self::Group(group) => test_kill_process_group(*group) != Err(Errno::SRCH),
            Self::Processes(all) => all.iter().any(|pid| test_kill_process(*pid) != Err(Errno::SRCH)),
        }
    }
}

/// The process and its descendants, without the calling process, all of them stopped. Without `/proc`, the process alone.
fn stopped_with_descendants(root: Pid) -> Vec<Pid> {
    let begun = Instant::now();
    let mut found: Vec<Pid> = Vec::new();
    loop {
        let now = with_descendants(root);
        let running: Vec<_> = now.iter().filter(|process| !process.is_stopped).map(|process| process.pid).collect();
        running.iter().for_each(|pid| _ = kill_process(*pid, Signal::STOP));
        let has_new = now.iter().any(|process| !found.contains(&process.pid));
        found = now.into_iter().map(|process| process.pid).collect();
        let longest = if has_new { LONGEST_LOOK_UP } else { LOOK_UP };
        if !has_new && running.is_empty() || begun.elapsed() >= longest {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
}

/// A process, as `/proc` shows it.
struct Process {
    pid: Pid,
    parent: Pid,
    /// It can start no other: it is stopped, or has ended.
    is_stopped: bool,
}

fn with_descendants(root: Pid) -> Vec<Process> {
    let own = rustix::process::getpid();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let mut others: Vec<_> = pids.filter(|pid| *pid != own).filter_map(process).collect();
    let mut found: Vec<_> = others.extract_if(.., |process| process.pid == root).collect();
    if found.is_empty() {
        found.push(Process { pid: root, parent: own, is_stopped: true });
    }
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(others.extract_if(.., |process| process.parent == parent));
        next += 1;
    }
    found
}

/// Reads `/proc/PID/stat`: the state and the parent's id are the first fields after the name, which is in parentheses
/// and may contain any character (`proc_pid_stat(5)`).
fn process(pid: Pid) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let is_stopped = ["T", "t", "Z", "X"].contains(&fields.next()?);
    Some(Process { pid, parent: Pid::from_raw(fields.next()?.parse().ok()?)?, is_stopped })
}
