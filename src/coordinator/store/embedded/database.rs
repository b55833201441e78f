//! The database behind the journal (redb): everything that was committed up to some entry of the journal.
//!
//! Four tables: properties of the store; threads by id; open elicitations by row number; remembered calls of the last
//! 10 minutes by row number. Row numbers rise, so short-lived rows stay together at the end of their table.
use super::disk::{Disk, Health, ReservedSpaceFile, is_no_space};
use super::file_names::DATABASE;
use super::journal::ReadError;
use super::segments;
use crate::coordinator::store::contents::RecordBuilder;
use crate::coordinator::store::ops::{Changes, FLOOR_KEY, Table};
use crate::coordinator::store::rows::RowCodec;
use crate::coordinator::store::{Contents, OpenError, new_epoch};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend, StorageError, TableDefinition};
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const THREADS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("threads");
const ELICITATIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("elicitations");
const MEMORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("memory");

const FORMAT_KEY: &str = "pausewatch format";
/// The number of the last journal entry that was applied.
const APPLIED_KEY: &str = "journal applied";
/// The seed of the journal's checksums.
const SEED_KEY: &str = "journal seed";
/// The epoch of the store: see [`Contents::epoch`].
const EPOCH_KEY: &str = "store epoch";
/// The format that this version writes, and the latest that it reads.
pub const FORMAT: u64 = 1;
/// The cache of redb: the records are in the coordinator's memory too, so the cache serves writes only.
const CACHE_BYTES: usize = 32 << 20;

/// An open database.
pub(super) struct Database {
    database: redb::Database,
    /// The number of the last journal entry that was applied when it was opened.
    pub(super) applied: u64,
    /// The seed of the journal's checksums.
    pub(super) seed: u64,
}

/// Why the database was not opened.
pub(super) struct OpenFailure {
    pub(super) error: OpenError,
    /// The disk has no space for the writes that opening the database needs.
    pub(super) no_space: bool,
}

impl From<OpenError> for OpenFailure {
    fn from(error: OpenError) -> Self {
        OpenFailure { error, no_space: false }
    }
}

/// Why changes were not applied.
pub(super) enum ApplyError {
    /// There is no space, even with the reserve; the database must be reopened.
    NoSpace,
    /// The database cannot be trusted any more.
    Broken(String),
}

impl Database {
    /// Opens the database, or creates it if there is none, and checks the checksum of every page.
    pub(super) fn open(disk: &Arc<dyn Disk>, health: &Arc<Health>, name: &str) -> Result<Self, OpenFailure> {
        caught(|| Self::try_open(disk, health, name)).unwrap_or_else(|panic| Err(damaged(name, &panic).into()))
    }

    fn try_open(disk: &Arc<dyn Disk>, health: &Arc<Health>, name: &str) -> Result<Self, OpenFailure> {
        let io = |error: io::Error| OpenFailure {
            no_space: is_no_space(&error),
            error: OpenError::Io(format!("open {name}/{DATABASE}: {error}")),
        };
        if !disk.has_database().map_err(io)? {
            Self::make(disk, health, name)?;
        }
        let file = disk.database().map_err(io)?;
        if file.len().map_err(io)? == 0 {
            // redb would create a new database in the empty file.
            return Err(damaged(name, "the database is empty").into());
        }
        let mut database = Self::on(file, disk, health, name)?;
        database.read_format(name)?;
        database.add_epoch().map_err(|error| match error {
            redb::Error::Io(error) => io(error),
            error => damaged(name, &error).into(),
        })?;
        Ok(database)
    }

    /// Creates a database, atomically. Its journal is created first. So if there is a database, and a file of the
    /// journal is missing, that file was lost.
    fn make(disk: &Arc<dyn Disk>, health: &Arc<Health>, name: &str) -> Result<(), OpenFailure> {
        let failed = |error: io::Error| OpenFailure {
            no_space: is_no_space(&error),
            error: OpenError::Io(format!("make a store in {name}: {error}")),
        };
        segments::make(&**disk).map_err(failed)?;
        if !segments::are_blank(&**disk).map_err(failed)? {
            return Err(damaged(name, "there is a journal, and the database is gone").into());
        }
        let mut database = Self::on(disk.draft().map_err(failed)?, disk, health, name)?;
        database.write_format().map_err(|error| match error {
            redb::Error::Io(error) => failed(error),
            error => failed(io::Error::other(error)),
        })?;
        drop(database);
        disk.adopt_draft().map_err(failed)
    }

