//! Who is informed of every committed change.
use super::quota::Account;
use crate::core::types::ThreadId;
use crate::core::{Change, Timestamp};

/// A change that is durable, or needs not be.
#[derive(Debug)]
pub struct Changed<'a> {
    /// When it was made.
    pub now: Timestamp,
    /// Of which thread.
    pub thread: &'a ThreadId,
    /// What has changed.
    pub change: &'a Change,
    /// Who has asked for it; `None`: the end of a lease, or nobody says.
    pub by: Option<&'a Account>,
}

/// Is told of every change once it is committed, in the order of the revisions of each thread, and before anybody is
/// answered or sees it. Called where calls are judged: it must not wait.
pub trait ChangeObserver: Send + 'static {
    /// Something has changed.
    fn changed(&mut self, changed: &Changed<'_>);

    /// Whether it can take no more. Then increments are refused.
    fn is_full(&self) -> bool {
        false
    }
}
