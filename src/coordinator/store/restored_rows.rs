//! The changes that a restore makes to the rows of a backup, because the history of the store does not go on.
//!
//! - R3: revisions go on above all that any client can have seen of this store, also of the time after the backup: clients
//!   ignore what is older than what they know (G6). They begin at the second of the restore, times 2^20: no server makes a
//!   million changes of a thread in a second, so that no earlier life of the store has come as far.
//! - R4: it is a new epoch: the store is a new one, so it draws its own. A client cannot know which part of the backup's paused
//!   totals it has seen already. So what had ended by the backup does not count any more; a pause that is open does, from its
//!   start.
use super::ops::{Changes, FLOOR_KEY, Table};
use super::rows::ThreadRow;
use crate::core::Timestamp;
use prost::Message;

/// More changes than one thread can have in a second.
const REVISIONS_A_SECOND: u64 = 1 << 20;
const NANOS_A_SECOND: i64 = 1_000_000_000;

/// The rows that restoring changes: all threads, and the floor, at one revision.
pub(super) struct RestoredRows {
    threads: Vec<(Vec<u8>, Vec<u8>)>,
    /// The revision that every thread has now.
    pub(super) revision: u64,
    floor: [u8; 8],
}

impl RestoredRows {
    /// For a restore at `now` of a backup with these rows. `None`: a row makes no sense.
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

    /// Replaces the rows of the backup.
    pub(super) fn put<'a>(&'a self, changes: &mut Changes<'a>) {
        for (thread, row) in &self.threads {
            changes.insert((Table::Threads, thread), Some(row));
        }
        changes.insert((Table::Meta, FLOOR_KEY.as_bytes()), Some(&self.floor));
    }
}
