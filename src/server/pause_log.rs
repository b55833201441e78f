//! A line of the log for each pause of a thread, and one for its end: who waits, for what, and how long it took.
//!
//! The target is `pausewatch::pauses`. By default every pause is logged, because people are asked only now and then. A
//! server with thousands of pauses per second would spend its time on this, so the number of lines per second is
//! limited, and a line says how many are missing.
use crate::coordinator::quota::Rate;
use crate::coordinator::{ChangeObserver, Changed};
use crate::core::{Effect, PauseEnd};
use std::time::Duration;

const TARGET: &str = "pausewatch::pauses";
/// The maximum of lines per second: far more than anybody reads, and a thousandth of what a core can write.
const LINES: u64 = 100;

pub(super) struct PauseLog {
    rate: Rate,
    every_one: bool,
    missing: u64,
}

impl PauseLog {
    /// `every_one`: without the limit of lines.
    pub(super) fn new(every_one: bool) -> Self {
        PauseLog { rate: Rate::default(), every_one, missing: 0 }
    }

    /// Whether there may be one more line.
    fn may_log(&mut self, now: i64) -> bool {
        if self.every_one || self.rate.take(LINES, Duration::from_nanos(now.max(0).unsigned_abs())).is_ok() {
            self.tell_missing();
            return true;
        }
        self.missing += 1;
        false
    }

    fn tell_missing(&mut self) {
        if self.missing > 0 {
            tracing::info!(target: TARGET, lines = self.missing, "pauses and resumes beyond the limit of the log");
            self.missing = 0;
        }
    }
}

impl Drop for PauseLog {
    fn drop(&mut self) {
        self.tell_missing();
    }
}

impl ChangeObserver for PauseLog {
    fn changed(&mut self, changed: &Changed<'_>) {
        let Changed { now, thread, change, by } = *changed;
        let (before, after) = (change.before.pause, change.after.pause);
        if before.since.is_some() == after.since.is_some() || !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return;
        }
        if !self.may_log(now.boot) {
            return;
        }
        let caller = by.map(|by| by.key().name());
        let (thread, caller) = (thread.as_str(), caller.as_deref());
        match &change.effect {
            Effect::Opened(open) => {
                let (holder, reason) = (&*open.elicitation.holder, &*open.elicitation.reason);
                tracing::info!(target: TARGET, thread, holder, reason, caller, "paused");
            }
            Effect::Closed { open, closing, .. } => {
                let (holder, reason) = (&*open.elicitation.holder, &*open.elicitation.reason);
                let ended_by = match closing.how {
                    PauseEnd::Decremented | PauseEnd::Released => "decrement",
                    PauseEnd::Expired => "lease",
                    PauseEnd::MaxPause => "max_pause",
                };
                let paused_for = before.open_for(now).unwrap_or_default().as_secs_f64();
                tracing::info!(target: TARGET, thread, holder, reason, caller, ended_by, paused_for, "resumed");
            }
            Effect::Renewed { .. } => {}
        }
    }
}

/// Passes changes on to several observers.
pub(super) struct ChangeObservers(pub(super) Vec<Box<dyn ChangeObserver>>);

impl ChangeObserver for ChangeObservers {
    fn changed(&mut self, changed: &Changed<'_>) {
        self.0.iter_mut().for_each(|witness| witness.changed(changed));
    }

    fn is_full(&self) -> bool {
        self.0.iter().any(|witness| witness.is_full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_hundred_lines_and_the_next_as_many() {
        const SECOND: i64 = 1_000_000_000;
        let mut log = PauseLog::new(false);
        let mut logged = |now| (0..150).filter(|_| log.may_log(now)).count();
        assert_eq!((logged(9 * SECOND), logged(10 * SECOND), logged(10 * SECOND + SECOND / 10)), (100, 100, 10));
        assert_eq!(log.missing, 140, "those since the last line that reported them");
        assert_eq!((0..150).filter(|_| PauseLog::new(true).may_log(0)).count(), 150);
    }
}
