//! The latest committed state of every thread, for readers and watchers.
//!
//! The coordinator publishes committed changes only; reads and watches see nothing else. A watcher does not queue events:
//! it remembers which of its threads have changed since it looked, and reads their state when its connection can take
//! more. So a slow reader needs no more memory than a fast one, and it always catches up with the latest state.
//!
//! - H1: of one thread, a watcher is given rising revisions, and the last one published.
//! - H2: a watcher is first given each of its threads once, then the end of the snapshot, then changes.
//! - H3: a watcher of named threads holds a few bytes for each, a watcher of all threads only the number of the last change
//!   that it has read; waking it needs no memory.
//!
//! One lock, held for short and never while a waker runs.
mod change;
mod event;
mod history;
mod list;
mod pauses;
mod safe_time;
mod scoped_watchers;
mod state;
mod stats;
mod subscription;
mod topic;
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
use topic::ThreadState;

/// All threads, and who watches them.
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

    /// Shows what a store held, before anyone looks. The history of pauses begins.
    pub fn load(&self, records: &[Record], floor: u64, epoch: u64, now: Timestamp) {
        self.epoch.store(epoch, Relaxed);
        let mut state = self.lock();
        state.history.begin(now);
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

    /// The time up to which durations are exact. The writer reports the begin of each batch and its publication.
    pub fn safe_time(&self) -> &SafeTime {
        &self.safe_time
    }

    /// The epoch of the store that the states come from.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Shows what was committed, and wakes whom it concerns.
    pub fn publish(&self, committed: impl IntoIterator<Item = Committed>) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        committed.into_iter().for_each(|committed| state.publish(committed, &mut wakers));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Streams that see this thread, without observers.
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

    /// Streams that are open.
    pub fn streams(&self) -> usize {
        self.lock().watchers.len()
    }
}

#[cfg(test)]
mod tests;
