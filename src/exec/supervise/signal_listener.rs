//! The signals that reach this process while it supervises a command.
//!
//! 1. A signal that has arrived is given out once. Arrivals of one kind that nobody has taken yet are one, as the kernel
//!    does it.
//! 2. What we send to our own process group comes back to us; [`SignalListener::expect_echo`] swallows exactly that.
//! 3. Catching, not ignoring: `exec` puts a caught signal back to its default, so the command starts with it.
use super::signal::Signal;
use rustix::process::Signal as Named;
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, Waker},
};
use tokio::signal::unix::{self, SignalKind};

/// Passed on even if they were ignored when we started: a shell starts background jobs with INT and QUIT ignored.
const ALWAYS: &[Named] = &[Named::INT, Named::QUIT, Named::TERM, Named::ALARM];

/// Passed on unless they were ignored when we started: the other signals that end a process that does not catch them
/// and are sent by people and programs, not by the kernel for a fault of ours.
const UNLESS_IGNORED: &[Named] = &[
    Named::HUP,
    Named::USR1,
    Named::USR2,
    Named::VTALARM,
    Named::PROF,
    Named::XCPU,
    Named::XFSZ,
    Named::IO,
    #[cfg(target_os = "linux")]
    Named::STKFLT,
    #[cfg(target_os = "linux")]
    Named::POWER,
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
    /// Starts to catch; `also` is the signal that the command gets when its time is up. Needs a tokio runtime.
    pub(crate) fn open(also: Signal) -> io::Result<Self> {
        // A process group in the background is stopped as a whole when one of it reads from the terminal; the terminal's
        // signals must not stop us, or nothing would end the command. CHLD: if it is ignored, the kernel throws the
        // command's status away.
        for signal in [Named::TTIN, Named::TTOU, Named::CHILD] {
            drop(unix::signal(SignalKind::from_raw(signal.as_raw()))?);
        }
        let mut inbox = Self { caught: Vec::new() };
        let ignored = ignored_signals();
        for signal in ALWAYS {
            inbox.catch(Signal::of(*signal))?;
        }
        for signal in
            UNLESS_IGNORED.iter().map(|signal| Signal::of(*signal)).filter(|signal| !ignored.contains(*signal))
        {
            inbox.catch(signal)?;
        }
        if !inbox.catches(also) && can_be_caught(also) {
            inbox.catch(also)?;
        }
        Ok(inbox)
    }

    fn catch(&mut self, signal: Signal) -> io::Result<()> {
        let arrivals = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
        self.caught.push(Caught { signal, arrivals, echo: false });
        Ok(())
    }

    pub(crate) fn catches(&self, signal: Signal) -> bool {
        self.caught.iter().any(|caught| caught.signal == signal)
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Signal {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// A signal that has come already.
    pub(crate) fn take(&mut self) -> Option<Signal> {
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

    /// Call it when `signal` is about to be sent to our own group: its next arrival is ours.
    pub(crate) fn expect_echo(&mut self, signal: Signal) {
        if let Some(caught) = self.caught.iter_mut().find(|caught| caught.signal == signal) {
            caught.echo = true;
        }
    }
}

/// KILL and STOP cannot be, the faults' handlers belong to Rust's runtime, and the others are caught already, to no end.
fn can_be_caught(signal: Signal) -> bool {
    const NEVER: &[Named] =
        &[Named::KILL, Named::STOP, Named::ILL, Named::FPE, Named::SEGV, Named::CHILD, Named::TTIN, Named::TTOU];
    signal.as_raw() != 0 && !NEVER.iter().any(|never| Signal::of(*never) == signal)
}

struct Ignored(u64);

impl Ignored {
    fn contains(&self, signal: Signal) -> bool {
        self.0 & (1 << (signal.as_raw() - 1)) != 0
    }
}

/// The signals that are ignored now; where the kernel does not tell, none.
fn ignored_signals() -> Ignored {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ignored(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
}
