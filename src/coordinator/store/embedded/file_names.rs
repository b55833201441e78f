//! The names of the files in a data directory.

/// The file of the database.
pub(super) const DATABASE: &str = "pausewatch.redb";
/// The prefix of the journal's files.
pub(super) const SEGMENT: &str = "journal-";
/// The file that reserves disk space.
pub(super) const RESERVE: &str = "reserve";
/// The file whose lock the one process that uses the store holds.
pub(super) const LOCK: &str = "lock";
/// The prefix of directories with the files that a restore replaced.
pub(super) const REPLACED: &str = "replaced-";
