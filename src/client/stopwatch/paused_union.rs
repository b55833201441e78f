//! How long any of several threads has been paused: their union, in which overlapping time counts once.
//!
//! Each thread contributes its paused time since it joined. The union is computed in windows, which end at each change
//! of any thread: within a window, a connected thread is paused throughout or not at all. So the union grows by the sum
//! of the growths of the threads, and at most by the length of the window.
//!
//! Pure: no clock is read.
//! 1. Never less than the union: a command must not be killed for time in which one of its threads was paused (G1).
//! 2. While all threads are connected, it is exact, up to the delay of a message.
//! 3. While a thread is disconnected, no window ends: the paused times of all threads within the gap are added up, up
//!    to the length of the gap, because their overlap is unknown.
//! 4. Paused time before the window, from a late state, is added completely.
//! 5. Never more than the time since the start.
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct PausedUnion {
    started: Instant,
    /// When the window began, and the union then.
    window: (Instant, Duration),
}

impl PausedUnion {
    /// The union of one thread, which has been paused for `paused_time` since `started`. Its window begins at `now`.
    pub(super) fn with(started: Instant, now: Instant, paused_time: Duration) -> Self {
        Self { started, window: (now, paused_time) }
    }

    /// The union at `now`, if the paused times of the threads have grown by `growths` since the window began.
    pub(super) fn total(&self, now: Instant, growths: impl Iterator<Item = Duration>) -> Duration {
        let (began, before) = self.window;
        let length = now.saturating_duration_since(began);
        let (mut within, mut late) = (Duration::ZERO, Duration::ZERO);
        for growth in growths {
            within = within.saturating_add(growth.min(length));
            late = late.saturating_add(growth.saturating_sub(length));
        }
        let total = before.saturating_add(within.min(length)).saturating_add(late);
        total.min(now.saturating_duration_since(self.started))
    }

    /// Ends the window. Returns whether it did: a window never ends before it began.
    pub(super) fn end_window(&mut self, now: Instant, growths: impl Iterator<Item = Duration>) -> bool {
        let is_later = now >= self.window.0;
        if is_later {
            self.window = (now, self.total(now, growths));
        }
        is_later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn total(union: &PausedUnion, now: Instant, growths: &[u64]) -> Duration {
        union.total(now, growths.iter().map(|growth| s(*growth)))
    }

    #[test]
    fn time_counts_once_however_many_threads_are_paused() {
        let start = Instant::now();
        let mut union = PausedUnion::with(start, start, s(0));
        // One is paused from 0 to 10, another one from 5 to 15, a third one never.
        for (at, growths, expected) in
            [(5, [5, 0, 0], 5), (10, [5, 5, 0], 10), (15, [0, 5, 0], 15), (20, [0, 0, 0], 15)]
        {
            let now = start + s(at);
            assert_eq!(total(&union, now, &growths), s(expected), "at {at}");
            assert!(union.end_window(now, growths.iter().map(|growth| s(*growth))));
        }
    }

    #[test]
    fn within_a_gap_the_sum_counts_up_to_its_length() {
        let start = Instant::now();
        let mut union = PausedUnion::with(start, start, s(0));
        union.end_window(start + s(100), [s(0), s(0)].into_iter());
        // 60 s without a connection: paused for 20 s and for 30 s, perhaps one after the other.
        assert_eq!(total(&union, start + s(160), &[20, 30]), s(50));
        assert_eq!(total(&union, start + s(160), &[50, 40]), s(60));
    }

    #[test]
    fn g1_what_arrives_late_counts_beside_what_is_known() {
        let start = Instant::now();
        let mut union = PausedUnion::with(start, start, s(0));
        union.end_window(start + s(10), [s(0), s(0)].into_iter());
        // The second one was paused for 4 s before the window, which is learned now.
        assert_eq!(total(&union, start + s(11), &[0, 5]), s(5));
        assert_eq!(total(&union, start + s(11), &[1, 90]), s(11), "never more than all time");
        assert!(!union.end_window(start, [s(0)].into_iter()), "a window does not end before it began");
    }
}
