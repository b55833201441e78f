//! A backup as the log of a new fleet.
//!
//! Everything becomes log entries, nothing becomes rows: an entry holds thousands of rows, a transaction only 126; and
//! remembered calls are stored only in the log (L2). The first leader moves everything else into rows, as with any log.
//!
//! - I1: the entries can be applied in any order, because no two have a row in common.
//! - I2: the clock of the new fleet begins as that of the machine on which it is restored. Moments of another clock are
//!   converted by the wall clock, as for a store of an earlier boot. Every lease restarts.
use super::record::Entry;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::backup_content::{BackupContent, invalid};
use crate::coordinator::store::embedded::Summary;
use crate::coordinator::store::ops::{self, Table};
use crate::coordinator::store::restored_rows::RestoredRows;
use crate::coordinator::store::rows::{ElicitationRow, MemoryRow, Remembered, RowCodec, ThreadRow};
use crate::core::Timestamp;
use crate::core::types::ThreadId;
use prost::Message;
use std::io::Read;

/// The content that a restore writes.
#[derive(Debug)]
pub(crate) struct Image {
    /// The content of the backup.
    pub(crate) summary: Summary,
    /// The revision that every thread has then.
    pub(crate) revision: u64,
    /// The log, from its first entry on.
    pub(super) entries: Vec<Entry>,
}

impl Image {
    /// Reads a backup to its end and checks it. `boot_id` and `now`: of the clock with which the fleet begins; `fleet`:
    /// its id; `most`: the maximum of an entry in bytes.
    ///
    /// # Errors
    /// It is not a backup, or it is incomplete, damaged or of a later version.
    pub(super) fn read(
        backup: &mut dyn Read,
        (boot_id, now): (u64, Timestamp),
        fleet: u64,
        most: usize,
    ) -> Result<Self, OpenError> {
        let content = BackupContent::read(backup)?;
        let mut changes = content.rows()?;
        let wrong_row = || invalid("a row cannot be read");
        let restored = RestoredRows::of(&changes, now).ok_or_else(wrong_row)?;
        restored.put(&mut changes);
        let (here, there) = (RowCodec { boot_id, now }, RowCodec { boot_id: fleet, now });
        content.check(&changes, here)?;
        let mut entries = Vec::new();
        let mut batch = Vec::new();
        let end = |batch: &mut Vec<u8>, entries: &mut Vec<Entry>| {
            let ops = std::mem::take(batch);
            entries.push(Entry { term: 0, clock: now.boot, more: false, ops });
        };
        for ((table, key), value) in &changes {
            let value = value.and_then(|value| transcribed((here, there), *table, key, value)).ok_or_else(wrong_row)?;
            let before = batch.len();
            ops::put_row(*table, key, &value, &mut batch);
            if batch.len() > most && before > 0 {
                let row = batch.split_off(before);
                end(&mut batch, &mut entries);
                batch = row;
            }
        }
        if !batch.is_empty() {
            end(&mut batch, &mut entries);
        }
        Ok(Image { summary: content.summary, revision: restored.revision, entries })
    }
}

/// A row in the form of the new fleet. `None`: it is invalid.
fn transcribed((here, there): (RowCodec, RowCodec), table: Table, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let number = || key.try_into().ok().map(u64::from_be_bytes);
    let mut row = Vec::with_capacity(value.len() + 32);
    match table {
        Table::Meta => row.extend_from_slice(value),
        Table::Threads => there.put_thread(&here.header(&ThreadRow::decode(value).ok()?), &mut row),
        Table::Elicitations => {
            let stored = ElicitationRow::decode(value).ok()?;
            let thread = ThreadId::parse("thread", &stored.thread).ok()?;
            there.put_elicitation(&thread, &here.open(number()?, stored)?, &mut row);
        }
        Table::Memory => {
            let stored = MemoryRow::decode(value).ok()?;
            let thread = ThreadId::parse("thread", &stored.thread).ok()?;
            match here.remembered(number()?, stored)? {
                Remembered::Closing(closing) => there.put_closing(&thread, &closing, &mut row),
                Remembered::Request(request) => there.put_request(&thread, &request, &mut row),
            }
        }
    }
    Some(row)
}
