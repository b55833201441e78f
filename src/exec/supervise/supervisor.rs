//! The supervision itself: one loop over the command's end, our signals, and two clocks.
//!
//! 1. The first signal that is sent, passed on or because the time is up, starts the kill-after clock. From then on
//!    KILL is what is sent when a clock ends: this one, or the command's if it still runs.
//! 2. The kill-after clock runs on while a thread is paused: the command was told to end, and somebody may have told it
//!    so just because the person does not answer.
use super::{
    exit_action::ExitAction,
    signal::Signal,
    signal_listener::SignalListener,
    spawn::{Program, SpawnError},
};
use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal as Blockable},
    unistd,
};
use rustix::process::{self, Pid};
use std::{future::Future, io, pin::pin, time::Duration};
use tokio::{process::Child, task::yield_now, time::sleep};

/// What to do when the time is up.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Sent when the time is up.
    pub signal: Signal,
    /// KILL follows this long after the first signal; zero: no KILL.
    pub kill_after: Duration,
    /// The command stays in the process group of this process's parent, can use the terminal, and alone gets the signals.
    pub foreground: bool,
    /// Report the command's own status even if its time was up.
    pub preserve_status: bool,
}

/// This process, ready to supervise one command.
pub(crate) struct Supervisor {
    inbox: SignalListener,
    inherited_mask: Option<SigSet>,
    policy: Policy,
}

/// A command that runs.
pub(crate) struct Job {
    child: Child,
    inbox: SignalListener,
    policy: Policy,
}

impl Supervisor {
    /// Becomes the leader of a background process group (unless in the foreground) and catches signals from here on.
    ///
    /// Threads should be started after this and before [`start`](Self::start), or not at all: they inherit what shields
    /// this process from signals to its group.
    ///
    /// # Errors
    /// The system refused a signal handler.
    ///
    /// # Panics
    /// Outside a tokio runtime with `enable_all`.
    pub(crate) fn new(policy: Policy) -> io::Result<Self> {
        if !policy.foreground {
            // Refused to the leader of a session, who leads a process group already.
            let _ = process::setpgid(None, None);
        }
        let inbox = SignalListener::open(policy.signal)?;
        Ok(Self { inbox, inherited_mask: shield().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok(), policy })
    }

    /// Spawns the command: its time starts now.
    ///
    /// # Errors
    /// The command was not started. This process leads its group still.
    pub(crate) fn start(self, program: &Program) -> Result<Job, SpawnError> {
        // The command gets the mask that we got.
        let _ = self.inherited_mask.map(|mask| mask.thread_set_mask());
        let child = program.spawn();
        let _ = shield().thread_block();
        Ok(Job { child: child?, inbox: self.inbox, policy: self.policy })
    }
}

/// The signals that must not reach us when they reach our group. A message to a terminal with `tostop` would otherwise
/// wait for ever (TTOU caught: the write starts again), and the faults cannot be caught, so only the mask can keep them
/// away when we send one.
fn shield() -> SigSet {
    let signals = [Blockable::SIGTTIN, Blockable::SIGTTOU, Blockable::SIGILL, Blockable::SIGFPE, Blockable::SIGSEGV];
    signals.into_iter().collect()
}

impl Job {
    /// Waits until the command has ended and says what this process should do then.
    ///
    /// `expired` ends when the command's time is up; pass [`std::future::pending`] for no limit. `sending` is told of each
    /// signal before it is sent.
    ///
    /// # Errors
    /// The command's status cannot be had from the system.
    ///
    /// # Cancel safety
    /// Dropped, the command runs on.
    pub(crate) async fn supervise(
        mut self,
        expired: impl Future<Output = ()>,
        mut sending: impl FnMut(Signal),
    ) -> io::Result<ExitAction> {
        let mut expired = pin!(expired);
        let mut kill = pin!(sleep(self.policy.kill_after));
        let (mut limited, mut killing, mut timed_out) = (true, false, false);
        loop {
            let signal = tokio::select! {
                biased;
                signal = self.inbox.recv() => signal,
                status = self.child.wait() => {
                    let status = status?;
                    // A signal from before the command's end may not have come through yet: let the runtime look once more.
                    yield_now().await;
                    match self.inbox.take() {
                        Some(signal) => signal,
                        None => return Ok(ExitAction::of(status, timed_out, self.policy.preserve_status)),
                    }
                }
                () = &mut expired, if limited => {
                    limited = false;
                    Signal::ALRM
                }
                () = &mut kill, if killing => {
                    killing = false;
                    Signal::ALRM
                }
            };
            // As for GNU timeout, whose clock it is: whoever sends ALRM says that the time is up.
            let signal = match signal {
                Signal::ALRM => {
                    timed_out = true;
                    self.policy.signal
                }
                signal => signal,
            };
            if !self.policy.kill_after.is_zero() {
                kill.set(sleep(self.policy.kill_after));
                killing = true;
                self.policy.kill_after = Duration::ZERO;
                self.policy.signal = Signal::KILL;
            }
            sending(signal);
            if signal == Signal::KILL && !self.policy.foreground {
                return Ok(ExitAction::KillGroup(self.running()));
            }
            self.send(signal);
        }
    }

    fn send(&mut self, signal: Signal) {
        // A refusal (the command has another user's rights) leaves nothing to do but to wait, as for a command that
        // ignores the signal.
        if self.policy.foreground {
            let _ = self.running().map_or(Ok(()), |command| signal.send(command));
            return;
        }
        self.send_to_job(signal);
        // A stopped command sees the signal only when it goes on.
        if signal != Signal::CONT {
            self.send_to_job(Signal::CONT);
        }
    }

    fn send_to_job(&mut self, signal: Signal) {
        self.inbox.expect_echo(signal);
        let _ = signal.send_to_own_group();
        // Looked at afterwards, so that a command that leaves the group meanwhile is not missed.
        if let Some(command) = self.running()
            && unistd::getpgid(Some(unistd::Pid::from_raw(command.as_raw_pid()))) != Ok(unistd::getpgrp())
        {
            let _ = signal.send(command);
        }
    }

    /// The command, unless its status is taken already: its process id may be somebody else's by now.
    fn running(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id()?.try_into().ok()?)
    }
}
