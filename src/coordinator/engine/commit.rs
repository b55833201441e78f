//! Commits or reverts the decided changes.
use super::Engine;
use super::long_leases::{LongLeases, is_long};
use super::staged::{Staged, outlives};
use crate::coordinator::hub::{Committed, Event};
use crate::coordinator::metrics::Metrics;
use crate::coordinator::observer::Changed;
use crate::coordinator::store::{CommitError, Write};
use crate::core::{Change, Effect, PauseEnd, Timestamp};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Engine {
    /// Stores the staged changes, and deletes forgotten threads and rows. `answers`: callers wait for answers; then the
    /// store must confirm that it is still ours, even if there is nothing to store.
    pub(super) fn commit(&mut self, answers: bool) -> Result<(), CommitError> {
        let leases = self.long_leases.as_ref();
        let changed = |staged: &Staged| is_stored(leases, &staged.change);
        let moved = leases.is_some_and(LongLeases::have_moved);
        let to_forget = self.forgotten.len() + self.forgotten_rows.len();
        if !self.store.keeps() || !(self.store_failing || moved || to_forget > 0 || self.staged.iter().any(changed)) {
            self.forgotten_rows.clear();
            return if answers { self.store.confirm() } else { Ok(()) };
        }
        let mut writes = Vec::with_capacity(3 * self.staged.len() + to_forget + 1);
        // Deletions come first, because a staged change may create a forgotten thread again.
        writes.extend(self.forgotten.iter().map(|forgotten| Write::DeleteThread(&forgotten.thread)));
        for (i, staged) in self.staged.iter().enumerate().filter(|(_, staged)| changed(staged)) {
            let Staged { thread, change, .. } = staged;
            match &change.effect {
                // Skipped if a later staged change has closed the elicitation.
                Effect::Renewed { id, .. } => {
                    let record = self.records.get(thread);
                    let open = record.and_then(|record| record.position(*id).map(|index| &record.open[index]));
                    writes.extend(open.map(|open| Write::PutElicitation(thread, open)));
                }
                Effect::Opened(open) => writes.push(Write::PutElicitation(thread, open)),
                Effect::Closed { open, closing, .. } => {
                    writes.push(Write::DeleteElicitation(open.row));
                    writes.push(Write::PutClosing(thread, closing));
                }
            }
            writes.extend(change.request.as_ref().map(|request| Write::PutRequest(thread, request)));
            // Only the last header of a thread counts; its changes in a batch are usually adjacent.
            if !self.staged.get(i + 1).is_some_and(|next| next.thread == *thread && changed(next)) {
                writes.push(Write::PutThread(thread, &change.after));
            }
        }
        if moved {
            let open = self.records.values().flat_map(|record| record.open.iter().map(|open| (&record.thread, open)));
            let long = open.filter(|(_, open)| is_long(open.lease));
            writes.extend(long.map(|(thread, open)| Write::PutElicitation(thread, open)));
        }
        writes.extend(self.forgotten_rows.iter().map(|&row| Write::DeleteMemory(row)));
        if !self.forgotten.is_empty() {
            writes.push(Write::PutFloor(self.floor));
        }
        // If this fails, the deletions are repeated with the next batch.
        let before = self.clock.awake();
        self.store.commit(&writes)?;
        let after = self.clock.awake();
        self.metrics.commit.observe_time(after.saturating_sub(before));
        let began = Duration::from_nanos(self.fsync_began.swap(0, Relaxed));
        if !began.is_zero() {
            self.metrics.fsync.observe_time(after.saturating_sub(began));
        }
        self.metrics.batch.observe(self.staged.len() as u64);
        self.forgotten_rows.clear();
        self.long_leases.iter_mut().filter(|_| moved).for_each(LongLeases::stored_all);
        Ok(())
    }

    /// Completes the staged changes, which are durable or need not be, and appends them to `committed`. `stored`: the
    /// store was written.
    pub(super) fn settle(&mut self, now: Timestamp, stored: bool, committed: &mut Vec<Committed>) {
        self.made.clear();
        for Staged { thread, change, by } in self.staged.drain(..) {
            count(&self.metrics, &change, now);
            let stored = stored && is_stored(self.long_leases.as_ref(), &change);
            self.long_leases.iter_mut().for_each(|leases| leases.settle(&change.effect, stored));
            if let Some(witness) = &mut self.settings.witness {
                witness.changed(&Changed { now, thread: &thread, change: &change, by: by.as_deref() });
            }
            let event = match change.effect {
                Effect::Opened(open) => {
                    self.leases.set(&thread, open.elicitation.id, None, open.ends());
                    let ends = open.ends();
                    Event::Opened(open.elicitation, ends)
                }
                Effect::Closed { open, closing, .. } => {
                    // `open` is from the time of the closing, after any renewal of the same batch has moved its end.
                    self.leases.set(&thread, closing.id, open.ends(), None);
                    self.quotas.close(closing.id);
                    Event::Closed(closing.id, closing.how)
                }
                Effect::Renewed { id, before, after, .. } => {
                    let ends = |lease: Option<(Duration, Timestamp)>| lease.map(|(_, ends)| ends);
                    self.leases.set(&thread, id, ends(before), ends(after));
                    Event::Renewed(id, ends(after))
                }
            };
            if let Some(record) = self.records.get_mut(&thread) {
                let rows = &mut self.forgotten_rows;
                record.memory.forget(now, |row| rows.push(row));
            }
            committed.push(Committed { thread, header: change.after, event });
        }
    }

    /// Reverts the staged changes, latest first, and drops the records that were created for them.
    pub(super) fn take_back(&mut self) {
        while let Some(Staged { thread, change, .. }) = self.staged.pop() {
            if let Effect::Opened(open) = &change.effect {
                self.quotas.close(open.elicitation.id);
            }
            if let Some(record) = self.records.get_mut(&thread) {
                record.revert(&change);
            }
        }
        for thread in self.made.drain(..) {
            self.quotas.forget(&thread);
            self.records.remove(&thread);
        }
    }
}

/// Whether a change is written when it is committed.
fn is_stored(leases: Option<&LongLeases>, change: &Change) -> bool {
    outlives(change) || leases.is_some_and(|leases| leases.is_due(&change.effect))
}

/// Counts a change that is committed.
fn count(metrics: &Metrics, change: &Change, now: Timestamp) {
    match &change.effect {
        Effect::Opened(_) => metrics.opened.add_one(),
        Effect::Closed { closing, .. } => {
            match closing.how {
                PauseEnd::Decremented | PauseEnd::Released => metrics.released.add_one(),
                PauseEnd::Expired => metrics.expired.add_one(),
                PauseEnd::MaxPause => metrics.capped.add_one(),
            }
            if let (Some(since), None) = (change.before.pause.since, change.after.pause.since) {
                metrics.pauses.observe_time(now.since(since));
            }
        }
        Effect::Renewed { .. } => {}
    }
}
