//! The reaper: a process that kills the remaining commands when the exec server dies without doing so (KILL, out of memory).
//!
//! 1. The server writes the start and the end of each session to the reaper's standard input. When that closes, the server
//!    has ended, and the reaper kills the sessions that have not ended.
//! 2. The reaper has its own session, so signals to the server's process group or terminal do not reach it.
use super::session::{Session, kill_all};
use rustix::process::setsid;
use std::{
    collections::HashSet,
    io::{self, BufRead, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The server's handle of the process.
pub(crate) struct Reaper(Child);

impl Reaper {
    /// Starts the hidden command `exec-reaper` of `program`.
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("exec-reaper").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In the root directory, so that it does not keep another file system from being unmounted.
        command.current_dir("/").spawn().map(Self)
    }

    pub(crate) fn add(&self, session: Session) {
        self.write('+', session);
    }

    pub(crate) fn remove(&self, session: Session) {
        self.write('-', session);
    }

    fn write(&self, sign: char, session: Session) {
        if let Some(mut input) = self.0.stdin.as_ref() {
            // A reaper that was killed cannot be helped.
            let _ = input.write_all(format!("{sign}{}\n", session.id()).as_bytes());
        }
    }
}

/// Runs the reaper process until the server has ended.
///
/// # Errors
/// The process cannot leave the server's session.
pub(crate) fn run_reaper() -> io::Result<()> {
    setsid()?;
    kill_all(&remaining_sessions(io::stdin().lock()));
    Ok(())
}

fn remaining_sessions(input: impl BufRead) -> HashSet<i32> {
    let mut sessions = HashSet::new();
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
        assert_eq!(remaining_sessions("+1\n+22\n-1\n+\n?7\n+3".as_bytes()), HashSet::from([22, 3]));
    }
}
