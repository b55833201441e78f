//! The events of a watch.
use super::super::{Error, PauseState};
use std::sync::Arc;
use tokio::time::Instant;

/// One event of a [`Watch`](super::Watch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of a thread: the first one, a change, or the first one after a disconnect.
    State(Update),
    /// The state of every watched thread has been reported; changes follow as they happen. Reported again after every
    /// disconnect and after threads were added.
    SnapshotComplete,
    /// The states of these threads are unknown until the next one arrives. The watch is reconnecting.
    Disconnected {
        /// The threads; empty with [`Client::watch_all`](crate::client::Client::watch_all), where all are affected.
        thread_ids: Vec<Arc<str>>,
        /// When the connection was lost; if it was silent for a heartbeat interval before that (15 s, unless the server
        /// sends another interval), when its last message arrived.
        since: Instant,
        /// The cause.
        error: Error,
    },
}

/// A state, and its relation to the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The state; with its `elicitations` if [`Watch::with_elicitations`](super::Watch::with_elicitations) was called.
    pub state: PauseState,
    /// Changes may have been missed before this state: it is the first of its thread, or the first after a disconnect.
    pub gap: bool,
    /// The revision or the store's epoch differs from the last reported one. `false` only after a gap in which nothing
    /// changed.
    pub changed: bool,
}

/// A message of a watch, as the library itself reads it.
#[derive(Debug)]
pub(crate) enum Message {
    Event(Event),
    /// The server refuses these threads, and the watch goes on with the others. Programs get [`Event::Disconnected`].
    Refused {
        thread_ids: Vec<Arc<str>>,
        since: Instant,
        error: Error,
    },
    /// The state of every watched thread has been reported, except of those that the server refuses. Programs do not
    /// get it.
    OthersComplete,
    /// The present states that a request at `asked` has requested.
    Confirmed {
        states: Vec<PauseState>,
        asked: Instant,
    },
}
