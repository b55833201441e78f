//! The command under the elicitation, and the signals that reach this process instead of it.
//!
//! 1. The command has the terminal: it stays in our process group, and what the terminal sends, both get.
//! 2. Signals that were ignored when we started stay so, for the command too (`nohup`, background jobs of a script).
//! 3. A caught signal is at its default in the command: `exec` puts it back.
use crate::exec::supervise::{ExitAction, Program, Signal, SpawnError};
use nix::unistd;
use rustix::process::{Pid, Signal as Named};
use std::{fs, fs::File, future::poll_fn, io, os::fd::AsFd, task::Poll};
use tokio::{process::Child, signal::unix};

/// The signals that people and programs send to end a process or to tell it something, and that end one that does not
/// catch them.
const CAUGHT: [Named; 7] = [Named::INT, Named::QUIT, Named::TERM, Named::HUP, Named::USR1, Named::USR2, Named::ALARM];

/// A command that runs.
pub(super) struct Running {
    child: Child,
    pid: Pid,
    arrivals: Vec<(Named, unix::Signal)>,
}

impl Running {
    /// Catches signals, and starts the command.
    pub(super) fn start(program: &Program) -> Result<Self, SpawnError> {
        let arrivals = catch().map_err(SpawnError::NoProcess)?;
        let child = program.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, pid: pid.expect("nobody has waited for it"), arrivals })
    }

    /// Waits for the command's end and passes signals on until then.
    pub(super) async fn wait(mut self) -> io::Result<ExitAction> {
        loop {
            tokio::select! {
                biased;
                status = self.child.wait() => return Ok(ExitAction::of(status?, false, false)),
                signal = next(&mut self.arrivals) => {
                    if !(matches!(signal, Named::INT | Named::QUIT) && in_foreground()) {
                        // If it may not be signalled (it has another user's rights), there is nothing to do but wait.
                        let _ = Signal::of(signal).send(self.pid);
                    }
                }
            }
        }
    }
}

fn catch() -> io::Result<Vec<(Named, unix::Signal)>> {
    let catch = |signal: Named| unix::signal(unix::SignalKind::from_raw(signal.as_raw()));
    // If CHLD is ignored, the kernel throws the command's status away.
    drop(catch(Named::CHILD)?);
    let ignored = ignored();
    let caught = CAUGHT.into_iter().filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0);
    caught.map(|signal| Ok((signal, catch(signal)?))).collect()
}

async fn next(arrivals: &mut [(Named, unix::Signal)]) -> Named {
    poll_fn(|cx| {
        let arrived =
            |(signal, arrivals): &mut (Named, unix::Signal)| arrivals.poll_recv(cx).is_ready().then_some(*signal);
        arrivals.iter_mut().find_map(arrived).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Whether the terminal sends its signals to our process group, and so to the command. To those in a namespace of process ids
/// both are 0 if the group is one of outside. Some containers have no `/dev/tty`: then one of our own files tells.
fn in_foreground() -> bool {
    fn of(terminal: impl AsFd) -> bool {
        unistd::tcgetpgrp(terminal) == Ok(unistd::getpgrp())
    }
    of(io::stdin()) || of(io::stdout()) || of(io::stderr()) || File::open("/dev/tty").is_ok_and(of)
}

/// The signals that are ignored now, signal n as bit n - 1; none where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
