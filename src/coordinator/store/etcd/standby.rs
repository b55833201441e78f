//! The records of a fleet after the log entries so far: what a follower shows to watchers, and starts with after a
//! takeover.
//!
//! - B1: after entry `seq`, the records are those of the leader's engine when it had committed that entry, except the
//!   ends of leases, which only the leader knows: they are [`Timestamp::UNKNOWN`] until a takeover, which restarts
//!   every lease that is not long.
//! - B2: an entry is applied once, in the order of the numbers, and a batch as a whole.
//! - B3: after a takeover, a long lease ends at most a third of its length after its stored end, plus the time in which
//!   nobody led. It does not end earlier than it would have at the last leader, because the engine stores an end before
//!   it has moved by a third.
use super::record::Entry;
use crate::coordinator::hub::{Committed, Event};
use crate::coordinator::store::Contents;
use crate::coordinator::store::ops::{self, FLOOR_KEY, Table};
use crate::coordinator::store::rows::{ElicitationRow, MemoryRow, Remembered, RowCodec, ThreadRow};
use crate::core::types::ThreadId;
use crate::core::{Record, Timestamp};
use hashbrown::{HashMap, HashSet};
use prost::Message;
use std::time::Duration;

/// How often expired request ids are dropped (nanoseconds).
const SWEEP_EVERY: i64 = 60_000_000_000;

/// The records after the entry `seq`.
#[derive(Debug, Default)]
pub(crate) struct Standby {
    records: HashMap<ThreadId, Record>,
    /// The thread of each open elicitation, by the number of its row.
    rows: HashMap<u64, ThreadId>,
    /// The stored ends of long leases, by row number.
    ends: HashMap<u64, Timestamp>,
    /// The cluster clock in the last record of the last leader.
    pub(super) led_until: Option<i64>,
    pub(super) floor: u64,
    /// Above the number of every row that was ever seen.
    pub(super) next_row: u64,
    epoch: u64,
    /// The last entry that was applied.
    pub(super) seq: u64,
    /// The first parts of a batch whose last part has not arrived.
    begun: Option<Entry>,
    next_sweep: i64,
}

