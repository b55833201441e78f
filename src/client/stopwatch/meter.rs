//! What one stopwatch has been charged: wall time, less its thread's paused time, less its own pauses.
//!
//! Pure: no clock is read; `now` and the thread's paused time (`paid`, see `credit`) are arguments. What has been charged
//! is kept up to a mark and computed from there, so each operation is a few additions whatever happened before.
//!
//! 1. What is charged is never below zero, and what is shown never goes backwards: a credit that arrives late shows as
//!    a standstill until it is used up.
//! 2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
//! 3. All arithmetic saturates.
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Meter {
    limit: Option<Duration>,
    /// Charged up to `mark`, when the thread's paused time was `paid_at_mark`.
    charged: Duration,
    mark: Instant,
    paid_at_mark: Duration,
    /// When it began to follow its thread, and what the paused time was taken for then.
    followed: (Instant, Duration),
    /// Pauses of its own that are open.
    pauses: u32,
    shown: Duration,
}

impl Meter {
    pub(super) fn new(limit: Option<Duration>, now: Instant) -> Self {
        let zero = Duration::ZERO;
        Self { limit, charged: zero, mark: now, paid_at_mark: zero, followed: (now, zero), pauses: 0, shown: zero }
    }

    /// Whether it stands still by a pause of its own.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses > 0
    }

    pub(super) fn pause(&mut self, now: Instant, paid: Duration) {
        self.settle(now, paid);
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Ends one of its own pauses; says whether it was the last.
    pub(super) fn resume(&mut self, now: Instant, paid: Duration) -> bool {
        self.settle(now, paid);
        self.pauses = self.pauses.saturating_sub(1);
        self.pauses == 0
    }

    /// From now on the paused time is another thread's, which stands at `new`.
    pub(super) fn follow(&mut self, now: Instant, old: Duration, new: Duration) {
        self.settle(now, old);
        self.paid_at_mark = new;
        self.followed = (now, new);
    }

    /// From now on the paused time stands at `paid`; what it stood at since it began to follow was only assumed. The
    /// difference may be from before that, so it is charged or credited no more than the time since. What was settled
    /// meanwhile is never charged again: a pause of its own may have been in it.
    pub(super) fn place(&mut self, now: Instant, paid: Duration) {
        let (since, assumed) = self.followed;
        let growth = paid.saturating_sub(assumed).min(now.saturating_duration_since(since));
        self.settle(now, assumed.saturating_add(growth).max(self.paid_at_mark));
        self.paid_at_mark = paid;
    }

    /// Moves the mark.
    pub(super) fn settle(&mut self, now: Instant, paid: Duration) {
        let charged = self.charged(now, paid);
        (self.charged, self.mark, self.paid_at_mark) = (charged, self.mark.max(now), paid);
    }

    /// What has been charged, as exactly as is known now.
    pub(super) fn charged(&mut self, now: Instant, paid: Duration) -> Duration {
        let span = signed(now.saturating_duration_since(self.mark));
        // Negative when less was paused than had been assumed while cut off.
        let growth = signed(paid) - signed(self.paid_at_mark);
        let since_mark = match self.pauses {
            0 => span - growth,
            // All of `span` is free already; what the thread was paused beyond it was paused before the mark.
            _ if growth > span => span - growth,
            _ => (-growth).max(0),
        };
        let charged = signed(self.charged) + since_mark;
        if charged < 0 {
            // More credit than time: the rest must not be spent later.
            (self.charged, self.mark, self.paid_at_mark) = (Duration::ZERO, self.mark.max(now), paid);
        }
        unsigned(charged)
    }

    /// How far beyond its limit it is, or how far below; `None` without a limit.
    pub(super) fn against_limit(&mut self, now: Instant, paid: Duration) -> Option<Limit> {
        let limit = self.limit?;
        let charged = self.charged(now, paid);
        Some(match charged >= limit {
            true => Limit::Over(charged - limit),
            false => Limit::Left(limit - charged),
        })
    }

    /// What to show as elapsed.
    pub(super) fn elapsed(&mut self, now: Instant, paid: Duration) -> Duration {
        self.shown = self.charged(now, paid).max(self.shown);
        self.shown
    }

    /// What to show as remaining: with `elapsed` it makes up the limit. `None`: no limit.
    pub(super) fn remaining(&mut self, now: Instant, paid: Duration) -> Option<Duration> {
        let elapsed = self.elapsed(now, paid);
        self.limit.map(|limit| limit.saturating_sub(elapsed))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Left(Duration),
    Over(Duration),
}

fn signed(duration: Duration) -> i128 {
    // Below 2^94: sums of a few stay far from the end of the type.
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
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A meter with a limit of 10 s, and the moment it starts.
    fn started() -> (Meter, Instant) {
        let start = Instant::now();
        (Meter::new(Some(s(10)), start), start)
    }

    #[test]
    fn g3_charged_is_wall_time_less_the_threads_paused_time() {
        let (mut meter, start) = started();
        assert_eq!(meter.charged(start + s(5), s(2)), s(3));
        assert_eq!(meter.against_limit(start + s(12), s(2)), Some(Limit::Over(s(0))));
        assert_eq!(meter.against_limit(start + s(11), s(2)), Some(Limit::Left(s(1))));
    }

    #[test]
    fn pauses_nest() {
        let (mut meter, start) = started();
        meter.pause(start + s(1), s(0));
        meter.pause(start + s(2), s(0));
        assert!(!meter.resume(start + s(3), s(0)));
        assert_eq!(meter.charged(start + s(4), s(0)), s(1));
        assert!(meter.resume(start + s(5), s(0)));
        assert_eq!(meter.charged(start + s(6), s(0)), s(2));
    }

    #[test]
    fn g3_overlapping_pauses_count_once_and_never_below_zero() {
        let (mut meter, start) = started();
        // Its own from 0 to 10, the thread's from 5 to 15.
        meter.pause(start, s(0));
        meter.resume(start + s(10), s(5));
        assert_eq!(meter.charged(start + s(15), s(10)), s(0));
        assert_eq!(meter.charged(start + s(16), s(10)), s(1));
    }

    #[test]
    fn a_credit_for_the_time_before_its_own_pause_is_not_lost() {
        let (mut meter, start) = started();
        // Cut off: 4 s were charged, of which 3 were paused; that is learnt 1 s into a pause of its own.
        meter.pause(start + s(4), s(0));
        assert_eq!(meter.charged(start + s(5), s(3)), s(2), "1 s of the 3 may be the last one");
        meter.resume(start + s(5), s(3));
        assert_eq!(meter.charged(start + s(6), s(3)), s(3));
    }

    #[test]
    fn less_paused_time_than_was_assumed_is_charged_after_all() {
        let (mut meter, start) = started();
        assert_eq!(meter.charged(start + s(5), s(4)), s(1));
        meter.settle(start + s(5), s(4));
        assert_eq!(meter.charged(start + s(5), s(1)), s(4));
        meter.pause(start + s(5), s(4));
        assert_eq!(meter.charged(start + s(6), s(1)), s(4), "during a pause of its own too");
    }

    #[test]
    fn what_is_shown_never_goes_backwards_and_adds_up() {
        let (mut meter, start) = started();
        assert_eq!(meter.elapsed(start + s(5), s(0)), s(5));
        assert_eq!(meter.elapsed(start + s(6), s(4)), s(5), "a late credit of 4 s is a standstill");
        assert_eq!(meter.remaining(start + s(6), s(4)), Some(s(5)));
        assert_eq!(meter.elapsed(start + s(10), s(4)), s(6));
        assert_eq!(meter.against_limit(start + s(14), s(4)), Some(Limit::Over(s(0))), "both end together");
        assert_eq!(meter.remaining(start + s(14), s(4)), Some(s(0)));
    }

    #[test]
    fn more_credit_than_time_is_not_spent_later() {
        let (mut meter, start) = started();
        assert_eq!(meter.charged(start + s(2), s(3_600)), s(0));
        assert_eq!(meter.charged(start + s(5), s(3_600)), s(3));
    }

    #[test]
    fn following_another_thread_credits_nothing_of_its_past() {
        let (mut meter, start) = started();
        meter.follow(start + s(1), s(0), s(500));
        assert_eq!(meter.charged(start + s(2), s(500)), s(2));
        meter.follow(start + s(3), s(501), s(0));
        assert_eq!(meter.charged(start + s(4), s(0)), s(3));
    }

    #[test]
    fn g1_a_place_found_late_moves_what_is_charged_by_no_more_than_the_time_since() {
        // 1 s before it followed, 2 s since; it was assumed to stand at 50 s all the time.
        for (paid, charged) in [(s(0), s(3)), (s(50), s(3)), (s(51), s(2)), (s(900), s(1))] {
            let (mut meter, start) = started();
            meter.follow(start + s(1), s(0), s(50));
            meter.place(start + s(3), paid);
            assert_eq!(meter.charged(start + s(3), paid), charged, "{paid:?}");
            assert_eq!(meter.charged(start + s(5), paid + s(1)), charged + s(1), "{paid:?}");
        }
    }

    #[test]
    fn g3_a_place_found_late_counts_from_the_beginning_whatever_pauses_of_its_own_there_were_since() {
        // A pause of its own from 5 s to 6 s, and the place at 7 s.
        for (paid, charged) in [(s(50), s(6)), (s(54), s(2)), (s(900), s(0))] {
            let (mut meter, start) = started();
            meter.follow(start, s(0), s(50));
            meter.pause(start + s(5), s(50));
            meter.resume(start + s(6), s(50));
            meter.place(start + s(7), paid);
            assert_eq!(meter.charged(start + s(7), paid), charged, "{paid:?}");
            assert_eq!(meter.charged(start + s(8), paid), charged + s(1), "{paid:?}");
        }
    }

    #[test]
    fn a_place_found_late_charges_nothing_for_a_pause_of_its_own() {
        let (mut meter, start) = started();
        // Its thread was assumed to be paused all the time, and was not.
        meter.follow(start, s(0), s(50));
        meter.pause(start + s(1), s(51));
        meter.resume(start + s(6), s(56));
        meter.place(start + s(8), s(50));
        assert_eq!(meter.charged(start + s(8), s(50)), s(2));
    }

    #[test]
    fn the_ends_of_the_types_are_safe() {
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
