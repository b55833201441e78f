//! The reaper: a process that kills the remaining commands when the exec server dies without doing so (KILL, out of memory).
//!
//! 1. The reaper gets the running sessions as arguments; then the server writes the start and the end of each session to its
//!    standard input. When that closes, the server has ended, and the reaper kills the sessions that have not ended.
//! 2. The reaper has its own session, so signals to the server's process group or terminal do not reach it.
//! 3. A command can kill or stop the reaper, because the sandbox does not restrict signals. The server notices it by
//!    SIGCHLD, kills the old reaper and starts another. The old one dies before its input closes, so it kills no session.
//! 4. A write to the reaper never blocks: if its pipe is full, it is replaced as well.
use super::session::{Session, kill_all};
use rustix::{
    io::ioctl_fionbio,
    process::{Pid, WaitId, WaitIdOptions, setsid, waitid},
};
use std::{
    collections::HashSet,
    io::{self, BufRead, PipeWriter, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

/// The minimum time between two starts: a command that kills each reaper must not keep the server busy.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The time until the next attempt if the system cannot start a process.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The server's handle of the process.
pub(crate) struct Reaper(Arc<Shared>);

struct Shared {
    program: PathBuf,
    state: Mutex<State>,
    /// Notified when a write has failed.
    write_failed: Notify,
}

#[derive(Default)]
struct State {
    sessions: HashSet<i32>,
    /// The reaper's standard input; `None` while there is no reaper.
    input: Option<PipeWriter>,
}

impl Reaper {
    /// Starts the hidden command `exec-reaper` of `program`, and a task that replaces it when needed. Needs a tokio runtime.
    pub(crate) fn start(program: &Path) -> Self {
        let (state, write_failed) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { program: program.to_owned(), state, write_failed });
        let first = shared.start();
        tokio::spawn(shared.clone().keep_running(first));
        Self(shared)
    }

    pub(crate) fn add(&self, session: Session) {
        self.0.state().sessions.insert(session.id());
        self.0.write('+', session);
    }

    pub(crate) fn remove(&self, session: Session) {
        self.0.state().sessions.remove(&session.id());
        self.0.write('-', session);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion, removal or assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, sign: char, session: Session) {
        // So short that the pipe takes all or nothing.
        let line = format!("{sign}{}\n", session.id());
        if let Some(input) = &mut self.state().input
            && input.write_all(line.as_bytes()).is_err()
        {
            self.write_failed.notify_one();
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut state = self.state();
        let (theirs, ours) = io::pipe()?;
        ioctl_fionbio(&ours, true)?;
        let mut command = Command::new(&self.program);
        command.arg("exec-reaper").args(state.sessions.iter().map(i32::to_string));
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        // In the root directory, so that it does not keep another file system from being unmounted.
        let child = command.current_dir("/").spawn()?;
        state.input = Some(ours);
        Ok(child)
    }

    async fn keep_running(self: Arc<Self>, mut started: io::Result<Child>) {
        let mut changes = match unix::signal(SignalKind::child()) {
            Ok(changes) => changes,
            Err(error) => return tracing::warn!(%error, "commands may outlive this server if it is killed"),
        };
        loop {
            let at = Instant::now();
            match started {
                Ok(mut reaper) => {
                    while runs(&reaper) {
                        tokio::select! {
                            _ = changes.recv() => {}
                            () = self.write_failed.notified() => break,
                        }
                    }
                    tracing::warn!(
                        "somebody killed or stopped the helper process, which ends the commands if this server dies; starting another"
                    );
                    let _ = reaper.kill().await;
                    self.state().input = None;
                    // What could not be written was for that one.
                    tokio::select! {
                        biased;
                        () = self.write_failed.notified() => {}
                        () = std::future::ready(()) => {}
                    }
                    sleep_until(at + MIN_INTERVAL).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "commands outlive this server if it is killed now");
                    sleep(RETRY_INTERVAL).await;
                }
            }
            started = self.start();
        }
    }
}

/// Whether a child of this process has neither ended nor been stopped.
fn runs(child: &Child) -> bool {
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let changes = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), changes), Ok(None)))
}

/// Runs the reaper process until the server has ended. `sessions`: those that run at its start.
///
/// # Errors
/// The process cannot leave the server's session.
pub(crate) fn run_reaper(sessions: impl IntoIterator<Item = i32>) -> io::Result<()> {
    setsid()?;
    let sessions = remaining_sessions(sessions.into_iter().collect(), io::stdin().lock());
    // With their supervisors, which end with the server anyway.
    let sessions: Vec<_> = sessions.into_iter().filter_map(Pid::from_raw).map(Session::led_by).collect();
    kill_all(&sessions);
    Ok(())
}

fn remaining_sessions(mut sessions: HashSet<i32>, input: impl BufRead) -> HashSet<i32> {
    for line in input.lines().map_while(Result::ok) {
        match (line.get(..1), line.get(1..).and_then(|id| id.parse().ok())) {
            (Some("+"), Some(id)) => _ = sessions.insert(id),
            (Some("-"), Some(id)) => _ = sessions.remove(&id),
            _ => {}
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_sessions_do_not_remain() {
        let remaining = remaining_sessions(HashSet::from([5, 6]), "+1\n+22\n-1\n+\n?7\n-5\n+3".as_bytes());
        assert_eq!(remaining, HashSet::from([6, 22, 3]));
    }

    /// The server has one thread, so a blocked write would stop it.
    #[tokio::test]
    async fn a_write_to_a_full_pipe_does_not_block() {
        let (_unread, input) = io::pipe().unwrap();
        ioctl_fionbio(&input, true).unwrap();
        let state = Mutex::new(State { input: Some(input), ..State::default() });
        let shared = Shared { program: "true".into(), state, write_failed: Notify::new() };
        let session = Session::led_by(rustix::process::getpid());
        (0..100_000).for_each(|_| shared.write('+', session));
        shared.write_failed.notified().await;
    }
}
