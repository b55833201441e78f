//! The supervision of a command: one loop over its end, our signals, and two clocks.
//!
//! 1. The first signal that is sent, whether passed on or at the time limit, starts the kill-after clock. From then on the
//!    signal at the end of either clock is KILL.
//! 2. The kill-after clock also runs while the thread is paused: the command was already asked to end, perhaps because the
//!    person does not answer.
use super::{exit_action::ExitAction, signal::Signal, signal_listener::SignalListener, spawn::SpawnError};
use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal as Blockable},
    unistd,
};
use rustix::process::{self, Pid};
use std::{future::Future, io, pin::pin, process::ExitStatus, time::Duration};
use tokio::{process::Child, task::yield_now, time::sleep};

/// The action at the time limit.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// The signal to send at the time limit.
    pub signal: Signal,
    /// KILL follows this long after the first signal; zero: no KILL.
    pub kill_after: Duration,
    /// The command stays in the process group of this process's parent, can use the terminal, and alone gets the signals.
    pub foreground: bool,
    /// Report the command's own status even if it timed out.
    pub preserve_status: bool,
}

/// Why a signal is sent to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was sent to this process, or to its process group.
    Outside,
    /// One of the clocks is over.
    Clock,
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The way in which this process should end.
    pub(crate) action: ExitAction,
    /// Whether its time limit had passed, or an ALRM had come from outside.
    pub(crate) timed_out: bool,
}

/// This process, ready to supervise one command.
pub(crate) struct Supervisor {
    listener: SignalListener,
    inherited_mask: Option<SigSet>,
    policy: Policy,
}

/// The process of a command.
pub(crate) trait Process {
    /// Waits for its end. After it, each call returns the same status at once.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    async fn wait(&mut self) -> io::Result<ExitStatus>;

    /// Its process id, unless it has not started yet, or its exit status was read: then the id may be reused.
    fn id(&self) -> Option<Pid>;

    /// Waits until it has started, or has ended. Most have started before they are supervised.
    async fn started(&mut self) {}

    /// Withdraws its questions to people, because it is about to be killed.
    async fn withdraw(&mut self) {}
}

impl Process for Child {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        Self::wait(self).await
    }

    fn id(&self) -> Option<Pid> {
        Pid::from_raw(Self::id(self)?.try_into().ok()?)
    }
}

/// A command that runs.
pub(crate) struct Job<P> {
    process: P,
    listener: SignalListener,
    policy: Policy,
}

impl Supervisor {
    /// Becomes the leader of a background process group (unless in the foreground) and catches signals from here on.
    ///
    /// Start threads only between this and [`start`](Self::start), or not at all: they inherit the signal mask that shields
    /// this process from signals to its group.
    ///
    /// # Errors
    /// The system refused a signal handler.
    ///
    /// # Panics
    /// Outside a tokio runtime with `enable_all`.
    pub(crate) fn new(policy: Policy) -> io::Result<Self> {
        if !policy.foreground {
            // Fails for the leader of a session, which already leads a process group.
            let _ = process::setpgid(None, None);
        }
        let listener = SignalListener::for_run(policy.signal)?;
        Ok(Self { listener, inherited_mask: shield().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok(), policy })
    }

    /// Starts the command by `spawn`.
    ///
    /// # Errors
    /// The command was not started. This process still leads its group.
    pub(crate) fn start<P>(self, spawn: impl FnOnce() -> Result<P, SpawnError>) -> Result<Job<P>, SpawnError> {
        // The command gets the signal mask that this process inherited.
        let _ = self.inherited_mask.map(|mask| mask.thread_set_mask());
        let process = spawn();
        let _ = shield().thread_block();
        Ok(Job { process: process?, listener: self.listener, policy: self.policy })
    }
}

/// The signals that this process must not get when its group gets them. With TTOU caught, a message to a terminal with
/// `tostop` would restart its write forever. Faults cannot be caught, so only the mask shields from those that we send.
fn shield() -> SigSet {
    let signals = [Blockable::SIGTTIN, Blockable::SIGTTOU, Blockable::SIGILL, Blockable::SIGFPE, Blockable::SIGSEGV];
    signals.into_iter().collect()
}

