//! The stores, which keep the records after the process ends.
//!
//! The guarantees of a [`Store`], which are tested for every store (`tests/it/store_contract.rs`):
//!
//! - S1: when [`Store::commit`] returns `Ok`, the whole batch survives the end of the process and a power loss (unless
//!   the store keeps nothing: [`Store::keeps`]); when it returns [`CommitError::Refused`], nothing of the batch was
//!   stored.
//! - S2: [`Store::load`] returns exactly what was committed, or an error. It never guesses.
//! - S3: two processes never write to the same store: the second one is refused, or the first one gets
//!   [`CommitError::Deposed`].
//! - S4: a failed fsync is never repeated: the kernel has marked the pages clean, so a later success means nothing. The
//!   result is [`CommitError::Fatal`], and the process ends.
mod backup_content;
mod contents;
mod embedded;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
mod memory;
mod ops;
mod restored_rows;
mod rows;

#[cfg(target_os = "linux")]
pub(crate) use embedded::lower_priority;
pub use embedded::{Disk, Embedded, FORMAT, RESERVE_BYTES, Snapshot, restore};
pub(crate) use embedded::{Presence, Snapshots, Summary, copy_backup, would_break_a_store};
#[cfg(unix)]
pub(crate) use embedded::{inspect, open_read_only};
pub use memory::Memory;
pub(super) use rows::LONG_LEASE;

use crate::core::types::ThreadId;
use crate::core::{Header, Open, Record, RememberedClosing, RememberedRequest, Timestamp};

/// The storage of a coordinator. Called from one thread at a time; may block.
pub trait Store: Send + 'static {
    /// Reads everything, once, before the first commit. Moments are converted to the boot-time clock of `now`.
    ///
    /// # Errors
    /// The stored data cannot be read, or is invalid. Nothing was changed.
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError>;

    /// Makes all of `batch` durable, or nothing.
    ///
    /// # Errors
    /// See [`CommitError`].
    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError>;

    /// Checks that no other process had taken over the store when this was called. Called for a batch whose answers
    /// need no commit. A store that only one process can have open has nothing to do.
    ///
    /// # Errors
    /// [`CommitError::Deposed`].
    fn confirm(&mut self) -> Result<(), CommitError> {
        Ok(())
    }

    /// Calls `hook` in each commit that has an fsync, right before the fsync.
    fn before_fsync(&mut self, _hook: Box<dyn Fn() + Send>) {}

    /// A batch is about to be evaluated. The store may check its free space here, before [`Store::is_full`] is called.
    fn begin(&mut self) {}

    /// Whether the store is full. If so, the coordinator refuses increments; it still tries all other changes.
    fn is_full(&self) -> bool {
        false
    }

    /// The reason that callers get when increments are refused because the store is full.
    fn why_full(&self) -> &'static str {
        "its disk is full"
    }

    /// The reason that callers get when changes are refused because the store has refused a batch.
    fn why_refused(&self) -> &'static str {
        "its disk cannot be written"
    }

    /// Tries to become usable again after the store was full or has refused a batch. Called about once a second until
    /// it is usable.
    fn recover(&mut self) {}

    /// Whether the next commit may have to wait for more than its own write and fsync. If so, the commit is made on a
    /// separate thread.
    fn may_wait(&self) -> bool {
        false
    }

    /// Whether long leases continue in the next process instead of restarting. If so, the engine stores their ends.
    fn keeps_ends(&self) -> bool {
        false
    }

    /// Whether anything survives the process. If not, `commit` is never called.
    fn keeps(&self) -> bool {
        true
    }
}

/// Everything in a store.
#[derive(Debug, Default)]
pub struct Contents {
    /// The threads.
    pub records: Vec<Record>,
    /// The highest revision of any thread that was forgotten: new threads start above it.
    pub floor: u64,
    /// The first row number that was never used.
    pub next_row: u64,
    /// Identifies the history of the store; never 0. Revisions and paused totals can be compared only within one epoch.
    pub epoch: u64,
}

/// One change of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Write<'a> {
    /// A thread's header is now this.
    PutThread(&'a ThreadId, &'a Header),
    /// A thread is forgotten. Its other rows are deleted one by one.
    DeleteThread(&'a ThreadId),
    /// An elicitation is open.
    PutElicitation(&'a ThreadId, &'a Open),
    /// An elicitation is no longer open.
    DeleteElicitation(u64),
    /// A closed elicitation to remember.
    PutClosing(&'a ThreadId, &'a RememberedClosing),
    /// A request id to remember.
    PutRequest(&'a ThreadId, &'a RememberedRequest),
    /// A closing or a request is forgotten.
    DeleteMemory(u64),
    /// The floor is now this.
    PutFloor(u64),
}

/// Why a store cannot be opened. The text says what to do; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{0}")]
    InUse(String),
    /// It was made by a later version.
    #[error("{0}")]
    Newer(String),
    /// It is damaged, or it is not a store of pausewatch.
    #[error("{0}")]
    Corrupt(String),
    /// An error of the file system.
    #[error("{0}")]
    Io(String),
}

/// Why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it was stored. Trying again later may help.
    #[error("commit: {0}")]
    Refused(String),
    /// The stored data is unknown until the store is reopened: the process has to end.
    #[error("commit: {0}")]
    Fatal(String),
    /// The files of the store were deleted or replaced: the process has to end. The batch, and everything before it, is
    /// not in the store that the next process finds.
    #[error("{0}")]
    Gone(String),
    /// Another process has taken over the store, or may have: the state of this process may be old, and it is unknown
    /// whether the batch was stored. The process continues without the store.
    #[error("{0}")]
    Deposed(String),
}

/// Draws an epoch for a new history.
fn new_epoch() -> std::io::Result<u64> {
    // 0 means that a server has no epoch.
    Ok(getrandom::u64().map_err(std::io::Error::other)? | 1)
}
