//! The threads and the watchers of a hub, behind its lock.
use super::event::{Committed, Event};
use super::history::{ClosedElicitation, History};
use super::scoped_watchers::ScopedWatchers;
use super::subscribers::Subscriber;
use super::topic::{Change, Frame, OpenElicitation, ThreadState, Topic, View};
use super::watch_all::{All, Phase};
use super::watcher::{Changed, Many, Sink, Watched, Watcher};
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use crate::core::{Header, Timestamp};
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::task::Waker;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) hasher: DefaultHashBuilder,
    /// Keys of `topics`, by thread id.
    pub(super) index: HashTable<u32>,
    pub(super) topics: Slab<Topic>,
    pub(super) watchers: Slab<Watcher>,
    /// Keys of the watchers of every thread.
    pub(super) watch_all: Vec<u32>,
    /// The number of watchers in `watch_all` that are not observers.
    pub(super) seeing_all: u32,
    /// Keys of the watchers of every thread that is in their scope.
    pub(super) watch_within: Vec<u32>,
    /// The scopes of the watchers in `watch_within` that are not observers.
    pub(super) scopes: ScopedWatchers,
    /// The known threads, in the order in which they are listed.
    pub(super) known: BTreeSet<ThreadId>,
    /// The number of the last change: every change of a thread has the next one.
    pub(super) last_change: u64,
    /// Keys of the known topics, by the number of their last change. A watcher of all threads remembers only up to which
    /// number it has read.
    pub(super) changes: BTreeMap<u64, u32>,
    /// Keys of the paused topics, by the number of the change that began their pause.
    pub(super) paused: BTreeMap<u64, u32>,
    /// The revision of threads that are not known.
    pub(super) floor: u64,
    /// Open elicitations.
    pub(super) open: u64,
    /// States that were given to watchers.
    pub(super) deliveries: u64,
    /// States that were replaced by a later one before a watcher got them.
    pub(super) conflations: u64,
    /// The pauses that have ended.
    pub(super) history: History,
    pub(super) closed: bool,
}

/// One step of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A state was given.
    Given,
    /// An entry was read that the watcher does not get.
    Skipped,
    /// Nothing is due.
    Nothing,
}

impl State {
    pub(super) fn find(&self, thread: &ThreadId) -> Option<u32> {
        let hash = self.hasher.hash_one(thread);
        self.index.find(hash, |&key| self.topics[key as usize].id.is(thread)).copied()
    }

    /// A thread as readers see it.
    pub(super) fn view(&self, thread: &ThreadId) -> View {
        let topic = self.find(thread).map(|key| &self.topics[key as usize]);
        let watchers = self.watchers_of(thread, topic);
        View::of(thread, topic.and_then(|topic| topic.known.as_deref()), self.floor, watchers)
    }

    /// The number of streams that see a thread, not counting observers.
    pub(super) fn watchers_of(&self, thread: &ThreadId, topic: Option<&Topic>) -> u32 {
        let by_id = topic.into_iter().flat_map(|topic| topic.subscribers.iter()).map(|subscriber| subscriber.watcher);
        let counted = |&key: &u32| !self.watchers[key as usize].observes;
        small(by_id.filter(counted).count()) + self.seeing_all + self.scopes.of(thread.as_str())
    }

    /// Makes room for more topics.
    pub(super) fn reserve(&mut self, more: usize) {
        self.topics.reserve(more);
        let (topics, hasher) = (&self.topics, &self.hasher);
        self.index.reserve(more, |&key| topics[key as usize].id.hash(hasher));
    }

    /// The topic of a thread; a new one if there is none.
    pub(super) fn topic(&mut self, thread: &ThreadId) -> u32 {
        let hash = self.hasher.hash_one(thread);
        if let Some(&key) = self.index.find(hash, |&key| self.topics[key as usize].id.is(thread)) {
            return key;
        }
        let key = small(self.topics.insert(Topic::new(thread.clone())));
        let (topics, hasher) = (&self.topics, &self.hasher);
        self.index.insert_unique(hash, key, |&key| topics[key as usize].id.hash(hasher));
        key
    }

