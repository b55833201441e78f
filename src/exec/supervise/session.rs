//! A command and all its child processes, as a session of the operating system that can be ended as a whole.
//!
//! 1. The command leads its session, so its process id is the session's id ([`lead`]). Its child processes belong to the
//!    session, also those in process groups of their own, such as jobs of an interactive shell.
//! 2. A daemon leaves the session (`setsid`) and is not followed.
//! 3. Process ids are reused. So a process is opened as a pidfd, its session is read again, and the signal goes to the pidfd.
#[cfg(target_os = "linux")]
use super::newest::Newest;
use rustix::{
    io::Errno,
    process::{self, Pid, Signal},
};
use std::{collections::HashSet, io, time::Duration};

/// The maximum number of scans for processes to kill: a process that waits for a broken disk does not die of KILL.
const MAX_SCANS: u32 = 100;
/// The number of scans in a row that find no process, after which there is none: a scan misses a process that starts another one, and then
/// ends, during the scan.
#[cfg(target_os = "linux")]
const EMPTY_SCANS: u32 = 2;
/// The interval between two scans.
const SCAN_INTERVAL: Duration = Duration::from_millis(5);

/// Makes this process the leader of a new session; with `terminal`, its standard input becomes the session's terminal. On
/// Linux, the process dies with `parent`.
///
/// # Errors
/// This process already leads a process group, standard input is not a terminal, or the parent has ended.
pub(crate) fn lead(parent: Option<Pid>, terminal: bool) -> io::Result<()> {
    process::setsid()?;
    if terminal {
        process::ioctl_tiocsctty(io::stdin())?;
    }
    #[cfg(target_os = "linux")]
    process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Checked afterwards: a parent that died before the call above sends no signal.
    if parent.is_some() && process::getppid() != parent {
        return Err(io::Error::other("the exec server has ended"));
    }
    Ok(())
}

/// The session that a process leads, or is about to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    leader: Pid,
    /// The leader is not a process of the command, but its supervisor, which ends by itself.
    is_supervised: bool,
}

impl Session {
    /// The session of a command whose first process is its leader.
    pub(crate) fn led_by(leader: Pid) -> Self {
        Self { leader, is_supervised: false }
    }

    /// The session of a command whose supervisor is its leader.
    pub(crate) fn supervised_by(leader: Pid) -> Self {
        Self { leader, is_supervised: true }
    }

    pub(crate) fn id(self) -> i32 {
        self.leader.as_raw_pid()
    }

    /// Signals the leader's process group: the whole session except other jobs of an interactive shell. Call it only before
    /// the leader's exit status was read: afterwards, its process id may be reused.
    pub(crate) fn signal(self, signal: Signal) {
        if !self.signal_group(signal) {
            // The process does not lead its group yet.
            let _ = process::kill_process(self.leader, signal);
        }
    }

    /// Signals the leader's process group when the leader may have ended; returns whether the group has a process.
    pub(crate) fn signal_group(self, signal: Signal) -> bool {
        process::kill_process_group(self.leader, signal) != Err(Errno::SRCH)
    }

    /// Whether a process is ready to run or waits for a disk: it may go on as soon as the machine lets it. Looks at all processes of the
    /// system; `false` where that is impossible.
    pub(crate) fn is_busy(self) -> bool {
        #[cfg(target_os = "linux")]
        return members(&HashSet::from([self.id()]))
            .into_iter()
            .any(|process| Stat::of(process).is_some_and(|stat| matches!(stat.state, b'R' | b'D')));
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Signals the processes in groups of their own, such as what `timeout` runs, and jobs of an interactive shell. Looks at all processes of the
    /// system; does nothing where that is impossible.
    pub(crate) fn signal_other_groups(self, signals: &[Signal]) {
        #[cfg(target_os = "linux")]
        {
            let (leader, sessions) = (nix::unistd::Pid::from_raw(self.id()), HashSet::from([self.id()]));
            let group = |process: Pid| nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process.as_raw_pid())));
            let others = members(&sessions).into_iter().filter(|process| group(*process) != Ok(leader));
            others.for_each(|process| send(process, &sessions, signals));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = signals;
    }

    /// Whether none of its processes runs any more, except a supervisor. Looks at all processes of the system, or else at the leader's group.
    pub(crate) fn is_empty(self) -> bool {
        #[cfg(target_os = "linux")]
        return members(&HashSet::from([self.id()]))
            .into_iter()
            .all(|process| self.is_supervised && process == self.leader);
        #[cfg(not(target_os = "linux"))]
        self.group_is_empty()
    }

    /// Whether no process of the leader's group is left.
    pub(crate) fn group_is_empty(self) -> bool {
        process::test_kill_process_group(self.leader) == Err(Errno::SRCH)
    }
}

