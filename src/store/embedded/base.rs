//! The database under the journal, through redb: all that was committed up to some entry of the journal.
//!
//! Four tables: what is said of the store as a whole; threads by id; open elicitations and what is remembered of the
//! last 10 minutes by row number. Row numbers rise, so that what comes and goes quickly stays together at the end of
//! its table.
use super::disk::{DATABASE, Disk, Guarded, Health, is_no_space};
use super::ops::{Changes, FLOOR_KEY, Table};
use super::rows::{ElicitationRow, MemoryRow, Remembered, Stamper, ThreadRow};
use crate::core::Record;
use crate::core::types::ThreadId;
use crate::store::{Contents, OpenError};
use prost::Message;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition};
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const THREADS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("threads");
const ELICITATIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("elicitations");
const MEMORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("memory");

const FORMAT_KEY: &str = "pausewatch format";
/// The number of the last journal entry that is in here.
const APPLIED_KEY: &str = "journal applied";
/// The format that this version writes, and the latest that it reads.
pub const FORMAT: u64 = 1;
/// Pages that redb may keep in memory: the records are in the coordinator's memory too, so this serves writes only.
const CACHE_BYTES: usize = 32 << 20;

/// An open database.
pub(super) struct Base {
    database: Database,
}

/// Why the database did not take up changes.
pub(super) enum ApplyError {
    /// There is no space, even with the reserve; the database has to be opened anew.
    NoSpace,
    /// It cannot be trusted any more.
    Broken(String),
}

