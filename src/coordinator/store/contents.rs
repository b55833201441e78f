//! Builds records from stored rows.
use super::ops::Table;
use super::rows::{ElicitationRow, MemoryRow, Remembered, RowCodec, ThreadRow};
use crate::core::Record;
use crate::core::types::ThreadId;
use prost::Message;
use std::error::Error;

/// The records that were built from the rows so far. Rows must be added in the order of [`Table`], and within a table
/// in the order of their keys.
pub(super) struct RecordBuilder {
    codec: RowCodec,
    records: Vec<Record>,
    next_row: u64,
}

impl RecordBuilder {
    pub(super) fn new(codec: RowCodec, threads: usize) -> Self {
        RecordBuilder { codec, records: Vec::with_capacity(threads), next_row: 0 }
    }

    /// Adds one row. Rows of [`Table::Meta`] belong to no record.
    ///
    /// # Errors
    /// The row cannot be read, or does not fit the others.
    pub(super) fn add(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Box<dyn Error>> {
        match table {
            Table::Meta => Ok(()),
            Table::Threads => {
                let thread = ThreadId::parse("thread", std::str::from_utf8(key)?)?;
                let mut record = Record::new(thread, 0, self.codec.now);
                record.header = self.codec.header(&ThreadRow::decode(value)?);
                self.records.push(record);
                Ok(())
            }
            Table::Elicitations => {
                let (number, stored) = (self.number(key)?, ElicitationRow::decode(value)?);
                let place = self.place(&stored.thread).ok_or("an elicitation of no thread")?;
                let open = self.codec.open(number, stored).ok_or("an elicitation is invalid")?;
                self.records[place].open.push(open);
                Ok(())
            }
            Table::Memory => {
                let (number, stored) = (self.number(key)?, MemoryRow::decode(value)?);
                let place = self.place(&stored.thread).ok_or("a memory of no thread")?;
                match self.codec.remembered(number, stored).ok_or("a remembered call is invalid")? {
                    Remembered::Closing(closing) => self.records[place].memory.push_closing(closing),
                    Remembered::Request(request) => self.records[place].memory.push_request(request),
                }
                Ok(())
            }
        }
    }

    /// The records, and the first row number above all that were added.
    ///
    /// # Errors
    /// A record contradicts itself.
    pub(super) fn finish(self) -> Result<(Vec<Record>, u64), Box<dyn Error>> {
        if self.records.iter().any(|record| record.header.pause.since.is_some() == record.open.is_empty()) {
            return Err("a thread is paused without elicitations, or not paused with some".into());
        }
        Ok((self.records, self.next_row))
    }

    fn number(&mut self, key: &[u8]) -> Result<u64, Box<dyn Error>> {
        let number = u64::from_be_bytes(key.try_into()?);
        self.next_row = self.next_row.max(number + 1);
        Ok(number)
    }

    fn place(&self, thread: &str) -> Option<usize> {
        // The records are sorted by thread id, because their rows were added in that order.
        self.records.binary_search_by(|record| record.thread.as_str().cmp(thread)).ok()
    }
}
