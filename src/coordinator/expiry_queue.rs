//! The ends of all leases in their order. The records have the leases themselves.
use crate::core::Timestamp;
use crate::core::types::{ElicitationId, ThreadId};
use std::collections::BTreeSet;

/// Sorted by end, then by thread, so that a simulation can be replayed.
#[derive(Debug, Default)]
pub(super) struct ExpiryQueue(BTreeSet<(i64, ThreadId, ElicitationId)>);

impl ExpiryQueue {
    /// The end of a lease moves from `before` to `after`; `None`: it has none.
    pub(super) fn set(
        &mut self,
        thread: &ThreadId,
        id: ElicitationId,
        before: Option<Timestamp>,
        after: Option<Timestamp>,
    ) {
        if let Some(before) = before {
            self.0.remove(&(before.boot, thread.clone(), id));
        }
        if let Some(after) = after {
            self.0.insert((after.boot, thread.clone(), id));
        }
    }

    /// When the first one ends.
    pub(super) fn first_end(&self) -> Option<i64> {
        self.0.first().map(|(end, ..)| *end)
    }

    /// The first `at_most` leases that had ended by `now`.
    pub(super) fn ended(&self, now: Timestamp, at_most: usize) -> Vec<(ThreadId, ElicitationId)> {
        let ended = self.0.iter().take_while(|(end, ..)| *end <= now.boot).take(at_most);
        ended.map(|(_, thread, id)| (thread.clone(), *id)).collect()
    }
}
