//! The default store: one file, through redb.
//!
//! A batch is one transaction and one fsync. Three tables: threads by id; open elicitations and what is remembered of
//! the last 10 minutes by row number. Row numbers rise, so that what comes and goes quickly stays together at the end
//! of its table, and a batch of many threads touches few pages.
use super::disk::{Disk, FileDisk, Guarded, Health, is_no_space};
use super::rows::{ElicitationRow, MemoryRow, Remembered, Stamper, ThreadRow};
use super::{CommitError, Contents, OpenError, Store, Write};
use crate::core::types::ThreadId;
use crate::core::{Moment, Record};
use hashbrown::HashMap;
use prost::Message;
use redb::{Database, ReadableDatabase, ReadableTable, StorageError, TableDefinition, WriteTransaction};
use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const THREADS: TableDefinition<&str, &[u8]> = TableDefinition::new("threads");
const ELICITATIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("elicitations");
const MEMORY: TableDefinition<u64, &[u8]> = TableDefinition::new("memory");

const FORMAT_KEY: &str = "pausewatch format";
const FLOOR_KEY: &str = "revision floor";
/// The format that this version writes, and the latest that it reads.
pub const FORMAT: u64 = 1;
/// Pages that redb may keep in memory: the records are in the coordinator's memory too, so this serves writes only.
const CACHE_BYTES: usize = 32 << 20;

/// A store in a directory.
pub struct Embedded {
    disk: Arc<dyn Disk>,
    health: Arc<Health>,
    /// `None` after a refused commit, until [`Store::recover`] has opened it anew.
    database: Option<Database>,
    boot_id: u64,
    name: String,
    _lock: Option<File>,
}