/// Sends KILL to every process of these sessions, except supervisors, until a scan during which no process started, or two scans in a row,
/// find none. Blocks the thread.
///
/// A process that starts a copy of itself and then ends is most often gone before the scan finds it. A signal to
/// its group reaches all processes of the group at once: KILL, or STOP if there is a supervisor, which is continued
/// afterwards. If each copy has a group of its own, it is found among the newest processes ([`Newest`]).
#[cfg(target_os = "linux")]
pub(crate) fn kill_all(sessions: &[Session]) {
    let (supervised, others): (Vec<Session>, Vec<Session>) = sessions.iter().partition(|session| session.is_supervised);
    let signal = |sessions: &[Session], signal| {
        sessions
            .iter()
            .filter(|session| !session.group_is_empty())
            .for_each(|session| _ = session.signal_group(signal));
    };
    signal(&others, Signal::KILL);
    signal(&supervised, Signal::STOP);
    let supervisors = supervised.iter().map(|session| session.leader).collect();
    kill_members(&sessions.iter().map(|session| session.id()).collect(), &supervisors);
    signal(&supervised, Signal::CONT);
}

#[cfg(target_os = "linux")]
fn kill_members(sessions: &HashSet<i32>, supervisors: &HashSet<Pid>) {
    let kill = |process: Pid| {
        let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process.as_raw_pid())));
        let group = group.ok().map(nix::unistd::Pid::as_raw).filter(|group| !sessions.contains(group));
        // The group belongs to the session, unless the process has just ended.
        if let Some(group) = group.and_then(Pid::from_raw).filter(|_| may_be_member(process.as_raw_pid(), sessions)) {
            let _ = process::kill_process_group(group, Signal::KILL);
        }
        send(process, sessions, &[Signal::KILL]);
    };
    let is_of_concern = |process: i32| Pid::from_raw(process).is_none_or(|process| !supervisors.contains(&process));
    let is_newest = |process: i32| may_be_member(process, sessions) && is_of_concern(process);
    let mut newest = Newest::open();
    let mut empty_scans = 0;
    for _ in 0..MAX_SCANS {
        let before = newest.as_ref().and_then(Newest::last);
        let mut found = members(sessions);
        found.retain(|process| is_of_concern(process.as_raw_pid()));
        if found.is_empty() && before.is_some() && newest.as_ref().and_then(Newest::last) == before {
            // Nothing was started during the scan, so it missed nothing.
            return;
        }
        found.iter().for_each(|process| kill(*process));
        let started = newest.as_mut().is_some_and(|newest| newest.visit(is_newest, kill));
        empty_scans = if found.is_empty() && !started { empty_scans + 1 } else { 0 };
        if empty_scans == EMPTY_SCANS {
            return;
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
    tracing::warn!(?sessions, "processes survive KILL");
}

/// Signals a process if it is still in one of the sessions.
#[cfg(target_os = "linux")]
fn send(process: Pid, sessions: &HashSet<i32>, signals: &[Signal]) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    if may_be_member(process.as_raw_pid(), sessions) {
        signals.iter().for_each(|signal| _ = pidfd_send_signal(&handle, *signal));
    }
}