impl<P: Process> Job<P> {
    /// Waits until the command has ended and returns what this process should do then.
    ///
    /// `expired` completes at the time limit; pass [`std::future::pending`] for no limit. `sending` is called before each
    /// signal is sent.
    ///
    /// # Errors
    /// The system does not return the command's exit status.
    ///
    /// # Cancel safety
    /// If the future is dropped, the command continues to run.
    pub(crate) async fn supervise(
        mut self,
        expired: impl Future<Output = ()>,
        mut sending: impl FnMut(Signal, Origin),
    ) -> io::Result<Ended> {
        let mut expired = pin!(expired);
        let mut kill = pin!(sleep(self.policy.kill_after));
        // `at_clock`: one of the two clocks was over, or an ALRM came from outside.
        let (mut limited, mut killing, mut at_clock, mut timed_out) = (true, false, false, false);
        // A signal that is sent to a command before its start has no effect, and is not sent again.
        self.process.started().await;
        loop {
            let (signal, origin) = tokio::select! {
                biased;
                signal = self.listener.recv() => (signal, Origin::Outside),
                status = self.process.wait() => {
                    let status = status?;
                    // A signal that arrived before the command's end may still be on its way through the runtime.
                    yield_now().await;
                    match self.listener.take() {
                        Some(signal) => (signal, Origin::Outside),
                        None => {
                            let action = ExitAction::of(status, at_clock, self.policy.preserve_status);
                            return Ok(Ended { action, timed_out });
                        }
                    }
                }
                () = &mut expired, if limited => {
                    limited = false;
                    (Signal::ALRM, Origin::Clock)
                }
                () = &mut kill, if killing => {
                    (killing, at_clock) = (false, true);
                    (self.policy.signal, Origin::Clock)
                }
            };
            // As with GNU timeout, whose clock is ALRM: an ALRM from outside acts like the time limit.
            let signal = match signal {
                Signal::ALRM => {
                    (at_clock, timed_out) = (true, true);
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
            sending(signal, origin);
            if signal == Signal::KILL && !self.policy.foreground {
                self.process.withdraw().await;
                return Ok(Ended { action: ExitAction::KillGroup(self.running()), timed_out });
            }
            self.send(signal);
        }
    }

    fn send(&mut self, signal: Signal) {
        // If the signal is not permitted (the command runs as another user), wait, as for a command that ignores it.
        if self.policy.foreground {
            let _ = self.running().map_or(Ok(()), |command| signal.send(command));
            return;
        }
        self.send_to_job(signal);
        // A stopped command handles the signal only after it continues.
        if signal != Signal::CONT {
            self.send_to_job(Signal::CONT);
        }
    }

    fn send_to_job(&mut self, signal: Signal) {
        self.listener.expect_echo(signal);
        let _ = signal.send_to_own_group();
        // Checked afterwards, so that a command that leaves the group meanwhile is not missed.
        if let Some(command) = self.running()
            && unistd::getpgid(Some(unistd::Pid::from_raw(command.as_raw_pid()))) != Ok(unistd::getpgrp())
        {
            let _ = signal.send(command);
        }
    }

    fn running(&self) -> Option<Pid> {
        self.process.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use tokio::time::timeout;

    /// A process that runs before its id is known, like a command whose programs are judged.
    struct Unknown {
        child: Child,
        is_known: bool,
    }

    impl Process for Unknown {
        async fn wait(&mut self) -> io::Result<ExitStatus> {
            Process::wait(&mut self.child).await
        }

        fn id(&self) -> Option<Pid> {
            Process::id(&self.child).filter(|_| self.is_known)
        }

        async fn started(&mut self) {
            self.is_known = true;
        }
    }

    /// The signal would be sent to no process, and not again.
    #[tokio::test]
    async fn a_limit_that_is_over_at_the_start_ends_a_command_in_the_foreground() {
        let child = tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let policy = Policy {
            signal: Signal::of(process::Signal::TERM),
            kill_after: Duration::ZERO,
            foreground: true,
            preserve_status: false,
        };
        let supervisor = Supervisor::new(policy).unwrap();
        let job = supervisor.start(|| Ok(Unknown { child, is_known: false })).unwrap();
        let ended = timeout(Duration::from_secs(60), job.supervise(ready(()), |_, _| ())).await;
        assert!(ended.expect("it gets the signal").unwrap().timed_out);
    }
}
