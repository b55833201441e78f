//! A copy of a store at one moment, while it is in use.
//!
//! The database gives a view of itself after entry A of the journal, which later commits do not change. The journal has
//! the entries after A. No commit waits for the copy:
//!
//! - N1: the journal is read before the view is taken. Entries that the view lacks were not in the database at that
//!   time, so they were in files that nobody overwrote (J2), and were read completely.
//! - N2: entries are used as long as their numbers are consecutive. So the copy is the store after one of its commits,
//!   and contains no half of a commit.
//! - N3: the copy includes the last entry that was durable when it was requested: everything that was acknowledged
//!   before is in it.
use super::backup::{self, Summary};
use super::checkpoint::Viewer;
use super::database::{View, damaged};
use super::disk::Disk;
use super::journal;
use crate::coordinator::store::{OpenError, ops};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Makes snapshots of a store. Clones use the same store. They may be used on any thread; after the store was closed
/// they return an error.
#[derive(Clone)]
pub struct Snapshots {
    pub(super) viewer: Viewer,
    pub(super) disk: Arc<dyn Disk>,
    /// The number of the last journal entry that is durable.
    pub(super) durable: Arc<AtomicU64>,
    pub(super) seed: u64,
    pub(super) name: String,
}

/// A consistent snapshot of a store. While one exists, the database cannot reuse the space of its rows.
pub struct Snapshot {
    view: View,
    payloads: Vec<Vec<u8>>,
    name: String,
}

impl Snapshots {
    /// The store as it is now. May wait for a transaction of the database; commits continue meanwhile.
    ///
    /// # Errors
    /// The store is closed, its disk is full or cannot be read, or the journal is damaged.
    pub fn take(&self) -> Result<Snapshot, OpenError> {
        let asked_at = self.durable.load(SeqCst);
        let read = |error: journal::ReadError| error.into_open_error(&self.name);
        let files = journal::files(&*self.disk).map_err(|error| read(error.into()))?;
        let view = self.viewer.view(&self.name)?;
        let (payloads, last) = journal::follow(&files, self.seed, view.applied);
        if last < asked_at {
            return Err(damaged(&self.name, &format!("entry {} of the journal is damaged", last + 1)));
        }
        Ok(Snapshot { view, payloads, name: self.name.clone() })
    }
}

impl Snapshot {
    /// Writes the snapshot as a backup with the time `taken` (nanoseconds of the wall clock).
    ///
    /// # Errors
    /// `out` cannot be written, or the store cannot be read any more. The written part must not be used.
    pub fn write(&self, taken: i64, out: &mut dyn io::Write) -> io::Result<Summary> {
        let changes = ops::decode(self.payloads.iter().map(Vec::as_slice));
        let changes = changes.ok_or_else(|| io::Error::other(format!("{}: the journal is invalid", self.name)))?;
        let mut writer = backup::Writer::begin(taken, out)?;
        self.view.merged(&changes, &mut |table, key, value| writer.put(table, key, value))?;
        writer.end()
    }
}
