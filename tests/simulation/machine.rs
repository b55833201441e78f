//! The clocks of the server's machine, in simulated time.
//!
//! The processes of a laptop see its sleep like this: the boot-time clock and the wall clock jump ahead, but the time
//! awake does not. So a sleep takes no simulated time, and all hosts of a run sleep together.
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::core::Timestamp;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A day in 2026, in nanoseconds.
const EPOCH: i64 = 1_780_000_000_000_000_000;

thread_local! {
    /// The sleep that exec servers see: each run has its own thread.
    static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How long the machine of this run has slept.
pub(crate) fn slept() -> Duration {
    SLEPT.get()
}

/// The machine. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Machine(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The simulated time at the latest step, for readers outside the simulation.
    last: Duration,
    booted: Duration,
    slept: Duration,
    slept_since_boot: Duration,
    wall_skew: i64,
    boots: u64,
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).expect("a run is short")
}

impl Machine {
    pub(crate) fn new() -> Self {
        SLEPT.set(Duration::ZERO);
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }

    /// Sets the simulated time; called at each step.
    pub(crate) fn stepped(&self, elapsed: Duration) {
        self.state().last = elapsed;
    }

    pub(crate) fn elapsed(&self) -> Duration {
        turmoil::sim_elapsed().unwrap_or(self.state().last)
    }

    pub(crate) fn sleep(&self, time: Duration) {
        let mut state = self.state();
        state.slept += time;
        state.slept_since_boot += time;
        SLEPT.set(state.slept);
    }

    pub(crate) fn set_wall_clock(&self, by_seconds: i64) {
        self.state().wall_skew += by_seconds * 1_000_000_000;
    }

    pub(crate) fn reboot(&self) {
        let mut state = self.state();
        (state.booted, state.slept_since_boot) = (state.last, Duration::ZERO);
        state.boots += 1;
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let elapsed = self.elapsed();
        let state = self.state();
        let boot = nanos(elapsed.saturating_sub(state.booted) + state.slept_since_boot);
        Timestamp { boot, wall: EPOCH + nanos(elapsed + state.slept) + state.wall_skew }
    }

    fn awake(&self) -> Duration {
        self.elapsed().saturating_sub(self.state().booted)
    }

    fn boot_id(&self) -> u64 {
        self.state().boots
    }
}
