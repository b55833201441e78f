//! Observers of committed changes.
use super::quota::Account;
use crate::core::types::ThreadId;
use crate::core::{Change, Timestamp};

/// A committed change.
#[derive(Debug)]
pub struct Changed<'a> {
    /// When it was made.
    pub now: Timestamp,
    /// The thread.
    pub thread: &'a ThreadId,
    /// The change.
    pub change: &'a Change,
    /// The caller; `None`: unknown, or the end of a lease.
    pub by: Option<&'a Account>,
}

/// Observes every change. It is called once per committed change, in the order of the revisions of each thread, before
/// the call is answered and before anyone sees the change. It runs in the engine, so it must not block.
pub trait ChangeObserver: Send + 'static {
    /// Something has changed.
    fn changed(&mut self, changed: &Changed<'_>);

    /// Whether it can accept no more changes. Then increments are refused.
    fn is_full(&self) -> bool {
        false
    }
}
