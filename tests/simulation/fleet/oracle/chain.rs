//! I1: one chain of leader records. I6: the clock of a takeover.
use super::super::machine::MOST_DRIFT;
use super::books::{GRAIN, State};
use super::records::{Entry, LeaderRecord};

impl State {
    /// etcd now has this record, which was written with `entry`.
    pub(super) fn chained(&mut self, record: &LeaderRecord, entry: Option<&Entry>) {
        let before = self.record.clone();
        let taken_over = record.term == before.term + 1 && record.seq == before.seq && entry.is_none();
        let goes_on = record.term == before.term
            && record.replica == before.replica
            && record.seq == before.seq + u64::from(entry.is_some())
            && entry.is_none_or(|entry| entry.term == record.term);
        if !taken_over && !goes_on {
            self.violation(format!("I1: {record:?} (with an entry: {}) follows {before:?}", entry.is_some()));
        }
        if record.clock < before.clock && before.term > 0 {
            self.violation(format!("I6: the cluster clock went from {} to {}", before.clock, record.clock));
        }
        let truth = self.machines[&record.machine].truth(record.machine_clock);
        let offset = record.clock - truth;
        if taken_over && before.term > 0 {
            *self.counts.entry("takeovers").or_default() += 1;
            // The clock of the previous leader has advanced since its record.
            let last = self.machines[&before.machine].truth(before.machine_clock);
            let drift = (truth - last) / 1_000_000 * (2 * MOST_DRIFT) + 2_000_000_000 / 1_000_000 * (2 * MOST_DRIFT);
            let jump = offset - self.offset;
            // What the replica receives while etcd writes the record comes too late.
            let error = self.heard.get(&record.replica).and_then(|error| error(before.term, record.machine_clock));
            let exact = (record.machine == before.machine).then_some(0);
            if let Some(error) = exact.or(error)
                && jump.abs() > error + drift + GRAIN
            {
                self.violation(format!("I6: a takeover moves the clock by {jump} ns, and may by {error} + {drift}"));
            }
            self.jumped += jump.abs();
            self.back += (-jump).max(0);
            if record.machine != before.machine && error.is_none() {
                *self.counts.entry("takeovers by the wall clock").or_default() += 1;
            }
            self.line(format!("term {} begins, its clock {} us away", record.term, jump / 1_000));
        }
        self.offset = offset;
    }
}
