//! Committed changes, as the coordinator publishes them.
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Elicitation, Header, PauseEnd, Timestamp};
use std::sync::Arc;

/// Something that was committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The thread.
    pub thread: ThreadId,
    /// Its header now.
    pub header: Header,
    /// The event.
    pub event: Event,
}

/// An event of a thread.
#[derive(Clone, Debug)]
pub enum Event {
    /// An elicitation was opened, and when its lease ends.
    Opened(Arc<Elicitation>, Option<Timestamp>),
    /// One was closed, and how.
    Closed(ElicitationId, PauseEnd),
    /// The end of a lease has moved; watchers are not notified.
    Renewed(ElicitationId, Option<Timestamp>),
    /// The thread was idle for long and is forgotten; the revision in the header is the new floor.
    Forgotten,
}
