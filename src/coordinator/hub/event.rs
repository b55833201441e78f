//! Committed changes, as the coordinator publishes them.
use super::topic::OpenElicitation;
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Elicitation, Header, PauseEnd, Record, Timestamp};
use std::sync::Arc;

/// A committed change.
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
    /// An elicitation was opened; its lease ends at this time.
    Opened(Arc<Elicitation>, Option<Timestamp>),
    /// An elicitation was closed in this way.
    Closed(ElicitationId, PauseEnd),
    /// The end of a lease has moved; watchers are not notified.
    Renewed(ElicitationId, Option<Timestamp>),
    /// These elicitations are open now, and the last pause ended like this. Used by a follower, which sees the result
    /// of a batch and not each change.
    Replaced(Vec<OpenElicitation>, Option<PauseEnd>),
    /// The thread was idle for long and is forgotten; the revision in the header is the new floor.
    Forgotten,
}

impl Committed {
    /// Replaces the state of the thread by the state in `record`.
    pub fn replaced(record: &Record) -> Self {
        let open = record.open.iter().map(OpenElicitation::of).collect();
        let last = record.memory.last_closing().filter(|_| record.open.is_empty());
        let event = Event::Replaced(open, last.map(|closing| closing.how));
        Committed { thread: record.thread.clone(), header: record.header, event }
    }
}
