//! The default store: a directory with a database (redb) and a journal in front of it.
//!
//! A batch is one entry of the journal: it is durable after one write and one fdatasync. A background thread copies the
//! entries into the database; many changes of one key become one. Opening a store applies the rest of the journal, and
//! closing it leaves the journal empty. docs/decisions/0001-journal-in-front-of-redb.md has the reasons.
mod backup;
mod checkpoint;
mod database;
mod disk;
mod entry;
mod file_names;
#[cfg(unix)]
mod inspect;
mod journal;
mod lock;
#[cfg(target_os = "linux")]
mod lower_priority;
mod permissions;
mod presence;
#[cfg(unix)]
mod read_only_overlay;
mod restore;
mod segments;
mod snapshot;

pub(crate) use backup::Summary;
#[cfg(any(feature = "etcd", test))]
pub(super) use backup::Writer as BackupWriter;
pub(crate) use backup::copy as copy_backup;
pub(super) use backup::read as read_backup;
pub use database::FORMAT;
pub use disk::{Disk, RESERVE_BYTES};
pub(crate) use file_names::would_break_a_store;
#[cfg(unix)]
pub(crate) use inspect::{inspect, open_read_only};
#[cfg(target_os = "linux")]
pub(crate) use lower_priority::lower_priority;
pub(crate) use presence::Presence;
pub use restore::restore;
pub use snapshot::Snapshot;
pub(crate) use snapshot::Snapshots;

use super::ops;
use super::rows::RowCodec;
use super::{CommitError, Contents, OpenError, Store, Write};
use crate::core::Timestamp;
use checkpoint::{Checkpoints, NoFile};
use database::{Database, caught, damaged};
use disk::{Directory, Health, is_no_space};
use journal::Journal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

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
    /// The size of the batch that was refused last, in bytes.
    refused: usize,
    before_fsync: Box<dyn Fn() + Send>,
    snapshots: Snapshots,
    /// `None`: the disk is the caller's own.
    presence: Option<Presence>,
    _lock: Option<lock::Lock>,
}

impl Embedded {
    /// Opens the store in `directory`, or creates one. `boot_id`: the boot id of the clock from which the moments in
    /// commits are read.
    ///
    /// # Errors
    /// Another process has it open; it is damaged, not a store of pausewatch, or of a later version; or the file system
    /// fails.
    pub fn open(directory: &Path, boot_id: u64) -> Result<Self, OpenError> {
        let name = directory.display().to_string();
        disk::create_directory(directory).map_err(|error| OpenError::Io(format!("create {name}: {error}")))?;
        let mut lock = lock::take(directory)?;
        permissions::close_to_others(directory);
        restore::none_unfinished(directory)?;
        let mut store = Self::on(Arc::new(Directory::new(directory)), &name, boot_id)?;
        lock.cover_database(directory);
        store._lock = Some(lock);
        store.presence = Presence::of(directory);
        Ok(store)
    }

    /// Opens the store on a disk of the caller; `name` is used in messages. The disk is not locked: others can open the
    /// store too.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn on(disk: Arc<dyn Disk>, name: &str, boot_id: u64) -> Result<Self, OpenError> {
        let health = Arc::<Health>::default();
        Self::on_disk(disk, health.clone(), name, boot_id).map_err(|error| with_disk_failure(error, &health, name))
    }

    fn on_disk(disk: Arc<dyn Disk>, health: Arc<Health>, name: &str, boot_id: u64) -> Result<Self, OpenError> {
        let make_reserve = || health.full.store(disk.restore_reserve().is_err() || disk.is_low(), Relaxed);
        // A new store is created before the reserve: on a small disk, the reserve would take the space that the store
        // needs.
        let is_new = matches!(disk.has_database(), Ok(false));
        if !is_new {
            make_reserve();
        }
        let database = Database::open(&disk, &health, name).map_err(|unopened| unopened.error)?;
        if is_new {
            make_reserve();
        }
        let found = journal::read(&*disk, database.seed, database.applied);
        let (payloads, last) = found.map_err(|error| error.into_open_error(name))?;
        if last > database.applied {
            let changes = ops::decode(payloads.iter().map(Vec::as_slice));
            let changes = changes.ok_or_else(|| damaged(name, "the journal is invalid"))?;
            let applied = caught(|| database.apply(&changes, last));
            applied.unwrap_or_else(|panic| Err(database::ApplyError::Broken(panic))).map_err(|error| match error {
                database::ApplyError::NoSpace => {
                    OpenError::Io(format!("open {name}: no space left to apply the journal to the database"))
                }
                database::ApplyError::Broken(why) => damaged(name, &why),
            })?;
        }
        let pool = segments::take(&*disk);
        let mut pool = pool.map_err(|error| OpenError::Io(format!("open the journal in {name}: {error}")))?;
        let active = pool.free.pop().expect("a journal has files");
        let (seed, durable) = (database.seed, Arc::new(AtomicU64::new(last)));
        let journal = Some(Journal::new(active, seed, last));
        let checkpoints = Checkpoints::start(database, pool, disk.clone(), health.clone(), name)?;
        let (name, payload) = (name.to_owned(), Vec::new());
        let viewer = checkpoints.viewer();
        let snapshots = Snapshots { viewer, disk: disk.clone(), durable, seed, name: name.clone() };
        Ok(Embedded {
            disk,
            health,
            journal,
            checkpoints,
            boot_id,
            name,
            payload,
            refused: 0,
            before_fsync: Box::new(|| ()),
            snapshots,
            presence: None,
            _lock: None,
        })
    }

    /// Checks whether the store is still there while it is in use.
    pub fn presence(&self) -> Option<Presence> {
        self.presence.clone()
    }

    /// Makes copies of the store while it is in use.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    fn fatal(&self, why: &str) -> CommitError {
        self.health.broken.store(true, Relaxed);
        CommitError::Fatal(format!(
            "{}: {why}. What is on the disk is unknown; the kernel's log (dmesg) may say more",
            self.name
        ))
    }
}

