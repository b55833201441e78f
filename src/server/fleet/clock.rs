//! The cluster clock as this replica knows it, whoever leads.
use crate::clock::Clock;
use crate::core::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// The machine's clock and an offset: that of the own term, or what the leader's answers say.
pub(crate) struct ReplicaClock {
    machine: Arc<dyn Clock>,
    offset: AtomicI64,
    fleet: u64,
}

impl ReplicaClock {
    pub(crate) fn new(machine: Arc<dyn Clock>, fleet: u64) -> Self {
        ReplicaClock { machine, offset: AtomicI64::new(0), fleet }
    }

    pub(super) fn set(&self, offset: i64) {
        self.offset.store(offset, Relaxed);
    }
}

impl Clock for ReplicaClock {
    fn now(&self) -> Timestamp {
        let now = self.machine.now();
        Timestamp { boot: now.boot.saturating_add(self.offset.load(Relaxed)), ..now }
    }

    fn boot(&self) -> i64 {
        self.machine.boot().saturating_add(self.offset.load(Relaxed))
    }

    fn awake(&self) -> Duration {
        self.machine.awake()
    }

    fn boot_id(&self) -> u64 {
        self.fleet
    }
}
