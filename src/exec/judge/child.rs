//! The process that becomes the shell of a judged command.
use super::{notify::Listener, packet};
use crate::exec::supervise::{Signal, die_with_parent};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// A copy of the supervisor's process. Its standard streams are those of the command; all signals but faults are blocked.
pub(crate) struct CommandProcess {
    /// To the supervisor.
    socket: OwnedFd,
    supervisor: u32,
}

impl CommandProcess {
    /// `supervisor`: its process id.
    pub(super) fn new(socket: OwnedFd, supervisor: u32) -> Self {
        Self { socket, supervisor }
    }

    /// From now on this process dies with its supervisor.
    pub(crate) fn die_with_supervisor(&self) -> io::Result<()> {
        die_with_parent(Signal::KILL, self.supervisor.cast_signed())
    }

    /// From now on the supervisor judges what this process executes, except the first program.
    ///
    /// # Errors
    /// The kernel refuses; the supervisor knows why.
    pub(crate) fn restrict_to_judged(self) -> io::Result<()> {
        let listener = match Listener::install() {
            Ok(listener) => listener,
            Err(error) => {
                let why = match Errno::from_io_error(&error) {
                    Some(Errno::BUSY) => "a program that runs this one judges programs already".to_owned(),
                    Some(Errno::NOSYS | Errno::INVAL) => {
                        "the kernel has no seccomp user notification (Linux 5.9 and later have)".to_owned()
                    }
                    _ => format!("the kernel refuses seccomp user notification: {error}"),
                };
                packet::send(&self.socket, &Err::<(), _>(why), &[])?;
                return Err(error);
            }
        };
        packet::send(&self.socket, &Ok::<(), String>(()), &[listener.as_fd().as_raw_fd()])?;
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        Ok(())
    }
}
