//! Inspects a store that no server has open, without changing it.
use super::disk::Disk;
use super::file_names::DATABASE;
use super::read_only_overlay::ReadOnlyOverlay;
use super::{Embedded, lock, restore};
use crate::coordinator::store::{OpenError, Store};
use crate::core::Timestamp;
use std::path::Path;
use std::sync::Arc;

/// The content of a valid store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// Threads that are known.
    pub threads: usize,
    /// Those that are paused.
    pub paused: usize,
    /// Open elicitations.
    pub elicitations: usize,
    /// The highest revision of any thread, the forgotten ones included.
    pub revision: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
}

/// Opens the store in `directory` read-only, with all checks of a server that starts. Commits to it are not stored. No
/// server can open it meanwhile.
///
/// # Errors
/// There is no store, a server has it open, or a server could not start on it.
pub(crate) fn open_read_only(directory: &Path, boot_id: u64) -> Result<Embedded, OpenError> {
    let name = directory.display().to_string();
    let overlay = ReadOnlyOverlay::before(directory);
    match overlay.has_database() {
        Ok(true) => {}
        Ok(false) if !directory.is_dir() => return Err(OpenError::Io(format!("{name}: there is no such directory"))),
        Ok(false) if overlay.has_segment(0).unwrap_or(false) => {
            return Err(super::damaged(&name, "there is a journal, and the database is gone"));
        }
        Ok(false) => return Err(OpenError::Io(format!("{name}: there is no store in it, no {DATABASE}"))),
        Err(error) => return Err(OpenError::Io(format!("open {name}/{DATABASE}: {error}"))),
    }
    let lock = lock::take_shared(directory)?;
    restore::none_unfinished(directory)?;
    let mut store = Embedded::on(Arc::new(overlay), &name, boot_id)?;
    store._lock = Some(lock);
    Ok(store)
}

/// Checks the store in `directory`: every page and row of it.
///
/// # Errors
/// As [`open_read_only`].
pub(crate) fn inspect(directory: &Path, boot_id: u64, now: Timestamp) -> Result<Inspection, OpenError> {
    let contents = open_read_only(directory, boot_id)?.load(now)?;
    let records = &contents.records;
    let database = directory.join(DATABASE).metadata();
    Ok(Inspection {
        threads: records.len(),
        paused: records.iter().filter(|record| !record.open.is_empty()).count(),
        elicitations: records.iter().map(|record| record.open.len()).sum(),
        revision: records.iter().map(|record| record.header.revision).fold(contents.floor, u64::max),
        database_bytes: database.map_or(0, |database| database.len()),
    })
}