    /// The topic of a thread that is going to be watched.
    pub(super) fn topic_to_watch(&mut self, thread: &ThreadId) -> u32 {
        let key = self.topic(thread);
        self.topics[key as usize].shrink();
        key
    }

    /// Drops a topic without state and without watchers.
    pub(super) fn drop_if_unused(&mut self, key: u32) {
        let topic = &self.topics[key as usize];
        if topic.known.is_some() || !topic.subscribers.is_empty() {
            return;
        }
        let hash = topic.id.hash(&self.hasher);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == key) {
            entry.remove();
        }
        self.topics.remove(key as usize);
    }

    pub(super) fn know(&mut self, thread: &ThreadId, header: Header) -> u32 {
        let key = self.topic(thread);
        if self.topics[key as usize].known.is_none() {
            self.topics[key as usize].know(thread.clone(), ThreadState::new(header));
            self.known.insert(thread.clone());
        }
        key
    }

    /// Sets a header, which is a change of the thread. Returns the change before it.
    pub(super) fn set_header(&mut self, key: u32, header: Header) -> Change {
        self.last_change += 1;
        let known = self.topics[key as usize].known.as_mut().expect("set only of known threads");
        let before = known.change;
        known.change.begin(self.last_change, header.pause.since.is_some());
        known.header = header;
        known.frame = Frame::default();
        self.changes.remove(&before.number);
        self.changes.insert(self.last_change, key);
        let (ended, begun) = (before.pause(), known.change.pause());
        if ended != begun {
            ended.map(|ended| self.paused.remove(&ended));
            begun.map(|begun| self.paused.insert(begun, key));
        }
        before
    }

    pub(super) fn publish(&mut self, committed: Committed, wakers: &mut Vec<Waker>) {
        let Committed { thread, header, event } = committed;
        if let Event::Forgotten = event {
            self.floor = self.floor.max(header.revision);
            return self.forget(&thread);
        }
        let was_known = matches!(event, Event::Replaced(..)) && self.is_known_at(&thread, header.revision);
        let key = self.know(&thread, header);
        let known = self.topics[key as usize].known.as_deref_mut().expect("known by now");
        let before = known.open.len();
        match event {
            Event::Opened(elicitation, ends) => {
                known.open.push(OpenElicitation { elicitation, ends, at_most: None });
                known.pause_end = None;
            }
            Event::Closed(id, how) => {
                let has_ended = header.pause.since.is_none();
                known.pause_end = has_ended.then_some(how);
                if let Some(place) = known.open.iter().position(|shown| shown.elicitation.id == id) {
                    let elicitation = known.open.remove(place).elicitation;
                    let closed = ClosedElicitation { elicitation, closed: header.changed, how };
                    match known.header.pause.since.filter(|_| has_ended) {
                        Some(since) => self.history.end(&thread, since, known.closed.take(), closed),
                        None => self.history.remember(known.closed.get_or_insert_default(), closed),
                    }
                }
            }
            Event::Renewed(id, ends) => {
                let shown = known.open.iter_mut().find(|shown| shown.elicitation.id == id);
                shown.into_iter().for_each(|shown| shown.ends = ends);
                known.frame = Frame::default();
                return;
            }
            Event::Replaced(open, pause_end) => {
                known.open = open;
                if was_known {
                    // Only leases may differ, which watchers are not notified of.
                    known.frame = Frame::default();
                    return;
                }
                known.pause_end = pause_end;
            }
            Event::Forgotten => {}
        }
        self.open = self.open + known.open.len() as u64 - before as u64;
        let before = self.set_header(key, header);
        self.mark_changed(key, before, wakers);
    }

    fn is_known_at(&self, thread: &ThreadId, revision: u64) -> bool {
        let known = self.find(thread).and_then(|key| self.topics[key as usize].known.as_deref());
        known.is_some_and(|known| known.header.revision == revision)
    }

    /// Forgets the ended pauses, and what open ones remember.
    pub(super) fn begin_history(&mut self, now: Timestamp) {
        self.history = History::default();
        self.history.begin(now);
        let known = self.topics.iter_mut().filter_map(|(_, topic)| topic.known.as_deref_mut());
        known.for_each(|known| known.closed = None);
    }

    /// Forgets a thread whose end of pause and removal were missed: its watchers learn that nothing is open.
    pub(super) fn lose(&mut self, thread: &ThreadId, wakers: &mut Vec<Waker>) {
        let Some(key) = self.find(thread) else { return };
        let topic = &self.topics[key as usize];
        if topic.is_paused() {
            let before = topic.change();
            self.open -= topic.known.as_ref().map_or(0, |known| known.open.len() as u64);
            self.last_change += 1;
            self.mark_changed(key, before, wakers);
        }
        self.forget(thread);
    }

    pub(super) fn forget(&mut self, thread: &ThreadId) {
        if let Some(key) = self.find(thread) {
            if let Some(known) = self.topics[key as usize].known.take() {
                self.changes.remove(&known.change.number);
                known.change.pause().map(|pause| self.paused.remove(&pause));
            }
            self.topics[key as usize].shrink();
            self.known.remove(thread);
            self.drop_if_unused(key);
        }
    }
}

