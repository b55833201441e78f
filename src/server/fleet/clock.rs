//! The cluster clock as this replica knows it, for the durations that it shows.
//!
//! While this replica leads, the clock stops as soon as another replica might have decided something that this one does
//! not know, such as after a SIGSTOP: a paused time that is shown then must not be greater than the one that the other
//! replica reports later (fleet invariant I6).
use crate::clock::Clock;
use crate::coordinator::store::etcd::{Pulse, SURE_FOR};
use crate::core::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// The clock of the machine and an offset: that of our own term, or the one in the leader's answers.
pub struct ReplicaClock {
    machine: Arc<dyn Clock>,
    offset: AtomicI64,
    /// The pulse of the term that this replica leads.
    pulse: RwLock<Option<Arc<Pulse>>>,
    fleet: u64,
}

impl ReplicaClock {
    /// The clock of a replica of `fleet` that follows.
    pub fn new(machine: Arc<dyn Clock>, fleet: u64) -> Self {
        ReplicaClock { machine, offset: AtomicI64::new(0), pulse: RwLock::default(), fleet }
    }

    /// Sets the offset from the machine's clock.
    pub fn set(&self, offset: i64) {
        self.offset.store(offset, Relaxed);
    }

    /// This replica leads from now on, or (`None`) no longer.
    pub fn beat(&self, pulse: Option<Arc<Pulse>>) {
        *self.pulse.write().expect("nothing panics while it holds the pulse") = pulse;
    }

    /// How far the clock lags behind the machine's clock plus the offset.
    fn behind(&self, machine: i64) -> i64 {
        let pulse = self.pulse.read().expect("nothing panics while it holds the pulse");
        let sure = |pulse: &Arc<Pulse>| pulse.last().max(pulse.written().saturating_add(SURE_FOR));
        pulse.as_ref().map_or(0, |pulse| machine.saturating_sub(sure(pulse)).max(0))
    }
}

impl Clock for ReplicaClock {
    fn now(&self) -> Timestamp {
        let now = self.machine.now();
        let behind = self.behind(now.boot);
        let boot = now.boot.saturating_add(self.offset.load(Relaxed)).saturating_sub(behind);
        Timestamp { boot, wall: now.wall.saturating_sub(behind) }
    }

    fn boot(&self) -> i64 {
        self.now().boot
    }

    fn awake(&self) -> Duration {
        self.machine.awake()
    }

    fn boot_id(&self) -> u64 {
        self.fleet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;

    #[test]
    fn a_leader_that_has_stood_still_tells_no_time_in_which_another_one_may_decide() {
        let machine = Arc::new(Manual::new(Timestamp { boot: 5_000_000_000, wall: 9_000_000_000 }, 1));
        let clock = ReplicaClock::new(machine.clone(), 7);
        clock.set(1_000);
        clock.beat(Some(Arc::new(Pulse::at(machine.boot()))));
        let before = clock.now();
        assert_eq!((before.boot, before.wall, clock.boot_id()), (5_000_001_000, 9_000_000_000, 7));
        machine.advance(Duration::from_millis(800));
        assert_eq!(clock.now(), before.after(Duration::from_millis(800)));
        machine.advance(Duration::from_secs(60));
        assert_eq!(clock.now(), before.after(Duration::from_millis(900)));
        assert_eq!(clock.boot(), clock.now().boot);
        // Reading that it still leads says nothing of what comes.
        let pulse = Pulse::at(5_000_000_000);
        pulse.read_at(7_000_000_000);
        clock.beat(Some(Arc::new(pulse)));
        assert_eq!(clock.now(), before.after(Duration::from_millis(2_000)));
        clock.beat(None);
        assert_eq!(clock.now(), before.after(Duration::from_millis(60_800)));
    }
}
