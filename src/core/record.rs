//! The state of one thread, and the changes that can be made to it.
//!
//! - I1: `open` is in the order of opening; its length is the count; the thread is paused if and only if it is not empty.
//! - I2: a change that watchers can see raises the revision by exactly one; a renewal raises nothing.
//! - I3: [`Record::apply`] then [`Record::revert`] of the same change leaves the record as it was.
use super::accounting::{Pause, Timestamp};
use super::idempotency::{IdempotencyCache, RememberedClosing, RememberedRequest};
use super::pause_end::PauseEnd;
use super::types::{ElicitationId, ThreadId};
use std::sync::Arc;
use std::time::Duration;

/// The fixed properties of an elicitation.
#[derive(Debug, PartialEq, Eq)]
pub struct Elicitation {
    /// Its id.
    pub id: ElicitationId,
    /// The question for the person.
    pub reason: Box<str>,
    /// The program that asks.
    pub holder: Box<str>,
    /// When it was opened.
    pub created: Timestamp,
}

/// An open elicitation. `lease`: how long and until when; `None`: without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The elicitation.
    pub elicitation: Arc<Elicitation>,
    /// The length of its lease and when it ends.
    pub lease: Option<(Duration, Timestamp)>,
    /// Opened without a ttl: the first to be closed by a decrement without an id.
    pub anonymous: bool,
    /// Where the store keeps it.
    pub row: u64,
}

impl Open {
    /// When its lease ends.
    pub fn ends(&self) -> Option<Timestamp> {
        self.lease.map(|(_, ends)| ends)
    }

    /// Whether its lease has ended by `now`.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.ends().is_some_and(|ends| ends.boot <= now.boot)
    }
}

/// The part of a record that each change replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the latest change.
    pub revision: u64,
    /// Paused time.
    pub pause: Pause,
    /// When the latest change was.
    pub changed: Timestamp,
}

/// All that is known of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread.
    pub thread: ThreadId,
    /// Revision and paused time.
    pub header: Header,
    /// The open elicitations, oldest first.
    pub open: Vec<Open>,
    /// Request ids and closed elicitations of the last 10 minutes.
    pub memory: IdempotencyCache,
}

/// One change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The header before.
    pub before: Header,
    /// The header after.
    pub after: Header,
    /// The effect on one elicitation.
    pub effect: Effect,
    /// The request id to remember, with its answer.
    pub request: Option<RememberedRequest>,
}

/// The effect of a change on an elicitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is opened.
    Opened(Open),
    /// It is closed.
    Closed {
        /// Its place among the open ones.
        index: usize,
        /// The elicitation that was closed.
        open: Open,
        /// The entry for [`Record::memory`].
        closing: RememberedClosing,
    },
    /// Its lease ends at another time.
    Renewed {
        /// Which.
        id: ElicitationId,
        /// Its place among the open ones.
        index: usize,
        /// The lease before.
        before: Option<(Duration, Timestamp)>,
        /// The lease after.
        after: Option<(Duration, Timestamp)>,
    },
}

impl Change {
    /// How the pause ended, if this change ends a pause.
    pub fn pause_end(&self) -> Option<PauseEnd> {
        match &self.effect {
            Effect::Closed { closing, .. } if self.after.pause.since.is_none() => Some(closing.how),
            _ => None,
        }
    }
}

impl Record {
    /// A thread that is named for the first time, at `revision`.
    pub fn new(thread: ThreadId, revision: u64, now: Timestamp) -> Self {
        let header = Header { revision, pause: Pause::default(), changed: now };
        Record { thread, header, open: Vec::new(), memory: IdempotencyCache::default() }
    }

    /// Open elicitations.
    pub fn count(&self) -> u32 {
        u32::try_from(self.open.len()).expect("at most MAX_OPEN are open")
    }

    /// The place of an open elicitation.
    pub fn position(&self, id: ElicitationId) -> Option<usize> {
        self.open.iter().position(|open| open.elicitation.id == id)
    }

    /// Makes a change that [`super::decide`] returned for this record as it is.
    pub fn apply(&mut self, change: &Change) {
        self.header = change.after;
        match &change.effect {
            Effect::Opened(open) => self.open.push(open.clone()),
            Effect::Renewed { index, after, .. } => self.open[*index].lease = *after,
            Effect::Closed { index, closing, .. } => {
                self.open.remove(*index);
                self.memory.push_closing(*closing);
            }
        }
        if let Some(request) = &change.request {
            self.memory.push_request(request.clone());
        }
    }

    /// Reverts the latest applied change.
    pub fn revert(&mut self, change: &Change) {
        if change.request.is_some() {
            self.memory.pop_request();
        }
        match &change.effect {
            Effect::Opened(_) => _ = self.open.pop(),
            Effect::Renewed { index, before, .. } => self.open[*index].lease = *before,
            Effect::Closed { index, open, .. } => {
                self.open.insert(*index, open.clone());
                self.memory.pop_closing();
            }
        }
        self.header = change.before;
    }

    /// A change at `now` that leaves `count` open elicitations.
    pub(super) fn header_after(&self, count: usize, now: Timestamp) -> Header {
        Header { revision: self.header.revision + 1, pause: self.header.pause.turned(count > 0, now), changed: now }
    }

    /// The change that closes the elicitation at `index`.
    pub(super) fn closing(&self, index: usize, how: PauseEnd, row: u64, now: Timestamp) -> Change {
        let open = self.open[index].clone();
        let closing = RememberedClosing { id: open.elicitation.id, how, at: now, row };
        let after = self.header_after(self.open.len() - 1, now);
        Change { before: self.header, after, effect: Effect::Closed { index, open, closing }, request: None }
    }
}
