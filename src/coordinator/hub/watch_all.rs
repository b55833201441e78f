//! A watch of all threads. It queues nothing: it reads the hub's lists, which are ordered by change, and remembers its
//! position.
//!
//! For the snapshot it reads the list of pauses up to the last change before the watch began, each thread in its
//! present state. Then it reads all later changes, except those that a state of the snapshot already included.
use super::topic::Change;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;

#[derive(Debug)]
pub(super) struct All {
    /// `None`: every thread.
    pub(super) within: Option<Scope>,
    /// Its place in the hub's list of watchers.
    pub(super) place: u32,
    pub(super) phase: Phase,
    /// The number of the last entry of the list that was read.
    pub(super) read_to: u64,
    /// The parts of the snapshot, in the order of their pauses: one for each time that the connection could take more.
    parts: Vec<Part>,
}

/// Which list is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// The pauses, up to this number.
    Snapshot { until: u64 },
    /// The changes.
    Changes,
}

/// The pauses from the end of the previous part up to `pause` were read when the last change was `read_at`.
#[derive(Debug)]
struct Part {
    pause: u64,
    read_at: u64,
}

impl All {
    pub(super) fn new(within: Option<Scope>, place: u32, last_change: u64) -> Self {
        All { within, place, phase: Phase::Snapshot { until: last_change }, read_to: 0, parts: Vec::new() }
    }

    pub(super) fn sees(&self, thread: &ThreadId) -> bool {
        self.within.as_ref().is_none_or(|scope| scope.contains(thread))
    }

    /// Notes that a pause was read for the snapshot, after the change `last_change`.
    pub(super) fn read_pause(&mut self, pause: u64, last_change: u64) {
        self.read_to = pause;
        match self.parts.last_mut().filter(|part| part.read_at == last_change) {
            Some(part) => part.pause = pause,
            None => self.parts.push(Part { pause, read_at: last_change }),
        }
    }

    /// Notes that changes were read up to this one.
    pub(super) fn read_changes(&mut self, number: u64) {
        self.read_to = number;
        if self.parts.last().is_some_and(|part| part.read_at <= number) {
            self.parts = Vec::new();
        }
    }

    /// Whether the snapshot and the changes up to this one were read.
    pub(super) fn has_read(&self, number: u64) -> bool {
        matches!(self.phase, Phase::Changes) && self.read_to >= number
    }

    /// Whether a state in the snapshot included this change.
    pub(super) fn was_in_snapshot(&self, change: Change) -> bool {
        let part =
            change.pause().and_then(|pause| self.parts.get(self.parts.partition_point(|part| part.pause < pause)));
        part.is_some_and(|part| change.number <= part.read_at)
    }

    /// Whether this change of a thread is still to be read.
    pub(super) fn is_due(&self, change: Change) -> bool {
        match self.phase {
            Phase::Snapshot { until } if change.pause().is_some_and(|pause| pause <= until) => {
                change.pause() > Some(self.read_to)
            }
            Phase::Snapshot { until } => change.number > until,
            Phase::Changes => change.number > self.read_to && !self.was_in_snapshot(change),
        }
    }

    /// Skips a change of a thread that it does not watch, if it has read all changes before: then it need not search
    /// for the next one that it watches.
    pub(super) fn skip(&mut self, number: u64) {
        if matches!(self.phase, Phase::Changes) && self.read_to + 1 == number {
            self.read_to = number;
        }
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.parts.capacity()
    }
}
