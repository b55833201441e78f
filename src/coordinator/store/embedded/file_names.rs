//! The names of the files in a data directory.
use std::path::Path;

/// The file of the database.
pub(super) const DATABASE: &str = "pausewatch.redb";
/// A database that is being created.
pub(super) const DATABASE_DRAFT: &str = "pausewatch.redb.new";
/// The prefix of the journal's files.
pub(super) const SEGMENT: &str = "journal-";
/// A file of the journal that is being created.
pub(super) const SEGMENT_DRAFT: &str = "journal.new";
/// The file that reserves disk space.
pub(super) const RESERVE: &str = "reserve";
/// The file that is locked by the process that uses the store.
pub(super) const LOCK: &str = "lock";
/// The prefix of directories with the files that a restore replaced.
pub(super) const REPLACED: &str = "replaced-";
/// Where a restore creates the new store. While it exists, the restore is not finished.
pub(super) const STAGING: &str = "restoring";

/// Whether the store has a file of this name.
pub(super) fn is_of_a_store(name: &str) -> bool {
    [DATABASE, DATABASE_DRAFT, SEGMENT_DRAFT, RESERVE, LOCK, STAGING].contains(&name)
        || [SEGMENT, REPLACED].iter().any(|first| name.starts_with(first))
}

/// Whether a file at `path` would replace a file of an existing store, or prevent the store from starting.
pub(crate) fn would_break_a_store(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    is_of_a_store(&name) && path.with_file_name(format!("{SEGMENT}0")).exists()
}