impl Embedded {
    /// Opens the store in `directory`, or makes one. `boot_id`: of the clock whose moments will be committed.
    ///
    /// # Errors
    /// Another process has it open; it is damaged, foreign or of a later version; or the file system refuses.
    pub fn open(directory: &Path, boot_id: u64) -> Result<Self, OpenError> {
        let shown = directory.display();
        let failed = |what: &str, error: io::Error| OpenError::Io(format!("{what} {shown}: {error}"));
        fs::create_dir_all(directory).map_err(|error| failed("create the data directory", error))?;
        let lock = lock(directory)?;
        let path = directory.join("pausewatch.redb");
        let name = path.display().to_string();
        if !path.try_exists().map_err(|error| failed("look into the data directory", error))? {
            create(directory, &path, boot_id)?;
        }
        let disk =
            FileDisk::open(&path, directory.join("reserve")).map_err(|error| failed("open the store in", error))?;
        let mut store = Self::on(Arc::new(disk), &name, boot_id)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// Opens the store on a disk of the caller's; `name` is for messages. Nothing keeps others from opening it too.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn on(disk: Arc<dyn Disk>, name: &str, boot_id: u64) -> Result<Self, OpenError> {
        let health = Arc::<Health>::default();
        let database = open_database(&disk, &health, name)?;
        let mut store = Embedded { disk, health, database: Some(database), boot_id, name: name.into(), _lock: None };
        store.check_format()?;
        if store.disk.restore_reserve().is_err() {
            store.health.full.store(true, Relaxed);
        }
        Ok(store)
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::PreviousIo)
    }

    fn check_format(&mut self) -> Result<(), OpenError> {
        let foreign =
            |why: &str| OpenError::Corrupt(format!("{}: {why}. Move it away, or give another --data-dir", self.name));
        let read = || -> Result<(Option<u64>, usize), redb::Error> {
            let transaction = self.database()?.begin_read()?;
            let tables = transaction.list_tables()?.count();
            let format = match transaction.open_table(META) {
                Ok(meta) => meta.get(FORMAT_KEY)?.map(|format| format.value()),
                Err(redb::TableError::TableDoesNotExist(_)) => None,
                Err(error) => return Err(error.into()),
            };
            Ok((format, tables))
        };
        match read().map_err(|error| corrupt(&self.name, &error))? {
            (Some(FORMAT), _) => Ok(()),
            (Some(later), _) if later > FORMAT => Err(OpenError::Newer(format!(
                "{}: written by a later pausewatch (format {later}, this one reads up to {FORMAT}). Run that version, or \
                 give another --data-dir; a newer store cannot be taken back",
                self.name
            ))),
            (None, 0) => self.write_format().map_err(|error| corrupt(&self.name, &error)),
            _ => Err(foreign("a redb database, but not of pausewatch")),
        }
    }

    fn write_format(&self) -> Result<(), redb::Error> {
        let transaction = self.database()?.begin_write()?;
        transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
        transaction.open_table(THREADS)?;
        transaction.open_table(ELICITATIONS)?;
        transaction.open_table(MEMORY)?;
        Ok(transaction.commit()?)
    }

    fn read_all(&self, stamper: Stamper) -> Result<Contents, Box<dyn Error>> {
        let transaction = self.database()?.begin_read()?;
        let mut records = Vec::new();
        let mut places = HashMap::new();
        for row in transaction.open_table(THREADS)?.iter()? {
            let (thread, value) = row?;
            let thread = ThreadId::parse("thread", thread.value()).map_err(|_| nonsense("a thread id"))?;
            let stored = ThreadRow::decode(value.value())?;
            let mut record = Record::new(thread.clone(), 0, stamper.now);
            record.header = stamper.header(&stored);
            places.insert(thread, records.len());
            records.push(record);
        }
        let mut next_row = 0;
        for row in transaction.open_table(ELICITATIONS)?.iter()? {
            let (number, value) = row?;
            next_row = next_row.max(number.value() + 1);
            let stored = ElicitationRow::decode(value.value())?;
            let place = *places.get(stored.thread.as_str()).ok_or_else(|| nonsense("an elicitation of no thread"))?;
            let open = stamper.open(number.value(), stored).ok_or_else(|| nonsense("an elicitation"))?;
            records[place].open.push(open);
        }
        for row in transaction.open_table(MEMORY)?.iter()? {
            let (number, value) = row?;
            next_row = next_row.max(number.value() + 1);
            let stored = MemoryRow::decode(value.value())?;
            let Some(&place) = places.get(stored.thread.as_str()) else {
                return Err(nonsense("a memory of no thread"));
            };
            match stamper.remembered(number.value(), stored).ok_or_else(|| nonsense("a memory"))? {
                Remembered::Closing(closing) => records[place].memory.push_closing(closing),
                Remembered::Request(request) => records[place].memory.push_request(request),
            }
        }
        if records.iter().any(|record| record.header.pause.since.is_some() == record.open.is_empty()) {
            return Err(nonsense("a pause without elicitations, or the reverse"));
        }
        let floor = transaction.open_table(META)?.get(FLOOR_KEY)?.map_or(0, |floor| floor.value());
        Ok(Contents { records, floor, next_row })
    }

    fn write_all(&mut self, batch: &[Write]) -> Result<(), redb::Error> {
        let transaction = self.database()?.begin_write()?;
        self.write_rows(&transaction, batch)?;
        Ok(transaction.commit()?)
    }

    fn write_rows(&self, transaction: &WriteTransaction, batch: &[Write]) -> Result<(), redb::Error> {
        // Moments are only written here, never put on another clock: what `now` is does not matter.
        let stamper = Stamper { boot_id: self.boot_id, now: Moment { boot: 0, wall: 0 } };
        let mut threads = transaction.open_table(THREADS)?;
        let mut elicitations = transaction.open_table(ELICITATIONS)?;
        let mut memory = transaction.open_table(MEMORY)?;
        for write in batch {
            match write {
                Write::PutThread(thread, header) => {
                    let row = stamper.thread_row(header);
                    threads.insert(thread.as_str(), row.encode_to_vec().as_slice())?;
                }
                Write::DeleteThread(thread) => _ = threads.remove(thread.as_str())?,
                Write::PutElicitation(thread, open) => {
                    let row = stamper.elicitation_row(thread, open);
                    elicitations.insert(open.row, row.encode_to_vec().as_slice())?;
                }
                Write::DeleteElicitation(row) => _ = elicitations.remove(row)?,
                Write::PutClosing(thread, closing) => {
                    let row = stamper.closing_row(thread, closing);
                    memory.insert(closing.row, row.encode_to_vec().as_slice())?;
                }
                Write::PutRequest(thread, request) => {
                    let row = stamper.request_row(thread, request);
                    memory.insert(request.row, row.encode_to_vec().as_slice())?;
                }
                Write::DeleteMemory(row) => _ = memory.remove(row)?,
                Write::PutFloor(floor) => _ = transaction.open_table(META)?.insert(FLOOR_KEY, floor)?,
            }
        }
        Ok(())
    }
}

