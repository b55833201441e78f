//! The command under the elicitation, and the signals that it gets through this process.
//!
//! 1. The command stays in this process group, so both get the signals of the terminal.
//! 2. Signals that were ignored at the start stay ignored, for the command too (`nohup`, background jobs of a script).
//! 3. A caught signal has its default in the command: `exec` resets it.
use crate::exec::supervise::{ExitAction, Program, Signal, SignalListener, SpawnError};
use nix::unistd;
use rustix::process::{Pid, Signal as SystemSignal, kill_process};
use std::{convert::Infallible, fs::File, io, os::fd::AsFd, time::Duration};
use tokio::{process::Child, time::sleep};

/// The signals to pass on: people and programs send them to end or notify a process, and they end a process by default.
const PASSED_ON: [SystemSignal; 7] = [
    SystemSignal::INT,
    SystemSignal::QUIT,
    SystemSignal::TERM,
    SystemSignal::HUP,
    SystemSignal::USR1,
    SystemSignal::USR2,
    SystemSignal::ALARM,
];

/// How long a program that is no longer needed has to end before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// Catches the signals to pass on. Needs a tokio runtime.
pub(super) fn signals() -> io::Result<SignalListener> {
    SignalListener::catching(&[], &PASSED_ON)
}

/// Ends a program that asks a person, because nobody waits for the answer any more: TERM, and KILL 2 s later. Its exit status
/// must not have been read, so that the id is not that of another process.
pub(crate) async fn end_unneeded(pid: Pid) -> Infallible {
    // It may be stopped. A program that has ended meanwhile is no problem.
    for signal in [SystemSignal::TERM, SystemSignal::CONT] {
        let _ = kill_process(pid, signal);
    }
    sleep(KILL_AFTER).await;
    let _ = kill_process(pid, SystemSignal::KILL);
    std::future::pending().await
}

/// A running command.
pub(super) struct Running {
    child: Child,
    pid: Pid,
    listener: SignalListener,
}

impl Running {
    /// Starts the command, which gets the signals of `listener`.
    pub(super) fn start(program: &Program, listener: SignalListener) -> Result<Self, SpawnError> {
        let child = program.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, pid: pid.expect("its exit status was not read yet"), listener })
    }

    /// Waits for the end of the command and passes signals on until then. It is ended when `unneeded` returns.
    pub(super) async fn wait(mut self, unneeded: impl Future<Output = ()>) -> io::Result<ExitAction> {
        let pid = self.pid;
        let ending = async {
            unneeded.await;
            end_unneeded(pid).await
        };
        tokio::pin!(ending);
        loop {
            tokio::select! {
                biased;
                status = self.child.wait() => return Ok(ExitAction::of(status?, false, false)),
                signal = self.listener.recv() => {
                    if !(matches!(signal, Signal::INT | Signal::QUIT) && in_foreground()) {
                        // If the signal is not permitted (the command runs as another user), only waiting is left.
                        let _ = signal.send_and_continue(self.pid);
                    }
                }
                never = &mut ending => match never {},
            }
        }
    }
}

/// Whether the terminal sends its signals to our process group, and so to the command.
///
/// In a pid namespace both ids are 0 if the group is from outside. Some containers have no `/dev/tty`; there the standard
/// streams show it.
pub(crate) fn in_foreground() -> bool {
    fn is_foreground_of(terminal: impl AsFd) -> bool {
        unistd::tcgetpgrp(terminal) == Ok(unistd::getpgrp())
    }
    is_foreground_of(io::stdin())
        || is_foreground_of(io::stdout())
        || is_foreground_of(io::stderr())
        || File::open("/dev/tty").is_ok_and(is_foreground_of)
}
