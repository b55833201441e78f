//! The hub's state of one thread.
use super::history::ClosedSoFar;
use super::subscribers::Subscribers;
use super::topic_id::TopicId;
use crate::core::types::ThreadId;
use crate::core::{Elicitation, Header, Open, PauseEnd, Timestamp};
use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// A thread that is known or watched. Kept small: there may be one for each of a hundred thousand idle watches.
#[derive(Debug)]
pub(super) struct Topic {
    /// Packed only while the thread is not known.
    pub(super) id: TopicId,
    pub(super) subscribers: Subscribers,
    /// `None`: only watched, never named in a change, or forgotten.
    pub(super) known: Option<Box<ThreadState>>,
}

/// The committed state of a thread.
#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) header: Header,
    pub(super) open: Vec<OpenElicitation>,
    /// `None`: the thread is paused, or was not paused since the start of the server.
    pub(super) pause_end: Option<PauseEnd>,
    /// The closed elicitations of the open pause; `None`: there are none.
    pub(super) closed: Option<Box<ClosedSoFar>>,
    pub(super) change: Change,
    pub(super) frame: Frame,
}

/// The last change of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Its number; 0: there was none.
    pub(super) number: u64,
    /// The number of the change that began the pause; `None`: the thread is not paused.
    pause: Option<NonZeroU64>,
}

impl Change {
    /// Becomes the change with this number, after which the thread is paused or not.
    pub(super) fn begin(&mut self, number: u64, is_paused: bool) {
        self.number = number;
        self.pause = is_paused.then(|| self.pause.or(NonZeroU64::new(number))).flatten();
    }

    /// The number of the change that began the pause; `None`: the thread is not paused.
    pub(super) fn pause(self) -> Option<u64> {
        self.pause.map(NonZeroU64::get)
    }
}

/// An open elicitation as readers see it.
#[derive(Clone, Debug)]
pub struct OpenElicitation {
    /// The elicitation.
    pub elicitation: Arc<Elicitation>,
    /// When its lease ends.
    pub ends: Option<Timestamp>,
    /// Set if only the leader of a fleet knows the end of the lease: the lease ends at most this long after now.
    pub at_most: Option<Duration>,
}

impl OpenElicitation {
    pub(super) fn of(open: &Open) -> Self {
        let elicitation = open.elicitation.clone();
        match open.lease {
            Some((length, Timestamp::UNKNOWN)) => OpenElicitation { elicitation, ends: None, at_most: Some(length) },
            _ => OpenElicitation { elicitation, ends: open.ends(), at_most: None },
        }
    }

    /// When its lease ends, at the latest.
    pub fn latest_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.ends.or_else(|| self.at_most.map(|length| now.after(length)))
    }
}

/// The state of a known thread as sinks see it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its header.
    pub header: &'a Header,
    /// The open elicitations, oldest first.
    pub open: &'a [OpenElicitation],
    /// How its last pause ended; `None`: it is paused, or was not paused since the start of the server.
    pub pause_end: Option<PauseEnd>,
}

/// The state of one thread as readers see it.
#[derive(Clone, Debug)]
pub struct View {
    /// The thread.
    pub thread: ThreadId,
    /// Its header; `None`: it is not known, and its revision is the floor.
    pub header: Option<Header>,
    /// The highest revision of any thread that was forgotten.
    pub floor: u64,
    /// The open elicitations, oldest first.
    pub open: Vec<OpenElicitation>,
    /// How its last pause ended; `None`: it is paused, or was not paused since the start of the server.
    pub pause_end: Option<PauseEnd>,
    /// Streams that see it, without observers.
    pub watchers: u32,
}

/// The encoded state and when it was encoded (boot-time clock), so that it is encoded once for ten thousand watchers.
/// Every change clears it.
#[derive(Debug, Default)]
pub struct Frame(pub Option<(i64, Bytes)>);

impl Topic {
    pub(super) fn new(thread: ThreadId) -> Self {
        Topic { id: TopicId::Shared(thread), subscribers: Subscribers::default(), known: None }
    }

    pub(super) fn know(&mut self, thread: ThreadId, state: ThreadState) {
        self.id = TopicId::Shared(thread);
        self.known = Some(Box::new(state));
    }

    /// Frees what is needed only of known threads.
    pub(super) fn shrink(&mut self) {
        if self.known.is_none() {
            self.id = self.id.packed();
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.change.pause.is_some())
    }

    pub(super) fn change(&self) -> Change {
        self.known.as_ref().map(|known| known.change).unwrap_or_default()
    }
}

impl ThreadState {
    pub(super) fn new(header: Header) -> Self {
        let (change, frame) = (Change::default(), Frame::default());
        ThreadState { header, open: Vec::new(), pause_end: None, closed: None, change, frame }
    }

    pub(super) fn shown(&mut self) -> (Shown<'_>, &mut Frame) {
        (Shown { header: &self.header, open: &self.open, pause_end: self.pause_end }, &mut self.frame)
    }
}

impl View {
    pub(super) fn of(thread: &ThreadId, known: Option<&ThreadState>, floor: u64, watchers: u32) -> Self {
        let open = known.map_or_else(Vec::new, |known| known.open.clone());
        let pause_end = known.and_then(|known| known.pause_end);
        View { thread: thread.clone(), header: known.map(|known| known.header), floor, open, pause_end, watchers }
    }

    /// As sinks see it; `None`: the thread is not known.
    pub fn shown(&self) -> Option<Shown<'_>> {
        let header = self.header.as_ref()?;
        Some(Shown { header, open: &self.open, pause_end: self.pause_end })
    }
}
