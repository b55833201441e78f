//! The commands that a controller gives its follower.
use std::sync::Arc;

/// At most one of each kind is queued per thread, and one to close.
#[derive(Debug)]
pub(super) enum Command {
    /// Follow the thread from now on.
    Follow(Arc<str>),
    /// Check later whether the thread is idle.
    CheckIdle(Arc<str>),
    /// Have the state of the thread confirmed.
    Confirm(Arc<str>),
    /// Follow nothing any more.
    Close,
}