impl State {
    pub(super) fn watch_all(&mut self, key: u32, within: Option<Scope>, observes: bool) -> Changed {
        let keys = if within.is_none() { &mut self.watch_all } else { &mut self.watch_within };
        let place = small(keys.len());
        keys.push(key);
        match &within {
            _ if observes => {}
            None => self.seeing_all += 1,
            Some(scope) => self.scopes.add(scope),
        }
        Changed::All(Box::new(All::new(within, place, self.last_change)))
    }

    /// `in_snapshot`: whether a thread is part of the snapshot.
    pub(super) fn watch_threads(
        &mut self,
        key: u32,
        threads: &[ThreadId],
        in_snapshot: impl Fn(&Topic) -> bool,
    ) -> Changed {
        let mut seen = HashSet::with_capacity(threads.len());
        let mut watched = Vec::with_capacity(threads.len());
        let mut queued = Vec::with_capacity(threads.len());
        for thread in threads.iter().filter(|&thread| seen.insert(thread)) {
            let topic = self.topic_to_watch(thread);
            queued.push(in_snapshot(&self.topics[topic as usize]));
            let subscribers = &mut self.topics[topic as usize].subscribers;
            let place = small(subscribers.len());
            subscribers.push(Subscriber { watcher: key, place: small(watched.len()) });
            watched.push(Watched { topic, place });
        }
        watched.shrink_to_fit();
        match watched[..] {
            [thread] => Changed::One { thread, queued: queued[0] },
            _ => {
                queued.shrink_to_fit();
                let queue = (0..small(watched.len())).filter(|&place| queued[place as usize]).collect();
                Changed::Many(Box::new(Many { queued, threads: watched, queue, places: None }))
            }
        }
    }

    /// Marks a topic as changed for its subscribers and for the watchers of every thread, and collects their wakers.
    pub(super) fn mark_changed(&mut self, key: u32, before: Change, wakers: &mut Vec<Waker>) {
        let topic = &self.topics[key as usize];
        let mut overtaken = 0;
        wakers.reserve(topic.subscribers.len() + self.watch_all.len());
        for subscriber in topic.subscribers.iter() {
            let watcher = &mut self.watchers[subscriber.watcher as usize];
            match &mut watcher.changed {
                Changed::One { queued, .. } => overtaken += u64::from(std::mem::replace(queued, true)),
                Changed::Many(many) => overtaken += u64::from(!many.mark(subscriber.place)),
                Changed::All(_) => {}
            }
            wakers.extend(watcher.waker.take());
        }
        for &key in self.watch_all.iter().chain(&self.watch_within) {
            let watcher = &mut self.watchers[key as usize];
            let Changed::All(all) = &mut watcher.changed else { continue };
            if !all.sees(&topic.id.thread()) {
                all.skip(self.last_change);
                continue;
            }
            overtaken += u64::from(all.is_due(before));
            wakers.extend(watcher.waker.take());
        }
        self.conflations += overtaken;
    }

    /// Gives the sink the state of a topic.
    pub(super) fn give(&mut self, key: u32, sink: &mut impl Sink) {
        self.deliveries += 1;
        let topic = &mut self.topics[key as usize];
        let known = topic.known.as_deref_mut();
        sink.state(&topic.id.thread(), known.map(ThreadState::shown), self.floor);
    }