impl Base {
    /// Opens the database, checks the checksum of every page, and makes its tables if it is new. Returns with it the
    /// number of the last journal entry in it.
    pub(super) fn open(disk: &Arc<dyn Disk>, health: &Arc<Health>, name: &str) -> Result<(Self, u64), OpenError> {
        let io = |error: io::Error| OpenError::Io(format!("open {name}/{DATABASE}: {error}"));
        let file = disk.database().map_err(io)?;
        let guarded = Guarded { file, disk: disk.clone(), health: health.clone() };
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let database = builder.create_with_backend(guarded).map_err(|error| match error {
            redb::DatabaseError::Storage(StorageError::Io(cause))
                if !matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                io(cause)
            }
            error => damaged(name, &error),
        })?;
        let base = Base { database };
        let applied = base.check_format(name)?;
        Ok((base, applied))
    }

    fn check_format(&self, name: &str) -> Result<u64, OpenError> {
        let read = || -> Result<(Option<u64>, u64, usize), redb::Error> {
            let transaction = self.database.begin_read()?;
            let tables = transaction.list_tables()?.count();
            let meta = match transaction.open_table(META) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok((None, 0, tables)),
                meta => meta?,
            };
            let number = |key| meta.get(key).map(|number| number.map(|number| number.value()));
            Ok((number(FORMAT_KEY)?, number(APPLIED_KEY)?.unwrap_or(0), tables))
        };
        match read().map_err(|error| damaged(name, &error))? {
            (Some(FORMAT), applied, _) => Ok(applied),
            (Some(later), ..) if later > FORMAT => Err(OpenError::Newer(format!(
                "{name}/{DATABASE}: written by a later pausewatch (format {later}, this one reads up to {FORMAT}). Run that \
                 version, or give another --data-dir: a newer store cannot be taken back"
            ))),
            (None, _, 0) => self.write_format().map(|()| 0).map_err(|error| damaged(name, &error)),
            _ => Err(damaged(name, &"a redb database, but not of pausewatch")),
        }
    }

    fn write_format(&self) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
        transaction.open_table(THREADS)?;
        transaction.open_table(ELICITATIONS)?;
        transaction.open_table(MEMORY)?;
        Ok(transaction.commit()?)
    }

    /// Takes up what the journal has up to entry `applied`, durably.
    pub(super) fn apply(&self, changes: &Changes<'_>, applied: u64) -> Result<(), ApplyError> {
        self.write(changes, applied).map_err(|error| match error.downcast_ref::<redb::Error>() {
            Some(redb::Error::Io(cause)) if is_no_space(cause) => ApplyError::NoSpace,
            _ => ApplyError::Broken(error.to_string()),
        })
    }

    fn write(&self, changes: &Changes<'_>, applied: u64) -> Result<(), Box<dyn Error>> {
        let transaction = self.database.begin_write().map_err(redb::Error::from)?;
        self.write_rows(&transaction, changes, applied)?;
        Ok(transaction.commit().map_err(redb::Error::from)?)
    }

    fn write_rows(
        &self,
        transaction: &redb::WriteTransaction,
        changes: &Changes<'_>,
        applied: u64,
    ) -> Result<(), Box<dyn Error>> {
        let table = |error: redb::TableError| redb::Error::from(error);
        let storage = |error: StorageError| redb::Error::from(error);
        let mut meta = transaction.open_table(META).map_err(table)?;
        let mut threads = transaction.open_table(THREADS).map_err(table)?;
        let mut elicitations = transaction.open_table(ELICITATIONS).map_err(table)?;
        let mut memory = transaction.open_table(MEMORY).map_err(table)?;
        for (&(of, key), &value) in changes {
            let number = || key.try_into().map(u64::from_be_bytes);
            match (of, value) {
                (Table::Meta, Some(value)) => {
                    let value = u64::from_be_bytes(value.try_into()?);
                    meta.insert(std::str::from_utf8(key)?, value).map_err(storage)?;
                }
                (Table::Meta, None) => _ = meta.remove(std::str::from_utf8(key)?).map_err(storage)?,
                (Table::Threads, Some(row)) => _ = threads.insert(std::str::from_utf8(key)?, row).map_err(storage)?,
                (Table::Threads, None) => _ = threads.remove(std::str::from_utf8(key)?).map_err(storage)?,
                (Table::Elicitations, Some(row)) => _ = elicitations.insert(number()?, row).map_err(storage)?,
                (Table::Elicitations, None) => _ = elicitations.remove(number()?).map_err(storage)?,
                (Table::Memory, Some(row)) => _ = memory.insert(number()?, row).map_err(storage)?,
                (Table::Memory, None) => _ = memory.remove(number()?).map_err(storage)?,
            }
        }
        meta.insert(APPLIED_KEY, applied).map_err(storage)?;
        Ok(())
    }

    /// Reads everything.
    pub(super) fn read(&self, stamper: Stamper, name: &str) -> Result<Contents, OpenError> {
        self.read_rows(stamper).map_err(|error| damaged(name, &*error))
    }

    fn read_rows(&self, stamper: Stamper) -> Result<Contents, Box<dyn Error>> {
        let transaction = self.database.begin_read()?;
        let threads = transaction.open_table(THREADS)?;
        let mut records = Vec::with_capacity(usize::try_from(threads.len()?)?);
        for row in threads.iter()? {
            let (thread, value) = row?;
            let thread = ThreadId::parse("thread", thread.value())?;
            let mut record = Record::new(thread, 0, stamper.now);
            record.header = stamper.header(&ThreadRow::decode(value.value())?);
            records.push(record);
        }
        // They came in the order of their ids.
        let place = |records: &[Record], thread: &str| {
            records.binary_search_by(|record| record.thread.as_str().cmp(thread)).ok()
        };
        let mut next_row = 0;
        for row in transaction.open_table(ELICITATIONS)?.iter()? {
            let (number, value) = row?;
            next_row = next_row.max(number.value() + 1);
            let stored = ElicitationRow::decode(value.value())?;
            let place = place(&records, &stored.thread).ok_or("an elicitation of no thread")?;
            records[place].open.push(stamper.open(number.value(), stored).ok_or("an elicitation makes no sense")?);
        }
        for row in transaction.open_table(MEMORY)?.iter()? {
            let (number, value) = row?;
            next_row = next_row.max(number.value() + 1);
            let stored = MemoryRow::decode(value.value())?;
            let place = place(&records, &stored.thread).ok_or("a memory of no thread")?;
            match stamper.remembered(number.value(), stored).ok_or("a memory makes no sense")? {
                Remembered::Closing(closing) => records[place].memory.push_closing(closing),
                Remembered::Request(request) => records[place].memory.push_request(request),
            }
        }
        if records.iter().any(|record| record.header.pause.since.is_some() == record.open.is_empty()) {
            return Err("a thread is paused without elicitations, or the reverse".into());
        }
        let floor = transaction.open_table(META)?.get(FLOOR_KEY)?.map_or(0, |floor| floor.value());
        Ok(Contents { records, floor, next_row })
    }
}

/// What is read is not what was written.
pub(super) fn damaged(name: &str, error: &(impl Display + ?Sized)) -> OpenError {
    OpenError::Corrupt(format!(
        "{name}: {error}. The store is damaged or not of pausewatch, and was left as it is. Restore a copy of the directory, \
         or move it away to start with nothing: every thread then runs, at count 0"
    ))
}
