//! Reading the pauses that have ended: the last one first, a page at a time.
use super::Hub;
use super::history::EndedPause;
use crate::core::Timestamp;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use std::ops::Range;
use std::sync::Arc;

/// Which pauses a reader wants.
#[derive(Clone, Debug)]
pub struct PauseFilter<'a> {
    /// Only pauses of these threads.
    pub scope: &'a Scope,
    /// Only pauses of this thread; `None`: of any thread.
    pub thread: Option<&'a ThreadId>,
    /// Only pauses that ended in this interval, in nanoseconds of the wall clock.
    pub ended: Range<i64>,
}

impl PauseFilter<'_> {
    fn matches(&self, pause: &EndedPause) -> bool {
        self.ended.contains(&pause.ended.wall)
            && self.thread.is_none_or(|thread| pause.thread == *thread)
            && self.scope.contains(&pause.thread)
    }
}

/// Some ended pauses.
#[derive(Debug)]
pub struct PausePage {
    /// The last one first.
    pub pauses: Vec<Arc<EndedPause>>,
    /// Whether there are more.
    pub more: bool,
    /// No pause that ended after this is missing, in nanoseconds of the wall clock.
    pub complete_from: i64,
}

/// Pauses that are read per lock of the hub, so that no call waits for all of them.
const AT_ONCE: usize = 512;

impl Hub {
    /// Up to `size` ended pauses that match and have numbers below `below`, the last one first.
    pub fn pauses(&self, below: u64, size: usize, filter: &PauseFilter<'_>) -> PausePage {
        let mut pauses = Vec::new();
        let mut next = below;
        loop {
            let state = self.lock();
            let mut looked_at = 0;
            for pause in state.history.below(next).take(AT_ONCE) {
                (looked_at, next) = (looked_at + 1, pause.number);
                if filter.matches(pause) {
                    if pauses.len() == size {
                        return PausePage { pauses, more: true, complete_from: state.history.complete_from() };
                    }
                    pauses.push(pause.clone());
                }
            }
            if looked_at < AT_ONCE {
                return PausePage { pauses, more: false, complete_from: state.history.complete_from() };
            }
        }
    }

    /// When the history began: it identifies the history of this process.
    pub fn history_began(&self) -> Timestamp {
        self.lock().history.began()
    }
}
