//! Reading many threads, a page at a time, in the order of their ids.
use super::{Hub, State, View};
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use std::borrow::Cow;
use std::collections::BinaryHeap;
use std::ops::Bound;

impl Hub {
    /// The first `size` threads of `scope` after `after`, and whether there are more. Only the paused ones, or with
    /// `include_running` all known ones.
    pub fn list(&self, after: Option<&str>, size: usize, include_running: bool, scope: &Scope) -> (Vec<View>, bool) {
        let state = self.lock();
        let mut ids = match include_running {
            true => state.known_after(after, size + 1, scope),
            false => state.paused_after(after, size + 1, scope),
        };
        let more = ids.len() > size;
        ids.truncate(size);
        (ids.iter().map(|thread| state.view(thread)).collect(), more)
    }
}

impl State {
    fn known_after(&self, after: Option<&str>, size: usize, scope: &Scope) -> Vec<ThreadId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let Some(areas) = scope.areas() else {
            return self.known.range::<str, _>((from, Bound::Unbounded)).take(size).cloned().collect();
        };
        // Area by area: the cost of a narrow scope does not depend on the number of threads.
        let within = areas.iter().flat_map(|area| {
            let from =
                after.filter(|&after| after >= area.text()).map_or(Bound::Included(area.text()), Bound::Excluded);
            self.known.range::<str, _>((from, Bound::Unbounded)).take_while(|thread| area.contains(thread.as_str()))
        });
        within.take(size).cloned().collect()
    }

    fn is_paused(&self, thread: &ThreadId) -> bool {
        self.find(thread).is_some_and(|key| self.topics[key as usize].is_paused())
    }

    /// The `size` smallest ids of an unordered list: one pass with a heap. A sorted list would cost every pause and
    /// resume.
    fn paused_after(&self, after: Option<&str>, size: usize, scope: &Scope) -> Vec<ThreadId> {
        if let Some(threads) = scope.threads() {
            let later = threads.into_iter().filter(|thread| after.is_none_or(|after| thread.as_str() > after));
            return later.filter(|thread| self.is_paused(thread)).take(size).collect();
        }
        let mut smallest = BinaryHeap::with_capacity(size + 1);
        for &key in self.paused.values() {
            let thread = self.topics[key as usize].id.thread();
            let wanted = after.is_none_or(|after| thread.as_str() > after);
            if wanted
                && (smallest.len() < size || smallest.peek().is_some_and(|largest| thread < *largest))
                && scope.contains(&thread)
            {
                smallest.push(thread);
                if smallest.len() > size {
                    smallest.pop();
                }
            }
        }
        smallest.into_sorted_vec().into_iter().map(Cow::into_owned).collect()
    }
}
