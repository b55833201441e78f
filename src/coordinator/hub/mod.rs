//! The latest committed state of every thread, for readers and watchers.
//!
//! The coordinator publishes what it has committed, and only that; reads and watches see nothing else. A watcher does
//! not queue events: it remembers which of its threads have changed since it looked, and reads their state when its
//! connection can take more. So what a slow reader costs is bounded by the number of threads it watches, and it always
//! catches up with the latest state.
//!
//! - H1: of one thread, a watcher is given rising revisions, and the last one published.
//! - H2: a watcher is first given each of its threads once, then the end of the snapshot, then changes.
//! - H3: what a watcher holds is bounded by its threads; waking it needs no memory.
//!
//! One lock, held for short and never while a waker runs.
mod list;
mod safe_time;
mod stats;
mod topic;
mod watcher;

pub(crate) use safe_time::SafeTime;
pub(crate) use stats::HubStats;
pub(crate) use topic::Frame;
pub use topic::{OpenElicitation, View};
pub(crate) use watcher::{Interest, Sink, Subscription};

use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Closing, Elicitation, Header, Record, Timestamp};
use crate::sync::{Mutex, MutexGuard};
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::task::Waker;
use topic::{ThreadState, Topic};
use watcher::Watcher;

/// Something that was committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Of which thread.
    pub thread: ThreadId,
    /// Its header now.
    pub header: Header,
    /// What has happened.
    pub event: Event,
}

/// What has happened to a thread.
#[derive(Clone, Debug)]
pub enum Event {
    /// An elicitation was opened, and when its lease ends.
    Opened(Arc<Elicitation>, Option<Timestamp>),
    /// One was closed.
    Closed(ElicitationId, Closing),
    /// The end of a lease has moved: nothing that watchers are told.
    Renewed(ElicitationId, Option<Timestamp>),
    /// The thread was idle for long and is forgotten; the revision in the header is the new floor.
    Forgotten,
}

/// All threads, and who watches them.
#[derive(Debug, Default)]
pub struct Hub {
    state: Mutex<State>,
    horizon: SafeTime,
}

#[derive(Debug, Default)]
struct State {
    hasher: DefaultHashBuilder,
    /// Keys of `topics`, by thread id.
    index: HashTable<u32>,
    topics: Slab<Topic>,
    watchers: Slab<Watcher>,
    /// Keys of the watchers of every thread.
    watch_all: Vec<u32>,
    /// Keys of the watchers of every thread that is in their scope.
    watch_within: Vec<u32>,
    /// The known threads, in the order in which they are listed.
    known: BTreeSet<ThreadId>,
    /// Keys of the topics that are paused, in no order.
    paused: Vec<u32>,
    /// The revision of threads that are not known.
    floor: u64,
    /// Open elicitations.
    open: u64,
    /// States that watchers were given.
    deliveries: u64,
    /// States that were overtaken before a watcher was given them.
    conflations: u64,
    closed: bool,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the hub")
    }

    /// Shows what a store held, before anyone looks.
    pub fn load(&self, records: &[Record], floor: u64) {
        let mut state = self.lock();
        state.floor = floor;
        // All at once: growing step by step would cost a start with many threads as much again.
        state.reserve(records.len());
        state.known = records.iter().map(|record| record.thread.clone()).collect();
        for record in records {
            let key = state.topic(&record.thread);
            let mut known = ThreadState::new(record.header);
            let shown = record
                .open
                .iter()
                .map(|open| OpenElicitation { elicitation: open.elicitation.clone(), ends: open.ends() });
            known.open = shown.collect();
            state.open += known.open.len() as u64;
            state.topics[key as usize].known = Some(Box::new(known));
            state.set_header(key, record.header);
        }
    }

    /// Up to when lengths may be told. Who commits says when a batch begins and when it is published.
    pub fn horizon(&self) -> &SafeTime {
        &self.horizon
    }

    /// Shows what was committed, and wakes whom it concerns.
    pub fn publish(&self, committed: impl IntoIterator<Item = Committed>) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        committed.into_iter().for_each(|committed| state.publish(committed, &mut wakers));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Streams that see this thread.
    pub fn watchers(&self, thread: &ThreadId) -> u32 {
        let state = self.lock();
        let own = state.find(thread).map_or(0, |key| state.topics[key as usize].subscribers.len());
        let within = state.watch_within.iter().filter(|&&key| state.watchers[key as usize].sees(thread)).count();
        u32::try_from(own + state.watch_all.len() + within).unwrap_or(u32::MAX)
    }

    /// The state of one thread.
    pub fn get(&self, thread: &ThreadId) -> View {
        let state = self.lock();
        let known = state.find(thread).and_then(|key| state.topics[key as usize].known.as_deref());
        View::of(thread, known, state.floor)
    }

    /// Ends every watch, and every later one at once.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let wakers: Vec<_> = state.watchers.iter_mut().filter_map(|(_, watcher)| watcher.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Streams that are open.
    pub fn streams(&self) -> usize {
        self.lock().watchers.len()
    }
}

