//! Reading many threads, a page at a time, in the order of their ids.
use super::{Hub, State, View};
use crate::core::types::ThreadId;
use std::collections::BinaryHeap;
use std::ops::Bound;

impl Hub {
    /// The first `size` threads after `after`: the paused ones, or with `include_running` all that are known. And
    /// whether there are more.
    pub fn list(&self, after: Option<&str>, size: usize, include_running: bool) -> (Vec<View>, bool) {
        let state = self.lock();
        let mut ids = match include_running {
            true => state.known_after(after, size + 1),
            false => state.paused_after(after, size + 1),
        };
        let more = ids.len() > size;
        ids.truncate(size);
        let view = |thread: &ThreadId| {
            let known = state.find(thread).and_then(|key| state.topics[key as usize].known.as_deref());
            View::of(thread, known, state.floor)
        };
        (ids.iter().map(view).collect(), more)
    }
}

impl State {
    fn known_after(&self, after: Option<&str>, size: usize) -> Vec<ThreadId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.known.range::<str, _>((from, Bound::Unbounded)).take(size).cloned().collect()
    }

    /// The smallest of an unordered list: one pass with a heap of `size`. Keeping an order instead would cost every
    /// pause and resume.
    fn paused_after(&self, after: Option<&str>, size: usize) -> Vec<ThreadId> {
        let mut smallest = BinaryHeap::with_capacity(size + 1);
        for &key in &self.paused {
            let thread = &self.topics[key as usize].thread;
            let wanted = after.is_none_or(|after| thread.as_str() > after);
            if wanted && (smallest.len() < size || smallest.peek().is_some_and(|&largest| thread < largest)) {
                smallest.push(thread);
                if smallest.len() > size {
                    smallest.pop();
                }
            }
        }
        smallest.into_sorted_vec().into_iter().cloned().collect()
    }
}
