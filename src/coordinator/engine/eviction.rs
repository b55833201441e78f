//! Forgets threads that have been idle for a day, a few at a time.
use super::Engine;
use crate::coordinator::hub::{Committed, Event};
use crate::core::Timestamp;
use std::time::Duration;

/// Idle for this long, a thread is forgotten.
pub const IDLE_SPAN: Duration = Duration::from_secs(24 * 60 * 60);
/// How often all records are searched for threads to forget.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of threads and rows that one batch forgets, so that it delays no call.
const SWEEP_AT_MOST: usize = 2_000;

impl Engine {
    /// Searches the records for idle threads and for outdated request ids and closings, and forgets them.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let (rows, floor, forgotten) = (&mut self.forgotten_rows, &mut self.floor, &mut self.forgotten);
        let quotas = &mut self.quotas;
        let limit = rows.len() + forgotten.len() + SWEEP_AT_MOST;
        self.records.retain(|record| {
            if rows.len() + forgotten.len() >= limit {
                return true;
            }
            record.memory.forget(now, |row| rows.push(row));
            let idle = record.open.is_empty() && now.since(record.header.changed) >= IDLE_SPAN;
            if idle && record.memory.is_empty() {
                quotas.forget(&record.thread);
                *floor = record.header.revision.max(*floor);
                let event = Event::Forgotten;
                forgotten.push(Committed { thread: record.thread.clone(), header: record.header, event });
                return false;
            }
            true
        });
        let more = rows.len() + forgotten.len() >= limit;
        let next = if more { Duration::from_millis(10) } else { SWEEP_EVERY };
        self.next_sweep = now.after(next).boot;
    }
}