/// Sends KILL to the leaders' process groups; this system cannot list the other processes of a session.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_all(sessions: &[Session]) {
    for _ in 0..MAX_SCANS {
        let groups = sessions.iter().map(|session| session.leader);
        if groups.filter(|group| process::kill_process_group(*group, Signal::KILL).is_ok()).count() == 0 {
            return;
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

#[cfg(target_os = "linux")]
fn members(sessions: &HashSet<i32>) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let processes = ids.filter(|id| may_be_member(*id, sessions)).filter_map(Pid::from_raw);
    processes.filter(|process| session_of(*process).is_some_and(|session| sessions.contains(&session))).collect()
}

/// Whether a process, running or ended, is in one of the sessions. Ten times as fast as [`session_of`].
#[cfg(target_os = "linux")]
fn may_be_member(process: i32, sessions: &HashSet<i32>) -> bool {
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(process)));
    session.is_ok_and(|session| sessions.contains(&session.as_raw()))
}

/// The session of a running process; `None` if it has ended, also if its parent has not read its exit status yet.
#[cfg(target_os = "linux")]
fn session_of(process: Pid) -> Option<i32> {
    let stat = Stat::of(process)?;
    (!matches!(stat.state, b'Z' | b'X')).then_some(stat.session)
}

/// The fields of `/proc/PID/stat` that matter here: proc_pid_stat(5).
#[cfg(target_os = "linux")]
struct Stat {
    state: u8,
    session: i32,
}

#[cfg(target_os = "linux")]
impl Stat {
    fn of(process: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
        // `1 (sh) S 0 1 1 …`: state, parent, group, session follow the name, which may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let session = fields.nth(2)?.parse().ok()?;
        Some(Stat { state, session })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::{
        io::Read,
        process::{Command, Stdio},
        time::Instant,
    };

    /// Each of its processes starts the next one, in a group of its own, and ends. They end by themselves after a minute.
    const FORKS: &str = "
        #include <time.h>
        #include <unistd.h>
        int main(void) {
            time_t end = time(0) + 60;
            for (int generation = 0; time(0) < end; generation++) {
                if (generation == 100) write(1, \"x\", 1);
                if (fork()) _exit(0);
                setpgid(0, 0);
            }
        }";

    #[test]
    fn a_chain_of_processes_in_new_groups_does_not_outlive_its_session() {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("forks.c"), directory.path().join("forks"));
        std::fs::write(&source, FORKS).unwrap();
        let compiled = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&source).status();
        if !compiled.is_ok_and(|status| status.success()) {
            return println!("skipped: no C compiler");
        }
        for round in 0..12 {
            let mut leader = Command::new("setsid").arg(&program).stdout(Stdio::piped()).spawn().expect("setsid runs");
            let session = Session::led_by(Pid::from_child(&leader));
            // The processes hold the other end of the pipe: it has an end when there is none left.
            let mut output = leader.stdout.take().expect("a pipe");
            output.read_exact(&mut [0]).expect("100 processes were started");
            kill_all(&[session]);
            leader.wait().expect("it has ended");
            let since = Instant::now();
            assert_eq!(output.read(&mut [0]).expect("a pipe"), 0);
            assert!(since.elapsed() < Duration::from_secs(20), "round {round}: the chain ended by itself");
        }
    }

    #[test]
    fn the_session_of_a_process_agrees_with_getsid() {
        let own = nix::unistd::getsid(None).unwrap().as_raw();
        assert_eq!(session_of(process::getpid()), Some(own));
        assert!(members(&HashSet::from([own])).contains(&process::getpid()));
    }

    /// Whether a session of this command comes to be busy, or idle. Its shell has to start first, and may wait for memory meanwhile.
    fn becomes(busy: bool, line: &str) -> bool {
        let mut leader = std::process::Command::new("setsid").args(["sh", "-c", line]).spawn().expect("setsid runs");
        let session = Session::led_by(Pid::from_child(&leader));
        let is_as_expected = || session_of(session.leader) == Some(session.id()) && session.is_busy() == busy;
        let became = (0..12_000).any(|_| {
            is_as_expected() || {
                std::thread::sleep(SCAN_INTERVAL);
                false
            }
        });
        leader.kill().expect("it runs");
        leader.wait().expect("it was killed");
        became
    }

    #[test]
    fn a_session_is_busy_while_one_of_its_processes_is_ready_to_run() {
        assert!(becomes(false, "exec sleep 1000"), "a process that sleeps is not busy");
        assert!(becomes(true, "while :; do :; done"), "a process that works is busy");
    }
}
