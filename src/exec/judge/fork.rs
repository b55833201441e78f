//! `fork` behind a safe interface, for a process with one thread (docs/decisions/0004-execs-judged-by-seccomp-notification.md).
//!
//! A judged command thus starts this program once, as its supervisor, instead of twice.
#![expect(unsafe_code, reason = "after fork, the child of a process with several threads may do almost nothing")]
use nix::unistd::{ForkResult, Pid};
use std::{fs, io};

/// Which of the two processes this is.
pub(super) enum Forked {
    Child,
    Parent { child: Pid },
}

/// Duplicates this process.
///
/// # Errors
/// This process has more than one thread, or the system cannot create a process: there is no child.
pub(super) fn fork() -> io::Result<Forked> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads cannot be duplicated"));
    }
    // SAFETY: the child is a copy of this thread. No other thread exists that could hold a lock now or start one before the fork, so the child
    // may do whatever this process may.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => Ok(Forked::Child),
        ForkResult::Parent { child } => Ok(Forked::Parent { child }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests run in threads of one process.
    #[test]
    fn a_process_with_several_threads_is_not_duplicated() {
        let error = std::thread::spawn(fork).join().unwrap().err().expect("there are two threads");
        assert!(error.to_string().contains("several threads"), "{error}");
    }
}
