//! The work of a command's process between `fork` and `exec` (docs/decisions/0003-record-before-main.md).
#![expect(unsafe_code, reason = "the compiler cannot check that code between fork and exec is async-signal-safe")]
use super::signal::Signal;
use nix::libc;
use rustix::process;
use std::{io, os::unix::process::CommandExt, process::Command};

/// Lets the command get `death_signal` when this process ends, however it ends, and start with SIGPIPE ignored. Linux only.
pub(super) fn prepare(command: &mut Command, death_signal: Option<Signal>, ignore_pipe: bool) {
    // Without such code, the standard library starts a command by posix_spawn.
    if cfg!(target_os = "linux") && (death_signal.is_some() || ignore_pipe) {
        prepare_as_child_of(std::process::id().cast_signed(), command, death_signal, ignore_pipe);
    }
}

fn prepare_as_child_of(parent: i32, command: &mut Command, death_signal: Option<Signal>, ignore_pipe: bool) {
    let in_child = move || {
        if let Some(signal) = death_signal {
            do_not_catch(signal.as_raw());
            die_with_parent(signal, parent)?;
        }
        if ignore_pipe {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only (sigaction, prctl, getppid, kill, getpid). It allocates nothing and takes no lock, and its
    // errors are numbers (man 7 signal-safety).
    unsafe { command.pre_exec(in_child) };
}

/// Resets a signal that this process catches to its default, as executing a program does. Until then the copied handler
/// would take the signal, and the command would never learn of it. An ignored signal stays ignored.
fn do_not_catch(signal: i32) {
    // SAFETY: a structure of integers and an address, for which zero is valid; the call writes it. No handler is installed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction != libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, sync::Arc};

    /// The signal comes before the program is executed, because its parent is another one by then.
    #[test]
    fn a_command_whose_parent_has_ended_dies_of_a_signal_that_its_parent_caught() {
        let user = process::Signal::USR1;
        signal_hook::flag::register(user.as_raw(), Arc::default()).unwrap();
        let mut command = Command::new("true");
        prepare_as_child_of(1, &mut command, Some(Signal::of(user)), false);
        assert_eq!(command.status().unwrap().signal(), Some(user.as_raw()));
        let mut command = Command::new("true");
        prepare(&mut command, Some(Signal::of(user)), false);
        assert!(command.status().unwrap().success(), "its parent runs");
    }
}
