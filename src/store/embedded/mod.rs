//! The default store: a directory with a database (redb) and a journal in front of it.
//!
//! A batch is one entry of the journal: one write and one fdatasync, and it is durable. Behind the back of the callers
//! a thread carries what the journal has into the database, many changes of a key as one. Opening takes up what the
//! journal still has; closing leaves it empty. `docs/decisions/` says why there are two.
mod base;
mod checkpoint;
mod disk;
mod entry;
mod journal;
mod lock;
mod ops;
mod rows;

pub use base::FORMAT;
pub use disk::{Disk, RESERVE_BYTES};

use super::{CommitError, Contents, OpenError, Store, Write};
use crate::core::Moment;
use base::{Base, damaged};
use checkpoint::{Checkpoints, NoFile};
use disk::{Directory, Health};
use journal::{Journal, ReadError};
use rows::Stamper;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A store in a directory.
pub struct Embedded {
    disk: Arc<dyn Disk>,
    health: Arc<Health>,
    /// `None`: an append has failed.
    journal: Option<Journal>,
    checkpoints: Checkpoints,
    boot_id: u64,
    name: String,
    payload: Vec<u8>,
    _lock: Option<File>,
}

impl Embedded {
    /// Opens the store in `directory`, or makes one. `boot_id`: of the clock whose moments will be committed.
    ///
    /// # Errors
    /// Another process has it open; it is damaged, foreign or of a later version; or the file system refuses.
    pub fn open(directory: &Path, boot_id: u64) -> Result<Self, OpenError> {
        let name = directory.display().to_string();
        fs::create_dir_all(directory).map_err(|error| OpenError::Io(format!("create {name}: {error}")))?;
        let lock = lock::take(directory)?;
        let mut store = Self::on(Arc::new(Directory::new(directory)), &name, boot_id)?;
        store._lock = Some(lock);
        Ok(store)
    }

    /// Opens the store on a disk of the caller's; `name` is for messages. Nothing keeps others from opening it too.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn on(disk: Arc<dyn Disk>, name: &str, boot_id: u64) -> Result<Self, OpenError> {
        let health = Arc::<Health>::default();
        health.full.store(disk.restore_reserve().is_err() || disk.is_low(), Relaxed);
        let io = |what: &str, error: io::Error| OpenError::Io(format!("{what} {name}: {error}"));
        if !disk.has_database().map_err(|error| io("look into", error))? {
            journal::make(&*disk).map_err(|error| io("make the journal in", error))?;
            Base::make(&disk, &health, name)?;
        }
        let (base, applied) = Base::open(&disk, &health, name)?;
        let found = journal::open(&*disk, applied).map_err(|error| match error {
            ReadError::Io(error) => io("open the journal in", error),
            ReadError::Damaged(why) => damaged(name, &why),
        })?;
        if found.last > applied {
            let changes = journal::changes(found.payloads.iter().map(Vec::as_slice));
            let changes = changes.ok_or_else(|| damaged(name, "the journal makes no sense"))?;
            base.apply(&changes, found.last).map_err(|error| match error {
                base::ApplyError::NoSpace => {
                    OpenError::Io(format!("open {name}: no space left to take up the journal"))
                }
                base::ApplyError::Broken(why) => damaged(name, &why),
            })?;
        }
        let mut segments = found.segments;
        let active = segments.pop().expect("a journal has files");
        let journal = Some(Journal::new(active, found.last));
        let checkpoints = Checkpoints::start(base, segments, disk.clone(), health.clone(), name)?;
        let name = name.to_owned();
        Ok(Embedded { disk, health, journal, checkpoints, boot_id, name, payload: Vec::new(), _lock: None })
    }

    fn fatal(&self, why: &str) -> CommitError {
        CommitError::Fatal(format!(
            "{}: {why}. What is on the disk is unknown; the kernel's log (dmesg) may say more",
            self.name
        ))
    }
}

impl Store for Embedded {
    fn load(&mut self, now: Moment) -> Result<Contents, OpenError> {
        self.checkpoints.read(Stamper { boot_id: self.boot_id, now }, &self.name)
    }

    fn begin(&mut self) {
        if self.disk.is_low() {
            self.health.full.store(true, Relaxed);
        }
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        if let Some(why) = self.checkpoints.broken() {
            return Err(self.fatal(&why));
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.payload.clear();
        ops::encode(batch, self.boot_id, &mut self.payload);
        let Some(mut journal) = self.journal.take() else { return Err(self.fatal("an earlier write failed")) };
        if journal.is_full(self.payload.len()) {
            match self.checkpoints.free_segment() {
                Ok(free) => self.checkpoints.take_up(journal.rotate(free)),
                Err(NoFile::Broken(why)) => return Err(self.fatal(&why)),
                Err(NoFile::DiskFull) => {
                    self.journal = Some(journal);
                    return Err(CommitError::Refused(format!("{}: the disk is full", self.name)));
                }
            }
        }
        match journal.append(&self.payload) {
            Ok(()) => {
                self.journal = Some(journal);
                Ok(())
            }
            Err(error) => Err(self.fatal(&format!("write the journal and make it durable: {error}"))),
        }
    }

    fn is_full(&self) -> bool {
        self.health.full.load(Relaxed)
    }

    fn recover(&mut self) {
        if self.checkpoints.is_working() && self.disk.restore_reserve().is_ok() && !self.disk.is_low() {
            self.health.full.store(false, Relaxed);
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // A process that was told that the disk is broken must not write to it once more.
        if let Some(journal) = self.journal.take() {
            self.checkpoints.finish(journal);
        }
    }
}
