//! The process that becomes the shell of a judged command.
use super::{notify::Listener, packet};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// From now on the supervisor judges what this process executes, except the first program. Its standard input, which is the socket to the
/// supervisor, becomes that of the command.
///
/// # Errors
/// The kernel refuses; the supervisor knows why.
pub(crate) fn restrict_to_judged() -> io::Result<()> {
    let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let stdin = packet::receive::<()>(&socket)?.and_then(|((), mut fds)| fds.pop()).ok_or_else(end)?;
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
            packet::send(&socket, &Err::<(), _>(why), &[])?;
            return Err(error);
        }
    };
    packet::send(&socket, &Ok::<(), String>(()), &[listener.as_fd().as_raw_fd()])?;
    rustix::stdio::dup2_stdin(&stdin)?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}