/// Turns an error that was caused by the disk into an I/O error: an unreadable disk must not look like a damaged store.
fn with_disk_failure(error: OpenError, health: &Health, name: &str) -> OpenError {
    match (error, health.failure.get()) {
        (OpenError::Corrupt(_), Some(why)) => OpenError::Io(format!(
            "open {name}: {why}. The disk fails; what is stored may be sound. The kernel's log (dmesg) may say more"
        )),
        (error, _) => error,
    }
}

impl Store for Embedded {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        let read = self.checkpoints.read(RowCodec { boot_id: self.boot_id, now }, &self.name);
        read.map_err(|error| with_disk_failure(error, &self.health, &self.name))
    }

    fn begin(&mut self) {
        if self.disk.is_low() {
            self.health.full.store(true, Relaxed);
        }
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        if let Some(why) = self.checkpoints.broken() {
            return Err(self.fatal(why));
        }
        self.payload.clear();
        ops::encode(batch, self.boot_id, &mut self.payload);
        let Some(mut journal) = self.journal.take() else { return Err(self.fatal("an earlier write failed")) };
        // An empty batch checks whether the refused batch would be accepted now.
        let payload = if batch.is_empty() { self.refused } else { self.payload.len() };
        let mut refusal = None;
        if journal.is_full(payload) {
            match self.checkpoints.free_segment() {
                Ok(free) => self.checkpoints.hand_over(journal.rotate(free)),
                Err(NoFile::Broken(why)) => return Err(self.fatal(&why)),
                Err(NoFile::DiskFull) => refusal = Some("the disk is full".to_owned()),
            }
        }
        if refusal.is_none() {
            match journal.make_room(payload) {
                Ok(()) => {}
                Err(error) if is_no_space(&error) => {
                    self.health.full.store(true, Relaxed);
                    refusal = Some(format!("make room in the journal: {error}"));
                }
                Err(error) => return Err(self.fatal(&format!("make room in the journal: {error}"))),
            }
        }
        if let Some(why) = refusal {
            self.journal = Some(journal);
            self.refused = payload;
            return Err(CommitError::Refused(format!("{}: {why}", self.name)));
        }
        self.refused = 0;
        if !batch.is_empty() {
            let make_space = || {
                self.health.full.store(true, Relaxed);
                self.disk.release_reserve()
            };
            let appended = journal.append(&self.payload, &make_space, &*self.before_fsync);
            appended.map_err(|error| self.fatal(&format!("write the journal and make it durable: {error}")))?;
            // After the fsync: what is acknowledged was in the store. It costs a microsecond.
            if let Some(gone) = self.presence.as_ref().and_then(|presence| presence.check().err()) {
                self.health.broken.store(true, Relaxed);
                return Err(CommitError::Gone(gone));
            }
            self.snapshots.durable.store(journal.last(), SeqCst);
        }
        self.journal = Some(journal);
        Ok(())
    }

    fn before_fsync(&mut self, hook: Box<dyn Fn() + Send>) {
        self.before_fsync = hook;
    }

    fn is_full(&self) -> bool {
        self.health.full.load(Relaxed)
    }

    fn may_wait(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_half_full) && !self.checkpoints.has_free_segment()
    }

    fn recover(&mut self) {
        if self.checkpoints.retry() && self.disk.restore_reserve().is_ok() && !self.disk.is_low() {
            self.health.full.store(false, Relaxed);
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // After a disk error, the process must not write to the disk again.
        if let Some(journal) = self.journal.take() {
            self.checkpoints.finish(journal);
        }
    }
}
