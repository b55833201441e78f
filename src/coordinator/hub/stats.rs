//! Figures of the hub for the metrics.
use super::Hub;
use crate::core::Timestamp;
use std::ops::Bound;

/// Topics that are read per lock of the hub, so that calls do not wait while a hundred thousand paused threads are
/// read.
const AT_ONCE: usize = 4_096;

/// What the hub holds, and what it has done since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubStats {
    /// Open streams.
    pub streams: usize,
    /// Known threads.
    pub threads: usize,
    /// Paused threads.
    pub paused: usize,
    /// Open elicitations.
    pub open: u64,
    /// States that were given to streams.
    pub deliveries: u64,
    /// States that were replaced by a later one before a stream got them.
    pub conflations: u64,
}

/// The open pauses, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenPauses {
    /// When the oldest one began; `None`: there is none.
    pub oldest: Option<Timestamp>,
    /// Paused threads that no stream sees, not counting observers.
    pub unwatched: u64,
}

impl Hub {
    /// The present figures.
    pub fn figures(&self) -> HubStats {
        let state = self.lock();
        HubStats {
            streams: state.watchers.len(),
            threads: state.known.len(),
            paused: state.paused.len(),
            open: state.open,
            deliveries: state.deliveries,
            conflations: state.conflations,
        }
    }

    /// The pauses that are open.
    pub fn open_pauses(&self) -> OpenPauses {
        let mut pauses = OpenPauses::default();
        // In the order in which they began, so that a pause that begins meanwhile is read too.
        let mut read_to = 0;
        loop {
            let state = self.lock();
            let is_seen_by_all = state.seeing_all > 0;
            let (mut count, after) = (0, (Bound::Excluded(read_to), Bound::Unbounded));
            for (&number, &key) in state.paused.range(after).take(AT_ONCE) {
                let topic = &state.topics[key as usize];
                let since = topic.known.as_ref().and_then(|known| known.header.pause.since);
                pauses.oldest = since.into_iter().chain(pauses.oldest).min_by_key(|moment| moment.boot);
                let is_unwatched = !is_seen_by_all && state.watchers_of(&topic.id.thread(), Some(topic)) == 0;
                pauses.unwatched += u64::from(is_unwatched);
                (count, read_to) = (count + 1, number);
            }
            if count < AT_ONCE {
                return pauses;
            }
        }
    }
}
