//! The time charged to one stopwatch: wall time, minus its thread's paused time, minus its own pauses.
//!
//! Pure: no clock is read; `now` and the thread's paused time are arguments. The charged time is stored up to a mark and
//! computed from there, so each operation is a few additions, however long the history.
//!
//! 1. The charged time is never negative, and the reported one never decreases: after a late credit it stands still until
//!    the credit is used up.
//! 2. Where a pause of the stopwatch and one of its thread overlap, the time counts once. If the thread was not paused then
//!    after all, the time is still not charged: see [`Covered`].
//! 3. All arithmetic saturates.
use super::{baseline::Baseline, covered::Covered};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Meter {
    limit: Option<Duration>,
    /// Charged up to `mark`, when the thread's paused time was `paused_at_mark`.
    charged: Duration,
    mark: Instant,
    paused_at_mark: Duration,
    /// When the stopwatch began to follow its thread, and the paused time that was assumed then.
    join: (Instant, Duration),
    /// The stopwatch's own open pauses.
    pauses: u32,
    covered: Covered,
    /// The highest elapsed time returned so far.
    reported: Duration,
}

impl Meter {
    pub(super) fn new(limit: Option<Duration>, now: Instant) -> Self {
        let zero = Duration::ZERO;
        Self {
            limit,
            charged: zero,
            mark: now,
            paused_at_mark: zero,
            join: (now, zero),
            pauses: 0,
            covered: Covered::default(),
            reported: zero,
        }
    }

    /// Whether the stopwatch has open pauses of its own.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses > 0
    }

    pub(super) fn pause(&mut self, now: Instant, paused_time: Duration) {
        self.settle(now, paused_time);
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Ends one of the stopwatch's own pauses; returns whether it was the last.
    pub(super) fn resume(&mut self, now: Instant, paused_time: Duration) -> bool {
        self.settle(now, paused_time);
        self.pauses = self.pauses.saturating_sub(1);
        self.pauses == 0
    }

    /// Follows another thread, whose paused time is `new`; `old` is that of the thread followed before.
    pub(super) fn follow(&mut self, now: Instant, old: Duration, new: Duration) {
        self.settle(now, old);
        self.set_paused_at_mark(new);
        self.join = (now, new);
    }

    /// Corrects the paused time that was assumed when the stopwatch joined its thread. Time that was settled since is never
    /// charged again: it may contain pauses of the stopwatch's own.
    pub(super) fn set_baseline(&mut self, baseline: &Baseline) {
        let (since, assumed) = self.join;
        let growth = baseline.since_join(since, assumed);
        self.settle(baseline.at, assumed.saturating_add(growth).max(self.paused_at_mark));
        self.set_paused_at_mark(baseline.paused_time);
    }

    /// Continues with another paused time. The covered parts so far are final: no later correction applies to them.
    fn set_paused_at_mark(&mut self, paused_time: Duration) {
        self.paused_at_mark = paused_time;
        self.covered.clear();
    }

    /// Moves the mark to `now`.
    pub(super) fn settle(&mut self, now: Instant, paused_time: Duration) {
        let charged = self.charged(now, paused_time);
        self.move_mark(charged, now, paused_time);
    }

    fn move_mark(&mut self, charged: Duration, now: Instant, paused_time: Duration) {
        self.covered.cut(paused_time);
        if self.is_paused() {
            let span = now.saturating_duration_since(self.mark);
            // Paused time beyond our own pause is older.
            self.covered.add(paused_time.saturating_sub(span).max(self.paused_at_mark)..paused_time);
        }
        (self.charged, self.mark, self.paused_at_mark) = (charged, self.mark.max(now), paused_time);
    }

    /// The charged time, as exactly as it is known now.
    pub(super) fn charged(&mut self, now: Instant, paused_time: Duration) -> Duration {
        let span = signed(now.saturating_duration_since(self.mark));
        // Negative if the thread was paused for less time than was assumed while disconnected.
        let growth = signed(paused_time) - signed(self.paused_at_mark);
        let since_mark = match self.pauses {
            0 => span - growth,
            // Nothing of `span` is charged; paused time beyond it is from before the mark.
            _ if growth > span => span - growth,
            _ => (-growth).max(0),
        };
        let charged = signed(self.charged) + since_mark - signed(self.covered.beyond(paused_time));
        if charged < 0 {
            // More credit than charged time: the rest must not be used later.
            self.move_mark(Duration::ZERO, now, paused_time);
        }
        unsigned(charged)
    }

    /// The charged time compared to the limit; `None` without a limit.
    pub(super) fn against_limit(&mut self, now: Instant, paused_time: Duration) -> Option<Limit> {
        let limit = self.limit?;
        let charged = self.charged(now, paused_time);
        Some(match charged >= limit {
            true => Limit::Over(charged - limit),
            false => Limit::Left(limit - charged),
        })
    }

    /// The elapsed time to report.
    pub(super) fn elapsed(&mut self, now: Instant, paused_time: Duration) -> Duration {
        self.reported = self.charged(now, paused_time).max(self.reported);
        self.reported
    }

    /// The remaining time to report: the limit minus `elapsed`. `None`: no limit.
    pub(super) fn remaining(&mut self, now: Instant, paused_time: Duration) -> Option<Duration> {
        let elapsed = self.elapsed(now, paused_time);
        self.limit.map(|limit| limit.saturating_sub(elapsed))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Left(Duration),
    Over(Duration),
}

fn signed(duration: Duration) -> i128 {
    // Below 2^94: the sum of a few stays far below the maximum of the type.
    duration.as_nanos().cast_signed()
}

fn unsigned(nanos: i128) -> Duration {
    let nanos = u128::try_from(nanos).unwrap_or(0);
    match u64::try_from(nanos / 1_000_000_000) {
        Ok(seconds) => Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).unwrap_or(0)),
        Err(_) => Duration::MAX,
    }
}

