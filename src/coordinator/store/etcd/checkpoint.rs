//! Moves the changes of log entries into rows, so that old entries can be deleted.
//!
//! - L1: at every step of a checkpoint, the rows followed by all kept log entries give the state after the last entry.
//!   Entries put and delete whole values, so applying an entry again, followed by all later ones, changes nothing.
//! - L2: an entry is kept until it is in the rows, and until the request ids in it are no longer remembered. Remembered
//!   calls are stored only in the log.
use super::record::{Applied, Keys};
use super::wire::RequestOp;
use crate::coordinator::store::ops::{self, Table};
use prost::Message;
use std::collections::{BTreeMap, VecDeque};

/// The final value of each changed key; `None`: it is deleted.
type Changes = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// The age of the oldest change at which a checkpoint begins: most elicitations are closed by then and never become a
/// row.
const AFTER: i64 = 5 * 60 * 1_000_000_000;
/// A checkpoint also begins when the log has this many bytes, whatever their age, because a takeover reads them.
const AFTER_BYTES: usize = 32 << 20;
/// How long entries are kept: request ids are remembered for 10 minutes, and clocks may differ a little.
const KEEP: i64 = (10 * 60 + 30) * 1_000_000_000;
/// How often old entries are deleted.
const CUT_EVERY: i64 = 60 * 1_000_000_000;
/// The maximum number of operations in a transaction: etcd's default limit is 128.
const MAX_OPERATIONS: usize = 126;
/// The maximum of rows in one transaction, in bytes; etcd refuses 1.5 MiB.
const MAX_BYTES: usize = 512 << 10;

/// The changes that are in the log and not in the rows.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    pending: Changes,
    /// Bytes of the entries that are pending.
    bytes: usize,
    /// The cluster clock at the first pending entry.
    since: Option<i64>,
    /// The changes that the running checkpoint has not written yet, and the last entry that it covers.
    writing: Option<(Changes, u64)>,
    /// The last entry that is in the rows.
    applied: u64,
    /// Number and time of each entry that is kept.
    log: VecDeque<(u64, i64)>,
    /// The rows contain no elicitation with this row number or a higher one.
    first_unwritten: u64,
    next_cut: i64,
}

impl Checkpoint {
    /// The state after a load. `applied`: the stored value. `first_unwritten`: above the row number of every
    /// elicitation in the rows.
    pub(super) fn new(applied: u64, first_unwritten: u64) -> Self {
        Checkpoint { applied, first_unwritten, ..Checkpoint::default() }
    }

    /// Records an entry that was committed, or read from the log.
    pub(super) fn entry(&mut self, seq: u64, clock: i64) {
        self.log.push_back((seq, clock));
    }

    /// Adds a batch whose last entry is `seq`.
    ///
    /// # Errors
    /// `batch` is not a batch.
    pub(super) fn add(&mut self, seq: u64, clock: i64, batch: &[u8]) -> Result<(), &'static str> {
        if seq <= self.applied {
            return Ok(());
        }
        let changes = ops::decode([batch]).ok_or("it is not a batch")?;
        self.bytes += batch.len();
        self.since.get_or_insert(clock);
        for ((table, key), value) in changes {
            match table {
                // Remembered calls are stored only in the log (L2).
                Table::Memory => {}
                Table::Elicitations if value.is_none() && number(key) >= self.first_unwritten => {
                    self.pending.remove(&(table, key.to_vec()));
                }
                Table::Meta | Table::Threads | Table::Elicitations => {
                    self.pending.insert((table, key.to_vec()), value.map(<[u8]>::to_vec));
                }
            }
        }
        Ok(())
    }

    /// Bytes of the log that are not part of a checkpoint yet.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether the next step should come soon.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The operations of the next transaction, if something is due at `now`; `last`: the last entry. Call it again when
    /// that transaction is done.
    pub(super) fn next(&mut self, keys: &Keys, last: u64, now: i64) -> Option<Vec<RequestOp>> {
        let is_old = self.since.is_some_and(|since| now.saturating_sub(since) >= AFTER);
        if self.writing.is_none() && (is_old || self.bytes >= AFTER_BYTES) {
            let pending = std::mem::take(&mut self.pending);
            let numbers =
                pending.keys().filter(|(table, _)| *table == Table::Elicitations).map(|(_, key)| number(key) + 1);
            self.first_unwritten = numbers.fold(self.first_unwritten, u64::max);
            (self.bytes, self.since, self.writing) = (0, None, Some((pending, last)));
        }
        if let Some((changes, through)) = &mut self.writing {
            let rows = take_some(changes, keys);
            if !rows.is_empty() {
                return Some(rows);
            }
            self.applied = *through;
            self.writing = None;
            return Some(vec![RequestOp::put(keys.applied(), Applied { seq: self.applied }.encode_to_vec())]);
        }
        if now < self.next_cut {
            return None;
        }
        self.next_cut = now.saturating_add(CUT_EVERY);
        let old = |&&(seq, clock): &&(u64, i64)| seq <= self.applied && now.saturating_sub(clock) >= KEEP;
        let cut = self.log.iter().take_while(old).count();
        let (last_cut, _) = self.log.drain(..cut).next_back()?;
        Some(vec![RequestOp::delete(keys.log(0), keys.log(last_cut + 1))])
    }
}

/// As many changes as a transaction takes.
fn take_some(changes: &mut Changes, keys: &Keys) -> Vec<RequestOp> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while rows.len() < MAX_OPERATIONS && bytes < MAX_BYTES {
        let Some(((table, key), value)) = changes.pop_first() else { break };
        let row = keys.row(table, &key);
        bytes += row.len() + value.as_ref().map_or(0, Vec::len);
        rows.push(match value {
            Some(value) => RequestOp::put(row, value),
            None => RequestOp::delete(row, Vec::new()),
        });
    }
    rows
}

/// The number of a row; 0 if the key is invalid.
fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}
