//! A change that waits for its commit.
use crate::coordinator::quota::Account;
use crate::core::types::ThreadId;
use crate::core::{Change, Effect, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A change that was made in memory and is not committed.
pub(super) struct Staged {
    pub(super) thread: ThreadId,
    pub(super) change: Change,
    pub(super) by: Option<Arc<Account>>,
}

/// Whether a change must survive the process. A renewal that keeps the length of the lease need not, because a restart
/// gives every lease its full length again (`long_leases.rs` has the exception).
pub(super) fn outlives(change: &Change) -> bool {
    let length = |lease: &Option<(Duration, Timestamp)>| lease.map(|(length, _)| length);
    !matches!(&change.effect, Effect::Renewed { before, after, .. } if length(before) == length(after))
}