impl State {
    fn find(&self, thread: &ThreadId) -> Option<u32> {
        let hash = self.hasher.hash_one(thread);
        self.index.find(hash, |&key| self.topics[key as usize].thread == *thread).copied()
    }

    /// Makes room for more topics.
    fn reserve(&mut self, more: usize) {
        self.topics.reserve(more);
        let (topics, hasher) = (&self.topics, &self.hasher);
        self.index.reserve(more, |&key| hasher.hash_one(&topics[key as usize].thread));
    }

    /// The topic of a thread; a new one if there is none.
    fn topic(&mut self, thread: &ThreadId) -> u32 {
        let hash = self.hasher.hash_one(thread);
        if let Some(&key) = self.index.find(hash, |&key| self.topics[key as usize].thread == *thread) {
            return key;
        }
        let key = small(self.topics.insert(Topic::new(thread.clone())));
        let (topics, hasher) = (&self.topics, &self.hasher);
        self.index.insert_unique(hash, key, |&key| hasher.hash_one(&topics[key as usize].thread));
        key
    }

    /// Drops a topic that nothing is known of and that nobody watches.
    fn drop_if_unused(&mut self, key: u32) {
        let topic = &self.topics[key as usize];
        if topic.known.is_some() || !topic.subscribers.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(&topic.thread);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == key) {
            entry.remove();
        }
        self.topics.remove(key as usize);
    }

    fn know(&mut self, thread: &ThreadId, header: Header) -> u32 {
        let key = self.topic(thread);
        if self.topics[key as usize].known.is_none() {
            self.topics[key as usize].known = Some(Box::new(ThreadState::new(header)));
            self.known.insert(thread.clone());
        }
        key
    }

    /// Takes over a header, and keeps the list of paused threads.
    fn set_header(&mut self, key: u32, header: Header) {
        let known = self.topics[key as usize].known.as_mut().expect("set only of known threads");
        known.header = header;
        known.frame = Frame::default();
        let (is, was) = (header.pause.since.is_some(), known.paused_place);
        match (is, was) {
            (true, None) => {
                known.paused_place = Some(small(self.paused.len()));
                self.paused.push(key);
            }
            (false, Some(place)) => {
                known.paused_place = None;
                self.paused.swap_remove(place as usize);
                if let Some(&moved) = self.paused.get(place as usize) {
                    let moved = self.topics[moved as usize].known.as_mut().expect("paused threads are known");
                    moved.paused_place = Some(place);
                }
            }
            _ => {}
        }
    }

    fn publish(&mut self, committed: Committed, wakers: &mut Vec<Waker>) {
        let Committed { thread, header, event } = committed;
        if let Event::Forgotten = event {
            self.floor = self.floor.max(header.revision);
            return self.forget(&thread);
        }
        let key = self.know(&thread, header);
        let known = self.topics[key as usize].known.as_mut().expect("known by now");
        let before = known.open.len();
        match event {
            Event::Opened(elicitation, ends) => known.open.push(OpenElicitation { elicitation, ends }),
            Event::Closed(id, _) => known.open.retain(|shown| shown.elicitation.id != id),
            Event::Renewed(id, ends) => {
                let shown = known.open.iter_mut().find(|shown| shown.elicitation.id == id);
                return shown.into_iter().for_each(|shown| shown.ends = ends);
            }
            Event::Forgotten => {}
        }
        self.open = self.open + known.open.len() as u64 - before as u64;
        self.set_header(key, header);
        self.mark_changed(key, wakers);
    }

    fn forget(&mut self, thread: &ThreadId) {
        if let Some(key) = self.find(thread) {
            self.topics[key as usize].known = None;
            self.known.remove(thread);
            self.drop_if_unused(key);
        }
    }
}

/// A slab key or a length as 32 bits: a watcher or a thread takes over 100 bytes, so that memory ends long before.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 threads and watchers fit into memory")
}

#[cfg(test)]
mod tests;
