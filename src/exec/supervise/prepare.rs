//! What the process of a command does between `fork` and `exec` (docs/decisions/0003-record-before-main.md).
#![expect(unsafe_code, reason = "the compiler cannot check that code between fork and exec is async-signal-safe")]
use super::signal::Signal;
use nix::sys::signal::{SigHandler, Signal as Nix, signal};
use rustix::process;
use std::{io, os::unix::process::CommandExt, process::Command};

/// Lets the command get `death_signal` when this process ends, however it ends, and start with SIGPIPE ignored. Linux only.
pub(super) fn prepare(command: &mut Command, death_signal: Option<Signal>, ignore_pipe: bool) {
    // Without such code, the standard library starts a command by posix_spawn.
    if !cfg!(target_os = "linux") || death_signal.is_none() && !ignore_pipe {
        return;
    }
    let parent = std::process::id().cast_signed();
    let in_child = move || {
        death_signal.map_or(Ok(()), |signal| die_with_parent(signal, parent))?;
        if ignore_pipe {
            // SAFETY: no handler is installed.
            unsafe { signal(Nix::SIGPIPE, SigHandler::SigIgn) }?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only (prctl, getppid, kill, getpid, sigaction). It allocates nothing and takes no lock, and its
    // errors are numbers (man 7 signal-safety).
    unsafe { command.pre_exec(in_child) };
}

/// Sends `signal` to this process when the thread that started it ends, and at once if its parent is not `parent` any more.
///
/// # Errors
/// The system does not support this signal here.
pub(crate) fn die_with_parent(signal: Signal, parent: i32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    process::set_parent_process_death_signal(signal.system())?;
    // Checked afterwards: a parent that died before the call above sends no signal.
    if process::getppid().map(process::Pid::as_raw_pid) != Some(parent) {
        signal.send(process::getpid())?;
    }
    Ok(())
}
