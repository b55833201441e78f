//! The changes that a restore makes to the rows of a backup, because a restored store begins a new history.
//!
//! - R3: revisions continue above every revision of this store that a client can have seen, including those after the
//!   backup, because clients ignore older revisions (G6). They begin at the time of the restore in seconds, times 2^20:
//!   no server makes a million changes of a thread per second, so no earlier history of the store has reached that
//!   number.
//! - R4: the store gets a new epoch. A client cannot know which part of the backup's paused totals it has seen already.
//!   So pauses that had ended at the backup no longer count; an open pause counts from its start.
use super::ops::{Changes, FLOOR_KEY, Table};
use super::rows::ThreadRow;
use crate::core::Timestamp;
use prost::Message;

/// More changes than one thread can have in a second.
const REVISIONS_A_SECOND: u64 = 1 << 20;
const NANOS_A_SECOND: i64 = 1_000_000_000;

/// The rows that a restore changes: those of all threads, and the floor. All of them get the same revision.
pub(super) struct RestoredRows {
    threads: Vec<(Vec<u8>, Vec<u8>)>,
    /// The revision that every thread has now.
    pub(super) revision: u64,
    floor: [u8; 8],
}

impl RestoredRows {
    /// The changed rows for a restore at `now` of a backup with the rows `changes`. `None`: a row is invalid.
    pub(super) fn of(changes: &Changes<'_>, now: Timestamp) -> Option<Self> {
        let mut threads = Vec::new();
        let floor = changes.get(&(Table::Meta, FLOOR_KEY.as_bytes())).copied().flatten();
        let mut highest = floor.map_or(Some(0), |floor| floor.try_into().ok().map(u64::from_be_bytes))?;
        for ((_, thread), row) in changes.iter().filter(|((table, _), _)| *table == Table::Threads) {
            let row = ThreadRow::decode((*row)?).ok()?;
            highest = highest.max(row.revision());
            threads.push((thread.to_vec(), row));
        }
        let seconds = u64::try_from(now.wall / NANOS_A_SECOND).unwrap_or(0);
        let revision = seconds.saturating_mul(REVISIONS_A_SECOND).max(highest.saturating_add(1));
        let threads =
            threads.into_iter().map(|(thread, row)| (thread, row.begin_epoch(revision).encode_to_vec())).collect();
        Some(RestoredRows { threads, revision, floor: revision.to_be_bytes() })
    }

    /// Replaces these rows in `changes`, the rows of the backup.
    pub(super) fn put<'a>(&'a self, changes: &mut Changes<'a>) {
        for (thread, row) in &self.threads {
            changes.insert((Table::Threads, thread), Some(row));
        }
        changes.insert((Table::Meta, FLOOR_KEY.as_bytes()), Some(&self.floor));
    }
}
