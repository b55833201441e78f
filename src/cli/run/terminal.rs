//! The terminal for a COMMAND of a script, which is in another process group than the script: a use of the terminal stops it.
//!
//! 1. A process of COMMAND that is stopped because it uses the terminal (TTIN, TTOU) gets it while the thread is paused: a person is
//!    being asked. It is the script's again when the pause or COMMAND ends. It is taken from no other job.
//! 2. Meanwhile the signals of the terminal go to COMMAND instead of the script, so they are passed on to the script. Ctrl-Z stops both;
//!    COMMAND continues when the script is in the foreground again.
//! 3. If COMMAND cannot have the terminal now, a message says what to do, once for each reason.
use crate::client::stopwatch::Stopwatch;
use crate::exec::supervise::{Signal, ignored_at_start};
use futures_util::FutureExt;
use nix::{
    sys::signal::{SigSet, Signal as Blockable},
    unistd::getpgrp,
};
use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal as SystemSignal, getpid, kill_process_group},
    stdio,
    termios::{tcgetpgrp, tcsetpgrp},
};
use std::{
    cell::Cell,
    convert::Infallible,
    os::fd::{BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};
use tokio::{
    signal::unix::{self, SignalKind, signal},
    sync::Notify,
    time::{sleep, timeout},
};

const TERMINAL: &str = "/dev/tty";
/// How often the foreground is looked at, while another job has the terminal.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a shell may take to notice that a job was stopped. Without such a shell, Ctrl-Z has no effect on a script.
const SHELL_TIME: Duration = Duration::from_secs(2);
/// A pause that the coordinator reports arrives at the stopwatch within this time, or has ended.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// The terminal of this process, and the process group that started it.
pub(super) struct Terminal {
    terminal: OwnedFd,
    /// The process group of COMMAND.
    own: Pid,
    /// The process group of the script; `None`: this process leads the job itself.
    lender: Option<Pid>,
    uses: Uses,
    /// Ctrl-Z, if there is a lender, unless it was ignored at the start and stays so for COMMAND.
    stops: Option<unix::Signal>,
}

/// The signals of the kernel for the uses of the terminal by a process group that is not in the foreground.
struct Uses {
    read: unix::Signal,
    change: unix::Signal,
}

/// Whether the terminal is lent.
#[derive(Default)]
pub(super) struct Loan {
    /// The process group to give it back to.
    lender: Cell<Option<Pid>>,
    /// Ctrl-Z has stopped COMMAND meanwhile.
    is_stopped: Cell<bool>,
    stopped: Notify,
}

impl Loan {
    /// Passes a signal of the terminal on to the script, as if COMMAND was in its process group.
    pub(super) fn pass_on(&self, signal: Signal) {
        let of_terminal =
            [SystemSignal::INT, SystemSignal::QUIT].into_iter().find(|known| Signal::of(*known) == signal);
        if let (Some(lender), Some(signal)) = (self.lender.get(), of_terminal) {
            let _ = kill_process_group(lender, signal);
        }
    }
}

impl Terminal {
    /// `started_in`: the process group of this process before it led its own. Call it before COMMAND starts, with TTIN and TTOU blocked.
    /// `None`: there is no terminal, or the system refuses a thread.
    pub(super) fn of(started_in: i32) -> Option<Self> {
        let own = Pid::from_raw(getpgrp().as_raw())?;
        let lender = Pid::from_raw(started_in).filter(|lender| *lender != own);
        let catch = |kind: SystemSignal| signal(SignalKind::from_raw(kind.as_raw())).ok();
        let terminal = find()?;
        let uses = Uses { read: catch(SystemSignal::TTIN)?, change: catch(SystemSignal::TTOU)? };
        let is_ignored = ignored_at_start() & 1 << (SystemSignal::TSTP.as_raw() - 1) != 0;
        let stops = lender.filter(|_| !is_ignored).and_then(|_| catch(SystemSignal::TSTP));
        take_signals_of_uses()?;
        Some(Self { terminal, own, lender, uses, stops })
    }

    /// Whether there is a script that can lend the terminal.
    pub(super) fn has_lender(&self) -> bool {
        self.lender.is_some()
    }

    /// Lends the terminal whenever COMMAND uses it while `stopwatch` is paused. `is_held`: asks the coordinator whether the thread is paused.
    /// `say` reports why it is not lent.
    ///
    /// # Cancel safety
    /// If the future is dropped, the terminal is the lender's again.
    pub(super) async fn lend(
        self,
        loan: &Loan,
        stopwatch: &Stopwatch,
        is_held: impl AsyncFn() -> bool,
        mut say: impl FnMut(Reason),
    ) -> Infallible {
        let Self { terminal, own, lender, mut uses, stops } = self;
        let Some(lender) = lender else {
            uses.next().await;
            say(Reason::OtherJob);
            return std::future::pending().await;
        };
        let borrower = Borrower { terminal, own, lender, loan };
        let stopping = async {
            let Some(mut stops) = stops else { return std::future::pending().await };
            loop {
                stops.recv().await;
                match loan.lender.get() {
                    Some(_) => {
                        loan.is_stopped.set(true);
                        loan.stopped.notify_one();
                    }
                    // As without a handler.
                    None => _ = Signal::of(SystemSignal::STOP).send(getpid()),
                }
            }
        };
        let lending = async {
            loop {
                uses.next().await;
                while !stopwatch.is_paused() {
                    if is_held().await {
                        let _ = timeout(REPORT_TIME, stopwatch.pause_changed(false)).await;
                    } else {
                        say(Reason::NotPaused);
                        stopwatch.pause_changed(false).await;
                    }
                }
                tokio::select! {
                    () = borrower.borrow(&mut uses, &mut say) => {}
                    () = stopwatch.pause_changed(true) => {}
                }
                // These have been served.
                while uses.next().now_or_never().is_some() {}
                borrower.give_back();
                if loan.is_stopped.take() {
                    borrower.stop_lender().await;
                }
            }
        };
        tokio::select! {
            never = stopping => never,
            never = lending => never,
        }
    }
}

/// Why COMMAND has not got the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    NotPaused,
    OtherJob,
}

