//! Ends what is left when the exec server dies without a chance to do it (KILL, out of memory): a process of its own that
//! knows the sessions and waits for its standard input to end.
//!
//! 1. It is told of a session when that begins, and when it is over. A server that ends as it should leaves it nothing to
//!    do.
//! 2. It is in a session of its own: what is sent to the server's group or terminal does not reach it.
use super::session::{Session, kill_all};
use rustix::process::setsid;
use std::{
    collections::HashSet,
    io::{self, BufRead, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The process, as the server has it.
#[derive(Debug)]
pub(crate) struct Reaper(Child);

impl Reaper {
    /// Starts it: the hidden command `exec-reaper` of our own program.
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("exec-reaper").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not to keep a directory from being unmounted.
        command.current_dir("/").spawn().map(Self)
    }

    pub(crate) fn watch(&self, session: Session) {
        self.tell('+', session);
    }

    pub(crate) fn leave(&self, session: Session) {
        self.tell('-', session);
    }

    fn tell(&self, sign: char, session: Session) {
        if let Some(mut input) = self.0.stdin.as_ref() {
            // If it is gone, there is nobody to tell.
            let _ = input.write_all(format!("{sign}{}\n", session.id()).as_bytes());
        }
    }
}

/// What the process does.
///
/// # Errors
/// It cannot leave the server's session.
pub(crate) fn keep_watch() -> io::Result<()> {
    setsid()?;
    kill_all(&sessions_at_the_end(io::stdin().lock()));
    Ok(())
}

fn sessions_at_the_end(input: impl BufRead) -> HashSet<i32> {
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
    fn what_is_over_is_left_alone() {
        assert_eq!(sessions_at_the_end("+1\n+22\n-1\n+\n?7\n+3".as_bytes()), HashSet::from([22, 3]));
    }
}