    fn on(
        file: Box<dyn StorageBackend>,
        disk: &Arc<dyn Disk>,
        health: &Arc<Health>,
        name: &str,
    ) -> Result<Self, OpenFailure> {
        let guarded = ReservedSpaceFile { file, disk: disk.clone(), health: health.clone() };
        let mut builder = redb::Database::builder();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let database = builder.create_with_backend(guarded).map_err(|error| match error {
            redb::DatabaseError::Storage(StorageError::Io(cause))
                if !matches!(cause.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                OpenFailure {
                    no_space: is_no_space(&cause),
                    error: OpenError::Io(format!("open {name}/{DATABASE}: {cause}")),
                }
            }
            error => damaged(name, &error).into(),
        })?;
        Ok(Database { database, applied: 0, seed: 0 })
    }

    fn read_format(&mut self, name: &str) -> Result<(), OpenError> {
        let read = || -> Result<_, redb::Error> {
            let transaction = self.database.begin_read()?;
            let meta = match transaction.open_table(META) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok((None, None, None)),
                meta => meta?,
            };
            let number = |key| meta.get(key).map(|number| number.map(|number| number.value()));
            Ok((number(FORMAT_KEY)?, number(APPLIED_KEY)?, number(SEED_KEY)?))
        };
        match read().map_err(|error| damaged(name, &error))? {
            (Some(FORMAT), applied, Some(seed)) => {
                (self.applied, self.seed) = (applied.unwrap_or(0), seed);
                Ok(())
            }
            (Some(later), ..) if later > FORMAT => Err(OpenError::Newer(format!(
                "{name}/{DATABASE}: written by a later pausewatch (format {later}, this one reads up to {FORMAT}). Run that \
                 version, or give another --data-dir: a newer store cannot be taken back"
            ))),
            _ => Err(damaged(name, "a redb database of another program")),
        }
    }

    fn write_format(&mut self) -> Result<(), redb::Error> {
        self.seed = getrandom::u64().map_err(io::Error::other)?;
        let transaction = self.database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert(FORMAT_KEY, FORMAT)?;
            meta.insert(SEED_KEY, self.seed)?;
            meta.insert(EPOCH_KEY, new_epoch()?)?;
        }
        transaction.open_table(THREADS)?;
        transaction.open_table(ELICITATIONS)?;
        transaction.open_table(MEMORY)?;
        Ok(transaction.commit()?)
    }

    /// Adds the epoch to a store of an earlier version.
    fn add_epoch(&self) -> Result<(), redb::Error> {
        if self.database.begin_read()?.open_table(META)?.get(EPOCH_KEY)?.is_some() {
            return Ok(());
        }
        let transaction = self.database.begin_write()?;
        transaction.open_table(META)?.insert(EPOCH_KEY, new_epoch()?)?;
        Ok(transaction.commit()?)
    }

    /// Applies the journal up to entry `applied`, durably.
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
    pub(super) fn read(&self, codec: RowCodec, name: &str) -> Result<Contents, OpenError> {
        let read = caught(|| self.read_rows(codec).map_err(|error| damaged(name, &*error)));
        read.unwrap_or_else(|panic| Err(damaged(name, &panic)))
    }

    fn read_rows(&self, codec: RowCodec) -> Result<Contents, Box<dyn Error>> {
        let transaction = self.database.begin_read()?;
        let threads = transaction.open_table(THREADS)?;
        let mut builder = RecordBuilder::new(codec, usize::try_from(threads.len()?)?);
        for row in threads.iter()? {
            let (thread, value) = row?;
            builder.add(Table::Threads, thread.value().as_bytes(), value.value())?;
        }
        for (table, definition) in [(Table::Elicitations, ELICITATIONS), (Table::Memory, MEMORY)] {
            for row in transaction.open_table(definition)?.iter()? {
                let (number, value) = row?;
                builder.add(table, &number.value().to_be_bytes(), value.value())?;
            }
        }
        let (records, next_row) = builder.finish()?;
        let meta = transaction.open_table(META)?;
        let floor = meta.get(FLOOR_KEY)?.map_or(0, |floor| floor.value());
        let epoch = meta.get(EPOCH_KEY)?.ok_or("the store has no epoch")?.value();
        Ok(Contents { records, floor, next_row, epoch })
    }
}

