//! Restarts (E3) or extends (E4) leases after a time in which holders could not renew them.
use super::Engine;
use super::long_leases::LongLeases;
use crate::coordinator::expiry_queue::ExpiryQueue;
use crate::coordinator::hub::{Committed, Event};
use crate::core::{Timestamp, cap, cut};
use std::time::Duration;

/// A shorter sleep of the machine is ignored: the two clocks are not read at exactly the same moment.
const SLEEP_NOTICED: Duration = Duration::from_millis(500);

impl Engine {
    /// Restarts every lease.
    pub(super) fn renew_all(&mut self, now: Timestamp, committed: &mut Vec<Committed>) {
        self.long_leases.iter_mut().for_each(LongLeases::move_all);
        self.set_all(|length, _| now.after(length), committed);
    }

    /// The server stalled for `time`, and nobody could renew: every lease ends that much later. Call this before a
    /// batch, and publish `committed` with it.
    pub fn extend_leases(&mut self, time: Duration, committed: &mut Vec<Committed>) {
        // After a sleep of the machine, the leases restart with the batch instead.
        if time.is_zero() || self.sleep_noticed(self.clock.slept()) {
            return;
        }
        tracing::warn!(seconds = time.as_secs_f64(), "the server stalled: leases end later by the same time");
        self.long_leases.iter_mut().for_each(|leases| leases.move_by(time));
        self.set_all(|_, ends| ends.after(time), committed);
    }

    /// Sets the end of every lease to `end(length, end)`, but not beyond the maximum pause (E5).
    fn set_all(&mut self, end: impl Fn(Duration, Timestamp) -> Timestamp, committed: &mut Vec<Committed>) {
        self.leases = ExpiryQueue::default();
        for record in self.records.values_mut() {
            let cap = cap(&record.header.pause, self.settings.max_pause);
            for open in &mut record.open {
                if let Some((length, ends)) = &mut open.lease {
                    *ends = cut(end(*length, *ends), cap);
                    self.leases.set(&record.thread, open.elicitation.id, None, Some(*ends));
                    let event = Event::Renewed(open.elicitation.id, Some(*ends));
                    committed.push(Committed { thread: record.thread.clone(), header: record.header, event });
                }
            }
        }
    }

    /// Whether the machine has slept since the last batch. `slept`: its total sleep now, in nanoseconds.
    pub(super) fn sleep_noticed(&self, slept: i64) -> bool {
        let since = slept.saturating_sub(self.slept);
        since > i64::try_from(SLEEP_NOTICED.as_nanos()).unwrap_or(i64::MAX)
    }

    pub(super) fn renew_all_after_sleep(&mut self, now: Timestamp, committed: &mut Vec<Committed>) {
        let slept = self.clock.slept();
        let noticed = self.sleep_noticed(slept);
        self.slept = slept;
        if noticed {
            tracing::info!("the machine slept: every lease restarts");
            self.renew_all(now, committed);
        }
    }
}
