//! The parts of its thread's paused time that a stopwatch did not use, because it had a pause of its own at that time.
//!
//! If the thread turns out to have been paused for less time than was assumed, the newest part of its paused time is
//! taken back, because an assumed pause ended earlier. That time is charged, except for covered parts, which were never
//! credited.
//!
//! The parts are kept in their order, not only their sum: an old part, in which the thread really was paused, must not
//! compensate for a later error.
use std::{ops::Range, time::Duration};

/// Above this number the two oldest parts are merged. A correction hardly ever reaches back that far; if it does, it
/// charges too little.
const MAX_PARTS: usize = 32;

/// Ranges of the thread's paused time, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Covered(Vec<Range<Duration>>);

impl Covered {
    /// How much of the time after `paused_time` is covered.
    pub(super) fn beyond(&self, paused_time: Duration) -> Duration {
        // Parts do not overlap, so the sum is at most the highest of their ends.
        self.0.iter().map(|part| part.end.saturating_sub(part.start.max(paused_time))).sum()
    }

    /// Removes what is after `paused_time`.
    pub(super) fn cut(&mut self, paused_time: Duration) {
        while let Some(last) = self.0.last_mut().filter(|last| last.end > paused_time) {
            last.end = paused_time;
            if !last.is_empty() {
                return;
            }
            self.0.pop();
        }
    }

    /// Covers a part that does not begin before the last one ends.
    pub(super) fn add(&mut self, part: Range<Duration>) {
        match self.0.last_mut() {
            _ if part.is_empty() => {}
            Some(last) if last.end == part.start => last.end = part.end,
            _ => self.0.push(part),
        }
        if self.0.len() > MAX_PARTS {
            let oldest = self.0.remove(0);
            self.0[0].start = oldest.start;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_pauses_the_oldest_may_be_taken_for_one() {
        let s = Duration::from_secs;
        let mut covered = Covered::default();
        (0..100).for_each(|i| covered.add(s(2 * i)..s(2 * i + 1)));
        assert_eq!(covered.beyond(s(190)), s(5));
        assert!(covered.beyond(s(0)) >= s(100), "never less than there is");
        covered.cut(s(193));
        assert_eq!(covered.beyond(s(190)), s(2));
        covered.cut(s(0));
        assert_eq!(covered.beyond(s(0)), s(0));
    }
}