impl Standby {
    /// A standby with loaded contents, as of the entry `seq`. `begun`: the first parts of an incomplete batch at the
    /// end of the log.
    pub(super) fn new(contents: Contents, ends: HashMap<u64, Timestamp>, seq: u64, begun: Option<Entry>) -> Self {
        let Contents { records, floor, next_row, epoch } = contents;
        let open = records.iter().flat_map(|record| record.open.iter().map(|open| (open.row, record.thread.clone())));
        let rows = open.collect();
        let records = records.into_iter().map(|record| (record.thread.clone(), record)).collect();
        Standby { records, rows, ends, led_until: None, floor, next_row, epoch, seq, begun, next_sweep: 0 }
    }

    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.values()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Applies the next entry. Returns its changes, to be published.
    ///
    /// # Errors
    /// The entry is invalid.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<Vec<Committed>, &'static str> {
        self.seq += 1;
        let entry = whole(self.begun.take(), entry);
        if entry.more {
            self.begun = Some(entry);
            return Ok(Vec::new());
        }
        let changes = ops::decode([&entry.ops[..]]).ok_or("it is not a batch")?;
        let codec = codec(self.epoch);
        let (mut changed, mut committed) = (HashSet::new(), Vec::new());
        for ((table, key), value) in changes {
            self.change(codec, table, key, value, &mut changed).ok_or("it has an invalid row")?;
        }
        let now = Timestamp { boot: entry.clock, wall: 0 };
        for thread in changed {
            match self.records.get_mut(&thread) {
                Some(record) => {
                    record.memory.forget(now, |_| ());
                    if record.header.pause.since.is_some() == record.open.is_empty() {
                        return Err("a thread is paused without elicitations, or not paused with some");
                    }
                    committed.push(Committed::replaced(record));
                }
                None => {
                    let header = Record::new(thread.clone(), self.floor, now).header;
                    committed.push(Committed { thread, header, event: Event::Forgotten });
                }
            }
        }
        if entry.clock >= self.next_sweep {
            self.next_sweep = entry.clock.saturating_add(SWEEP_EVERY);
            self.records.values_mut().for_each(|record| record.memory.forget(now, |_| ()));
        }
        Ok(committed)
    }

    fn change(
        &mut self,
        codec: RowCodec,
        table: Table,
        key: &[u8],
        value: Option<&[u8]>,
        changed: &mut HashSet<ThreadId>,
    ) -> Option<()> {
        let thread_id = |text: &str| ThreadId::parse("", text).ok();
        match (table, value) {
            (Table::Meta, Some(value)) if key == FLOOR_KEY.as_bytes() => {
                self.floor = u64::from_be_bytes(value.try_into().ok()?);
            }
            (Table::Meta, _) => {}
            (Table::Threads, value) => {
                let thread = thread_id(std::str::from_utf8(key).ok()?)?;
                match value {
                    Some(value) => {
                        let header = codec.header(&ThreadRow::decode(value).ok()?);
                        let new = || Record::new(thread.clone(), 0, codec.now);
                        self.records.entry(thread.clone()).or_insert_with(new).header = header;
                    }
                    None => _ = self.records.remove(&thread),
                }
                changed.insert(thread);
            }
            (Table::Elicitations, Some(value)) => {
                let (row, stored) = (self.number(key)?, ElicitationRow::decode(value).ok()?);
                let thread = thread_id(&stored.thread)?;
                match codec.stored_end(&stored) {
                    Some(end) => _ = self.ends.insert(row, end),
                    None => _ = self.ends.remove(&row),
                }
                let open = codec.open(row, stored)?;
                let record = self.records.get_mut(&thread)?;
                match record.open.iter_mut().find(|known| known.row == row) {
                    Some(known) => *known = open,
                    None => record.open.push(open),
                }
                self.rows.insert(row, thread.clone());
                changed.insert(thread);
            }
            (Table::Elicitations, None) => {
                let row = self.number(key)?;
                self.ends.remove(&row);
                // An elicitation that was opened and closed in one batch has no row.
                if let Some(thread) = self.rows.remove(&row) {
                    let record = self.records.get_mut(&thread);
                    record.into_iter().for_each(|record| record.open.retain(|open| open.row != row));
                    changed.insert(thread);
                }
            }
            (Table::Memory, Some(value)) => {
                let (row, stored) = (self.number(key)?, MemoryRow::decode(value).ok()?);
                let record = self.records.get_mut(&thread_id(&stored.thread)?)?;
                match codec.remembered(row, stored)? {
                    Remembered::Closing(closing) => record.memory.push_closing(closing),
                    Remembered::Request(request) => record.memory.push_request(request),
                }
            }
            // It is dropped by its age, as at the leader.
            (Table::Memory, None) => _ = self.number(key)?,
        }
        Some(())
    }

    fn number(&mut self, key: &[u8]) -> Option<u64> {
        let number = u64::from_be_bytes(key.try_into().ok()?);
        self.next_row = self.next_row.max(number.saturating_add(1));
        Some(number)
    }

    /// The contents for the engine of a new leader: at `now` (cluster clock) every lease restarts, except long ones.
    pub(super) fn contents(self, now: Timestamp) -> Contents {
        let Standby { records, ends, led_until, floor, next_row, epoch, .. } = self;
        let gap = led_until.map_or(Duration::ZERO, |until| now.since(Timestamp { boot: until, wall: 0 }));
        let mut records: Vec<_> = records.into_values().collect();
        for open in records.iter_mut().flat_map(|record| &mut record.open) {
            open.lease = open.lease.map(|(length, _)| {
                let anew = now.after(length);
                let stored = ends.get(&open.row).map(|end| end.after(length / 3).after(gap));
                (length, stored.filter(|end| end.boot < anew.boot).unwrap_or(anew))
            });
        }
        Contents { records, floor, next_row, epoch }
    }
}

/// A codec that leaves moments as they are: all are of the cluster clock, and none is later than now.
pub(super) fn codec(epoch: u64) -> RowCodec {
    RowCodec { boot_id: epoch, now: Timestamp::UNKNOWN }
}

/// Appends `entry` to `begun`, the beginning of its batch. A beginning of another term is dropped: it was left by a
/// leader that was deposed in the middle of a batch.
pub(super) fn whole(begun: Option<Entry>, entry: Entry) -> Entry {
    match begun.filter(|begun| begun.term == entry.term) {
        Some(begun) => Entry { ops: [begun.ops, entry.ops].concat(), ..entry },
        None => entry,
    }
}
