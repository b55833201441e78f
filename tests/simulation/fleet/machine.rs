//! The machine of a replica: its clocks, and whether its processes run.
//!
//! Its boot-time clock has its own start and rate; its wall clock is wrong and may be set.
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::core::Timestamp;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// A day in 2026, in nanoseconds.
const EPOCH: i64 = 1_780_000_000_000_000_000;
/// The maximum difference between the rates of the clocks of two machines and true time, in millionths.
pub(super) const MOST_DRIFT: i64 = 50;

pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).expect("a run is short")
}

/// One boot of a machine.
pub(super) struct Machine {
    start: Instant,
    boot_id: u64,
    /// The value of the boot-time clock at the start of the run.
    base: i64,
    drift: i64,
    wall: Arc<AtomicI64>,
}

impl Machine {
    pub(super) fn new(start: Instant, boot_id: u64, base: i64, drift: i64, wall: Arc<AtomicI64>) -> Self {
        Machine { start, boot_id, base, drift, wall }
    }

    fn true_time(&self) -> i64 {
        nanos(Instant::now() - self.start)
    }

    /// The true time since the start of the run at which the boot-time clock showed `boot`.
    pub(super) fn truth(&self, boot: i64) -> i64 {
        let since = i128::from(boot - self.base);
        i64::try_from(since * 1_000_000 / i128::from(1_000_000 + self.drift)).expect("a run is short")
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let (boot, wall) = (self.boot(), self.wall.load(SeqCst));
        Timestamp { boot, wall: EPOCH + self.true_time() + wall }
    }

    fn boot(&self) -> i64 {
        let since = self.true_time();
        self.base + since + since / 1_000 * self.drift / 1_000
    }

    fn awake(&self) -> Duration {
        Duration::from_nanos(self.boot().unsigned_abs())
    }

    fn boot_id(&self) -> u64 {
        self.boot_id
    }
}

/// Whether a process runs: it may be stopped for a while, or for ever.
#[derive(Default)]
pub(super) struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    pub(super) fn stop(&self) {
        self.0.lock().expect("no panic while locked").0 = true;
    }

    pub(super) fn go(&self) {
        let wakers = {
            let mut gate = self.0.lock().expect("no panic while locked");
            gate.0 = false;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_open(&self, cx: &Context<'_>) -> bool {
        let mut gate = self.0.lock().expect("no panic while locked");
        if gate.0 {
            gate.1.push(cx.waker().clone());
        }
        !gate.0
    }
}

/// A task of a process: it does not run while the process is stopped.
pub(super) struct Gated<F>(pub(super) Arc<Gate>, pub(super) Pin<Box<F>>);

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.is_open(cx) {
            true => self.1.as_mut().poll(cx),
            false => Poll::Pending,
        }
    }
}

/// Starts a task of the process behind `gate`.
pub(super) fn begin<F>(gate: &Arc<Gate>, task: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(Gated(gate.clone(), Box::pin(task)))
}