/// A snapshot of the database.
pub(super) struct View {
    transaction: redb::ReadTransaction,
    /// The number of the last journal entry that was applied.
    pub(super) applied: u64,
}

/// Receives a row: its table, key and value.
type PutRow<'a> = dyn FnMut(Table, &[u8], &[u8]) -> io::Result<()> + 'a;

impl Database {
    /// The committed rows.
    pub(super) fn view(&self, name: &str) -> Result<View, OpenError> {
        let view = || -> Result<View, redb::Error> {
            let transaction = self.database.begin_read()?;
            let applied = transaction.open_table(META)?.get(APPLIED_KEY)?.map_or(0, |applied| applied.value());
            Ok(View { transaction, applied })
        };
        view().map_err(|error| damaged(name, &error))
    }
}

impl View {
    /// All rows with `changes` applied, in the order of tables and keys. Rows that only this store needs are left out.
    pub(super) fn merged(&self, changes: &Changes<'_>, put: &mut PutRow<'_>) -> io::Result<()> {
        let failed = |error: redb::Error| io::Error::other(error.to_string());
        let floor = changes.get(&(Table::Meta, FLOOR_KEY.as_bytes())).copied().flatten().map(<[u8]>::to_vec);
        let stored = || -> Result<_, redb::Error> {
            let meta = self.transaction.open_table(META)?;
            Ok(meta.get(FLOOR_KEY)?.map(|floor| floor.value().to_be_bytes().to_vec()))
        };
        if let Some(floor) = floor.map_or_else(stored, |floor| Ok(Some(floor))).map_err(failed)? {
            put(Table::Meta, FLOOR_KEY.as_bytes(), &floor)?;
        }
        let open = |error: redb::TableError| failed(error.into());
        let threads = self.transaction.open_table(THREADS).map_err(open)?;
        let rows = threads.iter().map_err(|error| failed(error.into()))?;
        let rows = rows.map(|row| row.map(|(key, value)| (key.value().as_bytes().to_vec(), value.value().to_vec())));
        merge(Table::Threads, rows, changes, put)?;
        for (table, definition) in [(Table::Elicitations, ELICITATIONS), (Table::Memory, MEMORY)] {
            let opened = self.transaction.open_table(definition).map_err(open)?;
            let rows = opened.iter().map_err(|error| failed(error.into()))?;
            let rows =
                rows.map(|row| row.map(|(key, value)| (key.value().to_be_bytes().to_vec(), value.value().to_vec())));
            merge(table, rows, changes, put)?;
        }
        Ok(())
    }
}

/// The rows of one table with `changes` applied. Both are sorted by key.
fn merge(
    table: Table,
    rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
    changes: &Changes<'_>,
    put: &mut PutRow<'_>,
) -> io::Result<()> {
    let mut changed =
        changes.iter().filter(|((of, _), _)| *of == table).map(|((_, key), value)| (*key, *value)).peekable();
    for row in rows {
        let (key, value) = row.map_err(|error| io::Error::other(error.to_string()))?;
        while let Some((new, value)) = changed.next_if(|(changed, _)| *changed < &key[..]) {
            value.map_or(Ok(()), |value| put(table, new, value))?;
        }
        match changed.next_if(|(changed, _)| *changed == &key[..]) {
            Some((_, Some(value))) => put(table, &key, value)?,
            Some((_, None)) => {}
            None => put(table, &key, &value)?,
        }
    }
    changed.try_for_each(|(key, value)| value.map_or(Ok(()), |value| put(table, key, value)))
}

/// Runs `work`, in which redb may panic on damaged data. The error is the panic message.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // A database in an inconsistent state is not used again: it is closed.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
        text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "a panic".into())
    })
}

impl ReadError {
    /// Converts this to an error of opening the store `name`.
    pub(super) fn into_open_error(self, name: &str) -> OpenError {
        match self {
            ReadError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged(name, &error),
            ReadError::Io(error) => OpenError::Io(format!("read the journal in {name}: {error}")),
            ReadError::Damaged(why) => damaged(name, &why),
        }
    }
}

/// The error for damaged data.
pub(super) fn damaged(name: &str, error: &(impl Display + ?Sized)) -> OpenError {
    OpenError::Corrupt(format!(
        "{name}: {error}. The store is damaged or not of pausewatch, and was left as it is. Restore a backup (`pausewatch restore`) \
         or a copy of the directory, or move it away to start with nothing: every thread then runs, at count 0"
    ))
}
