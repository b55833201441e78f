//! What the first state after a stopwatch joined a thread says about the paused time.
use std::time::{Duration, Instant};

/// The paused time of the thread, by that state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Baseline {
    /// When the state arrived.
    pub(super) at: Instant,
    /// The paused time then.
    pub(super) paused_time: Duration,
    /// The length of the open pause then; zero while the thread runs.
    pub(super) open_pause: Duration,
}

impl Baseline {
    /// The paused time since a stopwatch joined at `joined`, when it assumed `assumed`. It is at most the time since the
    /// join, because the difference to `assumed` may be older; and at least the part of the open pause since the join.
    pub(super) fn since_join(&self, joined: Instant, assumed: Duration) -> Duration {
        let length = self.at.saturating_duration_since(joined);
        self.paused_time.saturating_sub(assumed).max(self.open_pause).min(length)
    }
}