    /// Gives the sink the next state of a watcher of all threads.
    fn give_next_of_all(&mut self, key: u32, sink: &mut impl Sink) -> Next {
        let Changed::All(all) = &mut self.watchers[key as usize].changed else { return Next::Nothing };
        let topics = &self.topics;
        match all.phase {
            Phase::Snapshot { until } => {
                let unread = self.paused.range((Bound::Excluded(all.read_to), Bound::Included(until)));
                match { unread }.find(|&(_, &topic)| all.sees(&topics[topic as usize].id.thread())) {
                    Some((&pause, &topic)) => {
                        all.read_pause(pause, self.last_change);
                        self.give(topic, sink);
                        Next::Given
                    }
                    None => {
                        (all.read_to, all.phase) = (until, Phase::Changes);
                        Next::Skipped
                    }
                }
            }
            Phase::Changes => {
                let unread = self.changes.range((Bound::Excluded(all.read_to), Bound::Unbounded));
                let is_due = |topic: &Topic| all.sees(&topic.id.thread()) && !all.was_in_snapshot(topic.change());
                let next = { unread }.find(|&(_, &topic)| is_due(&topics[topic as usize]));
                let next = next.map(|(&number, &topic)| (number, topic));
                all.read_changes(next.map_or(self.last_change, |(number, _)| number));
                next.map_or(Next::Nothing, |(_, topic)| {
                    self.give(topic, sink);
                    Next::Given
                })
            }
        }
    }

    /// Takes the next changed thread of a watcher, and gives it to the sink unless it is watched no longer.
    pub(super) fn give_next(&mut self, key: u32, sink: &mut impl Sink) -> Next {
        let Watcher { changed, mark, .. } = &mut self.watchers[key as usize];
        let next = match changed {
            Changed::One { thread, queued } => std::mem::take(queued).then_some(*thread),
            Changed::Many(many) => many.next(),
            Changed::All(_) => return self.give_next_of_all(key, sink),
        };
        let Some(next) = next else { return Next::Nothing };
        *mark = mark.map(|left| left.saturating_sub(1));
        if next.is_vacant() {
            return Next::Skipped;
        }
        self.give(next.topic, sink);
        Next::Given
    }

    pub(super) fn remove_watcher(&mut self, key: u32) {
        let Watcher { changed, observes, .. } = self.watchers.remove(key as usize);
        match changed {
            Changed::All(all) => {
                let keys = if all.within.is_none() { &mut self.watch_all } else { &mut self.watch_within };
                // The last one moves to its place: searching for it would take long with many watchers.
                keys.swap_remove(all.place as usize);
                if let Some(&moved) = keys.get(all.place as usize)
                    && let Changed::All(moved) = &mut self.watchers[moved as usize].changed
                {
                    moved.place = all.place;
                }
                match &all.within {
                    _ if observes => {}
                    None => self.seeing_all -= 1,
                    Some(scope) => self.scopes.remove(scope),
                }
            }
            Changed::One { thread, .. } => self.unsubscribe(thread),
            Changed::Many(many) => {
                let watched = many.threads.into_iter().filter(|thread| !thread.is_vacant());
                watched.for_each(|thread| self.unsubscribe(thread));
            }
        }
    }

    /// Removes one subscriber; the last one moves to its place.
    pub(super) fn unsubscribe(&mut self, watched: Watched) {
        let topic = &mut self.topics[watched.topic as usize];
        topic.subscribers.swap_remove(watched.place as usize);
        if let Some(moved) = topic.subscribers.get(watched.place as usize) {
            match &mut self.watchers[moved.watcher as usize].changed {
                Changed::One { thread, .. } => thread.place = watched.place,
                Changed::Many(many) => many.threads[moved.place as usize].place = watched.place,
                Changed::All(_) => {}
            }
        }
        self.drop_if_unused(watched.topic);
    }
}

/// A slab key or a length as 32 bits. A watcher or a thread takes over 100 bytes, so memory runs out long before 2^32.
pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 threads and watchers fit into memory")
}
