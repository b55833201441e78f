//! Observers of committed changes.
use super::quota::Account;
use crate::core::types::ThreadId;
use crate::core::{Change, Timestamp};

/// A change that is durable, or needs not be.
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

/// An observer of every change: it is called once the change is committed, in the order of the revisions of each thread, before the call is
/// answered and before anyone sees the change. It runs where calls are evaluated, so it must not wait.
pub trait ChangeObserver: Send + 'static {
    /// Something has changed.
    fn changed(&mut self, changed: &Changed<'_>);

    /// Whether it can take no more. Then increments are refused.
    fn is_full(&self) -> bool {
        false
    }
}
