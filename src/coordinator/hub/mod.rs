//! The latest committed state of every thread, for readers and watchers.
//!
//! The coordinator publishes committed changes only; reads and watches see nothing else. A watcher does not queue events:
//! it remembers which of its threads have changed since it looked, and reads their state when its connection can take
//! more. So a slow reader needs no more memory than a fast one, and it always catches up with the latest state.
//!
//! - H1: for each thread, a watcher gets rising revisions, and in the end the last one published.
//! - H2: a watcher first gets each of its threads once, then the end of the snapshot, then changes.
//! - H3: a watcher of named threads takes a few bytes per thread; a watcher of all threads remembers only the number of
//!   the last change that it has read. Waking a watcher allocates nothing.
//!
//! There is one lock. It is held for a short time, and never while a waker runs.
mod change;
mod event;
mod history;
mod list;
mod pauses;
mod safe_time;
mod scoped_watchers;
mod state;
mod stats;
mod subscribers;
mod subscription;
mod topic;
mod topic_id;
mod watch_all;
mod watcher;

pub use event::{Committed, Event};
pub use history::{ClosedElicitation, EndedPause, History};
pub use pauses::PauseFilter;
pub(crate) use safe_time::SafeTime;
pub(crate) use stats::{HubStats, OpenPauses};
pub(crate) use subscription::Subscription;
pub(crate) use topic::{Frame, Shown};
pub use topic::{OpenElicitation, View};
pub(crate) use watcher::{Interest, Sink};

use crate::core::types::ThreadId;
use crate::core::{Record, Timestamp};
use crate::sync::{Mutex, MutexGuard};
use state::State;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use topic::{Change, ThreadState};

/// All threads and their watchers.
#[derive(Debug, Default)]
pub struct Hub {
    state: Mutex<State>,
    safe_time: SafeTime,
    /// Set once, before anyone looks.
    epoch: AtomicU64,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the hub")
    }

    /// Shows the content of a store, and begins the history of pauses. Watches of a hub that already shows something
    /// continue, and get the differences.
    pub fn load<'a, R>(&self, records: R, floor: u64, epoch: u64, now: Timestamp)
    where
        R: IntoIterator<Item = &'a Record, IntoIter: ExactSizeIterator>,
    {
        self.epoch.store(epoch, Relaxed);
        let records = records.into_iter();
        let mut wakers = Vec::new();
        let mut state = self.lock();
        state.begin_history(now);
        state.floor = floor;
        if state.known.is_empty() {
            // Reserved at once: growing step by step would double the time of this for many threads.
            state.reserve(records.len());
            let mut known = Vec::with_capacity(records.len());
            let mut changes = Vec::with_capacity(records.len());
            let mut paused = Vec::new();
            for record in records {
                known.push(record.thread.clone());
                let key = state.topic(&record.thread);
                let mut shown = ThreadState::new(record.header);
                shown.open = record.open.iter().map(OpenElicitation::of).collect();
                state.open += shown.open.len() as u64;
                state.last_change += 1;
                shown.change.begin(state.last_change, record.header.pause.since.is_some());
                changes.push((shown.change.number, key));
                paused.extend(shown.change.pause().map(|begun| (begun, key)));
                state.topics[key as usize].know(record.thread.clone(), shown);
                state.mark_changed(key, Change::default(), &mut wakers);
            }
            state.known = known.into_iter().collect();
            state.changes = changes.into_iter().collect();
            state.paused = paused.into_iter().collect();
        } else {
            let mut gone = state.known.clone();
            for record in records {
                gone.remove(&record.thread);
                state.publish(Committed::replaced(record), &mut wakers);
            }
            gone.iter().for_each(|thread| state.lose(thread, &mut wakers));
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The time up to which durations are exact. The writer reports when a batch begins and when it is published.
    pub fn safe_time(&self) -> &SafeTime {
        &self.safe_time
    }

    /// The epoch of the store that the states come from.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Shows committed changes, and wakes the watchers of the changed threads.
    pub fn publish(&self, committed: impl IntoIterator<Item = Committed>) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        committed.into_iter().for_each(|committed| state.publish(committed, &mut wakers));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The number of streams that see this thread, not counting observers.
    pub fn watchers(&self, thread: &ThreadId) -> u32 {
        let state = self.lock();
        state.watchers_of(thread, state.find(thread).map(|key| &state.topics[key as usize]))
    }

    /// The state of one thread.
    pub fn get(&self, thread: &ThreadId) -> View {
        self.lock().view(thread)
    }

    /// Ends every watch, and every later one at once.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let wakers: Vec<_> = state.watchers.iter_mut().filter_map(|(_, watcher)| watcher.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends one part in `of` of the watches. With one call per `part` in turn, all watches that were open at the first
    /// call end, part by part.
    pub fn end(&self, part: usize, of: usize) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        for (_, watcher) in state.watchers.iter_mut().filter(|(key, _)| key % of == part) {
            watcher.is_over = true;
            wakers.extend(watcher.waker.take());
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// After [`Hub::close`]: watches are possible again.
    pub fn reopen(&self) {
        self.lock().closed = false;
    }

    /// The number of open streams.
    pub fn streams(&self) -> usize {
        self.lock().watchers.len()
    }
}

#[cfg(test)]
mod tests;