#[cfg(test)]
mod tests {
    //! Beyond the figures of `clients/vectors`: what a meter says of joins, and at the limits of its types.
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A meter with a limit of 10 s, and the moment it starts.
    fn started() -> (Meter, Instant) {
        let start = Instant::now();
        (Meter::new(Some(s(10)), start), start)
    }

    fn baseline(at: Instant, paused_time: Duration) -> Baseline {
        Baseline { at, paused_time, open_pause: s(0) }
    }

    #[test]
    fn only_the_last_resume_ends_its_own_pause() {
        let (mut meter, start) = started();
        meter.pause(start + s(1), s(0));
        meter.pause(start + s(2), s(0));
        assert!(!meter.resume(start + s(3), s(0)));
        assert!(meter.resume(start + s(5), s(0)));
    }

    #[test]
    fn wrongly_assumed_paused_time_is_charged_afterwards() {
        let (mut meter, start) = started();
        assert_eq!(meter.charged(start + s(5), s(4)), s(1));
        meter.settle(start + s(5), s(4));
        assert_eq!(meter.charged(start + s(5), s(1)), s(4));
        meter.pause(start + s(5), s(4));
        assert_eq!(meter.charged(start + s(6), s(1)), s(4), "during an own pause too");
    }

    #[test]
    fn pauses_before_following_a_thread_are_not_credited() {
        let (mut meter, start) = started();
        meter.follow(start + s(1), s(0), s(500));
        assert_eq!(meter.charged(start + s(2), s(500)), s(2));
        meter.follow(start + s(3), s(501), s(0));
        assert_eq!(meter.charged(start + s(4), s(0)), s(3));
    }

