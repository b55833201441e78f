//! A watcher: which of its threads have changed since it looked, and how it is woken.
use super::topic::{Frame, Shown};
use super::watch_all::All;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::collections::VecDeque;
use std::task::Waker;

/// The capacity that the queue of a watcher keeps when it is empty.
pub(super) const KEPT: usize = 64;

/// The threads to watch.
#[derive(Clone, Debug)]
pub enum Interest {
    /// These threads; duplicates are ignored.
    Threads(Vec<ThreadId>),
    /// Every thread.
    All,
    /// Every thread in this scope.
    Within(Scope),
}

impl Interest {
    /// How many threads it names.
    pub fn named(&self) -> usize {
        match self {
            Interest::Threads(threads) => threads.len(),
            Interest::All => 0,
            Interest::Within(scope) => scope.threads().map_or(0, |threads| threads.len()),
        }
    }
}

/// Receives the messages of a watch.
pub trait Sink {
    /// The state of a thread. `known`: `None` if the thread is not known; its revision is then `floor`.
    fn state(&mut self, thread: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, floor: u64);
    /// The snapshot is complete.
    fn snapshot_complete(&mut self);
    /// Nothing has happened for a while.
    fn heartbeat(&mut self);
    /// Whether it accepts no more messages for now.
    fn is_full(&self) -> bool;
}

/// One watcher in the hub. Kept small: there may be a hundred thousand.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) waker: Option<Waker>,
    pub(super) changed: Changed,
    /// `snapshot_complete` is due after this many more entries of the queue or, with all threads, after the change with
    /// this number; `None`: it was given.
    pub(super) mark: Option<u64>,
    pub(super) heartbeat_due: bool,
    /// Nothing was sent since the last beat.
    pub(super) quiet: bool,
    /// It only shows pauses to people, so it does not count among the watchers of a thread.
    pub(super) observes: bool,
    /// The watch was ended, and gets nothing more.
    pub(super) is_over: bool,
}

/// The threads of a watcher that have changed since it looked.
#[derive(Debug)]
pub(super) enum Changed {
    One { thread: Watched, queued: bool },
    Many(Box<Many>),
    All(Box<All>),
}

#[derive(Debug, Default)]
pub(super) struct Many {
    pub(super) threads: Vec<Watched>,
    pub(super) queued: Vec<bool>,
    pub(super) queue: VecDeque<u32>,
    /// Only if the threads change, and are too many for a linear search.
    pub(super) places: Option<Box<Places>>,
}

/// The places of a watcher's threads, by topic.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) hasher: DefaultHashBuilder,
    /// The places of `threads` that are taken, by their topics.
    pub(super) of: HashTable<u32>,
    /// The places whose thread was removed. They are [`Watched::VACANT`], and may still be queued.
    pub(super) free: Vec<u32>,
}

/// A watched thread, and the watcher's place among its subscribers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) topic: u32,
    pub(super) place: u32,
}

impl Watched {
    /// The place of a thread that was removed.
    pub(super) const VACANT: Watched = Watched { topic: u32::MAX, place: u32::MAX };

    pub(super) fn is_vacant(self) -> bool {
        self.topic == u32::MAX
    }
}

#[cfg(test)]
impl Watcher {
    /// The capacity of its queue.
    pub(super) fn room(&self) -> usize {
        match &self.changed {
            Changed::One { .. } => 1,
            Changed::Many(many) => many.queue.capacity(),
            Changed::All(all) => all.room(),
        }
    }

    /// The topic at `place`, and where it has this watcher.
    pub(super) fn watched(&self, place: u32) -> (u32, u32) {
        let watched = match &self.changed {
            Changed::One { thread, .. } => thread,
            Changed::Many(many) => &many.threads[place as usize],
            Changed::All(_) => panic!("it watches no thread of its own"),
        };
        (watched.topic, watched.place)
    }
}

impl Watcher {
    pub(super) fn new(changed: Changed) -> Self {
        Watcher {
            waker: None,
            changed,
            mark: None,
            heartbeat_due: false,
            quiet: false,
            observes: false,
            is_over: false,
        }
    }

    /// Makes `snapshot_complete` due after all states that are due now. `last_change`: the number of the hub's last change.
    pub(super) fn set_mark(&mut self, last_change: u64) {
        self.mark = Some(match &self.changed {
            Changed::One { queued, .. } => u64::from(*queued),
            Changed::Many(many) => many.queue.len() as u64,
            Changed::All(_) => last_change,
        });
    }

    /// Whether `snapshot_complete` is due now. It then counts as given.
    pub(super) fn take_mark(&mut self) -> bool {
        let is_reached = self.mark.is_some_and(|mark| match &self.changed {
            Changed::All(all) => all.has_read(mark),
            Changed::One { .. } | Changed::Many(_) => mark == 0,
        });
        if is_reached {
            self.mark = None;
        }
        is_reached
    }
}

impl Many {
    /// `false`: it is marked already.
    pub(super) fn mark(&mut self, place: u32) -> bool {
        let new = !std::mem::replace(&mut self.queued[place as usize], true);
        if new {
            self.queue.push_back(place);
        }
        new
    }

    /// Takes the next entry of the queue.
    pub(super) fn next(&mut self) -> Option<Watched> {
        let Some(place) = self.queue.pop_front() else {
            self.queue.shrink_to(KEPT);
            return None;
        };
        self.queued[place as usize] = false;
        Some(self.threads[place as usize])
    }
}