impl Store for Embedded {
    fn load(&mut self, now: Moment) -> Result<Contents, OpenError> {
        let loaded = self.read_all(Stamper { boot_id: self.boot_id, now });
        loaded.map_err(|error| corrupt(&self.name, &*error))
    }

    fn commit(&mut self, batch: &[Write]) -> Result<(), CommitError> {
        let Err(error) = self.write_all(batch) else { return Ok(()) };
        if self.health.sync_failed.load(Relaxed) {
            return Err(CommitError::Fatal(format!(
                "{}: fsync failed: {error}. What is on the disk is unknown; the kernel's log (dmesg) may say more",
                self.name
            )));
        }
        match &error {
            redb::Error::Io(cause) if is_no_space(cause) => {
                self.database = None;
                Err(CommitError::Refused(format!("{}: {cause}", self.name)))
            }
            redb::Error::PreviousIo => Err(CommitError::Refused(format!("{}: the disk is full", self.name))),
            _ => Err(CommitError::Fatal(format!("{}: {error}", self.name))),
        }
    }

    fn is_full(&self) -> bool {
        self.health.full.load(Relaxed)
    }

    fn recover(&mut self) {
        if self.database.is_none() {
            self.database = open_database(&self.disk, &self.health, &self.name).ok();
        }
        if self.database.is_some() && self.disk.restore_reserve().is_ok() {
            self.health.full.store(false, Relaxed);
        }
    }
}

fn nonsense(what: &str) -> Box<dyn Error> {
    format!("{what} makes no sense").into()
}

fn corrupt(name: &str, error: &dyn std::fmt::Display) -> OpenError {
    OpenError::Corrupt(format!(
        "{name}: {error}. The file is damaged or no store of pausewatch, and was left as it is. Restore a copy, or move it \
         away to start with nothing: every thread then runs, at count 0"
    ))
}

/// Opens the database and checks the checksum of every page.
fn open_database(disk: &Arc<dyn Disk>, health: &Arc<Health>, name: &str) -> Result<Database, OpenError> {
    let guarded = Guarded { disk: disk.clone(), health: health.clone() };
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder.create_with_backend(guarded).map_err(|error| match error {
        redb::DatabaseError::Storage(StorageError::Io(cause)) if cause.kind() != io::ErrorKind::InvalidData => {
            OpenError::Io(format!("open {name}: {cause}"))
        }
        error => corrupt(name, &error),
    })
}

/// Makes an empty store under another name and then gives it its own, so that a crash half-way leaves none.
fn create(directory: &Path, path: &PathBuf, boot_id: u64) -> Result<(), OpenError> {
    let failed = |error: io::Error| OpenError::Io(format!("create {}: {error}", path.display()));
    let draft = directory.join("pausewatch.redb.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let disk = FileDisk::open(&draft, directory.join("reserve")).map_err(failed)?;
    drop(Embedded::on(Arc::new(disk), &draft.display().to_string(), boot_id)?);
    fs::rename(&draft, path).map_err(failed)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

/// Takes the directory for this process; the lock ends with it, however it ends.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join("lock");
    let failed = |error: io::Error| OpenError::Io(format!("lock {}: {error}", path.display()));
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let directory = directory.display();
            return Err(OpenError::InUse(format!(
                "{directory}: another pausewatch has this data directory open (process {}). Stop it, or give another --data-dir",
                holder.trim()
            )));
        }
    }
    let text = format!("{}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(failed)?;
    Ok(file)
}