impl Reason {
    /// What to do, for people.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::NotPaused => {
                "use --foreground, or let it ask under `pausewatch hold`: while its thread is paused, it can use the terminal"
            }
            Self::OtherJob => {
                "another job has the terminal: bring this one to the foreground (`fg`), and use --foreground for `timeout` and \
                 `pausewatch run` around it"
            }
        }
    }
}

/// The process group of COMMAND, while the thread is paused.
struct Borrower<'a> {
    terminal: OwnedFd,
    own: Pid,
    lender: Pid,
    loan: &'a Loan,
}

impl Borrower<'_> {
    /// Borrows the terminal, also again when another job has had it. Returns when COMMAND was stopped by Ctrl-Z.
    async fn borrow(&self, uses: &mut Uses, say: &mut impl FnMut(Reason)) {
        while !self.loan.is_stopped.get() {
            while !self.is_ours_or_lenders() {
                say(Reason::OtherJob);
                sleep(LOOK_INTERVAL).await;
            }
            self.loan.lender.set(Some(self.lender));
            // This thread blocks TTOU, which would stop this process.
            if tcsetpgrp(&self.terminal, self.own).is_err() {
                // It has hung up.
                self.loan.lender.set(None);
                return std::future::pending().await;
            }
            let _ = Signal::CONT.send_to_own_group();
            tokio::select! {
                () = self.loan.stopped.notified() => {}
                () = uses.next() => {}
            }
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.terminal).ok()
    }

    fn is_ours_or_lenders(&self) -> bool {
        [Some(self.own), Some(self.lender)].contains(&self.foreground())
    }

    fn give_back(&self) {
        if self.loan.lender.take().is_some() && self.foreground() == Some(self.own) {
            // It fails if that group has gone.
            let _ = tcsetpgrp(&self.terminal, self.lender);
        }
    }

    /// Stops the script too, and continues COMMAND when the script is in the foreground again.
    async fn stop_lender(&self) {
        let _ = kill_process_group(self.lender, SystemSignal::TSTP);
        let is_taken = async {
            while self.foreground() == Some(self.lender) {
                sleep(LOOK_INTERVAL).await;
            }
        };
        if timeout(SHELL_TIME, is_taken).await.is_err() {
            let _ = kill_process_group(self.lender, SystemSignal::CONT);
        }
        while self.foreground() != Some(self.lender) {
            sleep(LOOK_INTERVAL).await;
        }
        // If it still uses the terminal, it is stopped again, which asks for the terminal.
        let _ = Signal::CONT.send_to_own_group();
    }
}

impl Drop for Borrower<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Uses {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.read.recv() => {}
            _ = self.change.recv() => {}
        }
    }
}

/// Starts a thread that takes TTIN and TTOU. This one blocks them, because a handler would restart its own reads and writes for ever.
fn take_signals_of_uses() -> Option<()> {
    let signals: SigSet = [Blockable::SIGTTIN, Blockable::SIGTTOU].into_iter().collect();
    let take = move || {
        let _ = signals.thread_unblock();
        loop {
            thread::park();
        }
    };
    thread::Builder::new().name("terminal".to_owned()).spawn(take).ok().map(drop)
}

/// Some containers have no `/dev/tty`; there the standard streams may be the terminal.
fn find() -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let own = open(TERMINAL, flags, Mode::empty()).ok();
    let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
    let stream = || {
        streams
            .into_iter()
            .find_map(|stream: BorrowedFd<'_>| stream.try_clone_to_owned().ok().filter(|fd| tcgetpgrp(fd).is_ok()))
    };
    own.or_else(stream)
}
