//! A copy of a store at one moment, while it is in use.
//!
//! The database gives a view of itself as of entry A of the journal, which later commits do not touch; the journal has the
//! entries behind A. Nobody is stopped for it:
//!
//! - N1: the journal is read before the view is taken. What the view lacks had not been carried over by then, so it stood
//!   in files that nobody wrote over (J2), and was read whole.
//! - N2: entries are taken as long as their numbers follow each other: so the copy is what the store was after one of its
//!   commits, and none is half in it.
//! - N3: it ends at or behind the last entry that was durable when the copy was asked for: all that was acknowledged
//!   before is in it.
use super::backup::{self, Summary};
use super::checkpoint::Viewer;
use super::database::{View, damaged};
use super::disk::Disk;
use super::journal;
use crate::coordinator::store::OpenError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Makes snapshots of a store. Clones are of the same one; they may be used on any thread, and after the store was closed
/// they say so.
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
    /// The store as it is now. May wait for the database to finish a transaction; commits go on meanwhile.
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
    /// Writes it as a backup, which was `taken` then (nanoseconds of the wall clock).
    ///
    /// # Errors
    /// `out` does not take it, or the store cannot be read any more. What was written is not to be used.
    pub fn write(&self, taken: i64, out: &mut dyn io::Write) -> io::Result<Summary> {
        let changes = journal::changes(self.payloads.iter().map(Vec::as_slice));
        let changes = changes.ok_or_else(|| io::Error::other(format!("{}: the journal makes no sense", self.name)))?;
        let mut writer = backup::Writer::begin(taken, out)?;
        self.view.merged(&changes, &mut |table, key, value| writer.put(table, key, value))?;
        writer.end()
    }
}