    #[test]
    fn g1_a_late_baseline_changes_the_charged_time_by_at_most_the_time_since_the_join() {
        // 1 s before the join, 2 s since; the paused time was assumed to be 50 s throughout.
        for (paused_time, charged) in [(s(0), s(3)), (s(50), s(3)), (s(51), s(2)), (s(900), s(1))] {
            let (mut meter, start) = started();
            meter.follow(start + s(1), s(0), s(50));
            meter.set_baseline(&baseline(start + s(3), paused_time));
            assert_eq!(meter.charged(start + s(3), paused_time), charged, "{paused_time:?}");
            assert_eq!(meter.charged(start + s(5), paused_time + s(1)), charged + s(1), "{paused_time:?}");
        }
    }

    #[test]
    fn g1_the_open_pause_of_a_late_baseline_counts_since_the_join() {
        // Joined at 1 s, the baseline at 3 s: the thread has been paused for less time than was assumed before the join.
        for (open_pause, charged) in [(s(0), s(3)), (s(1), s(2)), (s(2), s(1)), (s(900), s(1))] {
            let (mut meter, start) = started();
            meter.follow(start + s(1), s(0), s(50));
            meter.set_baseline(&Baseline { open_pause, ..baseline(start + s(3), s(45)) });
            assert_eq!(meter.charged(start + s(3), s(45)), charged, "{open_pause:?}");
            assert_eq!(meter.charged(start + s(5), s(46)), charged + s(1), "{open_pause:?}");
        }
    }

    #[test]
    fn g3_a_late_baseline_counts_from_the_join_despite_own_pauses_since() {
        // An own pause from 5 s to 6 s, the baseline at 7 s.
        for (paused_time, charged) in [(s(50), s(6)), (s(54), s(2)), (s(900), s(0))] {
            let (mut meter, start) = started();
            meter.follow(start, s(0), s(50));
            meter.pause(start + s(5), s(50));
            meter.resume(start + s(6), s(50));
            meter.set_baseline(&baseline(start + s(7), paused_time));
            assert_eq!(meter.charged(start + s(7), paused_time), charged, "{paused_time:?}");
            assert_eq!(meter.charged(start + s(8), paused_time), charged + s(1), "{paused_time:?}");
        }
    }

    #[test]
    fn a_late_baseline_does_not_charge_own_pauses() {
        let (mut meter, start) = started();
        // The thread was wrongly assumed to be paused throughout.
        meter.follow(start, s(0), s(50));
        meter.pause(start + s(1), s(51));
        meter.resume(start + s(6), s(56));
        meter.set_baseline(&baseline(start + s(8), s(50)));
        assert_eq!(meter.charged(start + s(8), s(50)), s(2));
    }

    #[test]
    fn what_was_covered_before_a_baseline_makes_up_for_no_later_error() {
        let (mut meter, start) = started();
        meter.follow(start, s(0), s(50));
        meter.pause(start + s(1), s(51));
        meter.resume(start + s(6), s(56));
        meter.set_baseline(&baseline(start + s(8), s(50)));
        // One second of the next assumed pause is within an own one; then it turns out that there was no such pause.
        meter.pause(start + s(10), s(52));
        meter.resume(start + s(11), s(53));
        assert_eq!(meter.charged(start + s(12), s(50)), s(5));
    }

    #[test]
    fn arithmetic_saturates_at_the_limits_of_the_types() {
        let start = Instant::now();
        let mut meter = Meter::new(Some(Duration::MAX), start);
        assert_eq!(meter.charged(start, Duration::MAX), s(0));
        meter.follow(start, Duration::ZERO, Duration::MAX);
        assert_eq!(meter.charged(start, Duration::ZERO), Duration::MAX);
        assert_eq!(meter.against_limit(start, Duration::ZERO), Some(Limit::Over(s(0))));
        meter.settle(start, Duration::ZERO);
        assert_eq!(meter.charged(start + s(1), Duration::ZERO), Duration::MAX);
        let mut unlimited = Meter::new(None, start);
        assert_eq!(
            (unlimited.remaining(start + s(9), s(0)), unlimited.against_limit(start + s(9), s(0))),
            (None, None)
        );
        assert!(unlimited.resume(start, s(0)), "one resume too many is harmless");
    }
}
