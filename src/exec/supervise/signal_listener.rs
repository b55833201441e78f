//! The signals that reach this process while it supervises a command.
//!
//! 1. Each signal that arrives is returned once. Arrivals of the same signal before it is returned count as one, as in the
//!    kernel.
//! 2. A signal that we send to our own process group reaches us too; [`SignalListener::expect_echo`] drops exactly that one.
//! 3. Signals are caught, not ignored: `exec` resets a caught signal to its default, so the command starts with it.
//! 4. A signal that was ignored at the start stays ignored, for the command too (`nohup`), unless it is in [`ALWAYS`].
use super::{inherited::was_ignored, signal::Signal};
use rustix::process::Signal as SystemSignal;
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, Waker},
};
use tokio::signal::unix::{self, SignalKind};

/// `run` passes these on even if they were ignored at its start: a shell starts background jobs with INT and QUIT ignored.
const ALWAYS: &[SystemSignal] = &[SystemSignal::INT, SystemSignal::QUIT, SystemSignal::TERM, SystemSignal::ALARM];

/// `run` passes these on unless they were ignored at its start: the other signals that end a process by default and are sent
/// by people and programs, not by the kernel for a fault.
const UNLESS_IGNORED: &[SystemSignal] = &[
    SystemSignal::HUP,
    SystemSignal::USR1,
    SystemSignal::USR2,
    SystemSignal::VTALARM,
    SystemSignal::PROF,
    SystemSignal::XCPU,
    SystemSignal::XFSZ,
    SystemSignal::IO,
    #[cfg(target_os = "linux")]
    SystemSignal::STKFLT,
    #[cfg(target_os = "linux")]
    SystemSignal::POWER,
];

pub(crate) struct SignalListener {
    caught: Vec<Caught>,
}

struct Caught {
    signal: Signal,
    arrivals: unix::Signal,
    echo: bool,
}

impl SignalListener {
    /// Catches the signals for `run`; `timeout_signal` is the one that the command gets at its limit. Needs a tokio runtime.
    pub(super) fn for_run(timeout_signal: Signal) -> io::Result<Self> {
        // When one process of a background group reads from the terminal, the kernel stops the whole group. That must not
        // stop this process, or nothing would end the command.
        for signal in [SystemSignal::TTIN, SystemSignal::TTOU] {
            drop(stream(Signal::of(signal))?);
        }
        let mut listener = Self::catching(ALWAYS, UNLESS_IGNORED)?;
        if !listener.catches(timeout_signal) && can_be_caught(timeout_signal) {
            listener.catch(timeout_signal)?;
        }
        Ok(listener)
    }

    /// Catches `always`, and those of `unless_ignored` that were not ignored at the start. Needs a tokio runtime.
    pub(crate) fn catching(always: &[SystemSignal], unless_ignored: &[SystemSignal]) -> io::Result<Self> {
        // If CHLD is ignored, the kernel discards the exit status of the command.
        drop(stream(Signal::of(SystemSignal::CHILD))?);
        let mut listener = Self { caught: Vec::new() };
        let unless_ignored = unless_ignored.iter().filter(|signal| !was_ignored(**signal));
        for signal in always.iter().chain(unless_ignored) {
            listener.catch(Signal::of(*signal))?;
        }
        Ok(listener)
    }

    fn catch(&mut self, signal: Signal) -> io::Result<()> {
        self.caught.push(Caught { signal, arrivals: stream(signal)?, echo: false });
        Ok(())
    }

    fn catches(&self, signal: Signal) -> bool {
        self.caught.iter().any(|caught| caught.signal == signal)
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Signal {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// A signal that has already arrived.
    pub(super) fn take(&mut self) -> Option<Signal> {
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(signal) => Some(signal),
            Poll::Pending => None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        for caught in &mut self.caught {
            while caught.arrivals.poll_recv(cx).is_ready() {
                if !std::mem::take(&mut caught.echo) {
                    return Poll::Ready(caught.signal);
                }
            }
        }
        Poll::Pending
    }

    /// Call this before sending `signal` to our own process group: its next arrival is dropped.
    pub(super) fn expect_echo(&mut self, signal: Signal) {
        if let Some(caught) = self.caught.iter_mut().find(|caught| caught.signal == signal) {
            caught.echo = true;
        }
    }
}

fn stream(signal: Signal) -> io::Result<unix::Signal> {
    unix::signal(SignalKind::from_raw(signal.as_raw()))
}

/// KILL and STOP cannot be caught, faults have handlers of Rust's runtime, and CHLD, TTIN and TTOU are caught anyway.
fn can_be_caught(signal: Signal) -> bool {
    const NEVER: &[SystemSignal] = &[
        SystemSignal::KILL,
        SystemSignal::STOP,
        SystemSignal::ILL,
        SystemSignal::FPE,
        SystemSignal::SEGV,
        SystemSignal::CHILD,
        SystemSignal::TTIN,
        SystemSignal::TTOU,
    ];
    signal.as_raw() != 0 && !NEVER.iter().any(|never| Signal::of(*never) == signal)
}
