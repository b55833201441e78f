//! A rate limit per second or another span, with bursts of the same size: the generic cell rate algorithm, one number
//! and no queue.
//!
//! The number is the time at which all admitted calls would be finished if each took its share of the span. It may be at
//! most a span ahead. A call that would move it further is refused, with the time after which it would be
//! admitted.
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
/// The longest time for which large answers, and requests in open streams, keep later calls out: with a low limit, one would otherwise do so for minutes.
const LONGEST_DEBT: i64 = 5 * SECOND;

/// The remaining calls of the present span.
#[derive(Debug)]
pub struct Rate {
    /// On the clock that the caller reads, in nanoseconds.
    over_at: AtomicI64,
}

impl Default for Rate {
    fn default() -> Self {
        Rate { over_at: AtomicI64::new(i64::MIN) }
    }
}

impl Rate {
    /// Takes one call of `per_second` at `now`.
    ///
    /// # Errors
    /// No call is left; the error is the time until one is available.
    pub fn take(&self, per_second: u64, now: Duration) -> Result<(), Duration> {
        self.take_within(per_second, Duration::from_secs(1), now)
    }

    /// Takes one of `most` in each `span` at `now`: as many at once, and then one in each share of it.
    ///
    /// # Errors
    /// None is left; the error is the time until one is available.
    pub fn take_within(&self, most: u64, span: Duration, now: Duration) -> Result<(), Duration> {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX / 2);
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX / 2);
        let share = span / i64::try_from(most.max(1)).unwrap_or(span).min(span);
        let mut over_at = self.over_at.load(Relaxed);
        loop {
            let next = over_at.max(now).saturating_add(share);
            let ahead = next.saturating_sub(now);
            if ahead > span.max(share) {
                return Err(Duration::from_nanos((ahead - span.max(share)).unsigned_abs()));
            }
            match self.over_at.compare_exchange_weak(over_at, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => over_at = other,
            }
        }
    }

    /// Takes `calls` more of `per_second` for what was admitted, and turned out to be large, or to be followed by more requests: later
    /// calls are refused for as much longer, at most 5 s.
    pub fn charge(&self, calls: u64, per_second: u64, now: Duration) {
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX / 2);
        let share = SECOND / i64::try_from(per_second.max(1)).unwrap_or(SECOND).min(SECOND);
        let more = share.saturating_mul(i64::try_from(calls).unwrap_or(i64::MAX));
        let charged = |over_at: i64| Some(over_at.max(now).saturating_add(more).min(now.saturating_add(LONGEST_DEBT)));
        let _ = self.over_at.fetch_update(Relaxed, Relaxed, charged);
    }

    /// For how long no call is available, of a rate per second; `None`: one is available now.
    pub fn debt(&self, now: Duration) -> Option<Duration> {
        let ahead = i128::from(self.over_at.load(Relaxed)) - now.as_nanos().cast_signed();
        let debt = u64::try_from(ahead - i128::from(SECOND)).ok().filter(|debt| *debt > 0)?;
        Some(Duration::from_nanos(debt))
    }

    /// Whether all calls are available again.
    pub fn is_idle(&self, now: Duration) -> bool {
        i128::from(self.over_at.load(Relaxed)) <= now.as_nanos().cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_calls_and_the_next_one_as_many() {
        let rate = Rate::default();
        let at = |ms| Duration::from_millis(ms);
        let taken = |now| (0..100).filter(|_| rate.take(10, now).is_ok()).count();
        assert_eq!(taken(at(5_000)), 10);
        assert_eq!(rate.take(10, at(5_000)), Err(at(100)));
        assert_eq!(rate.take(10, at(5_060)), Err(at(40)));
        assert_eq!((taken(at(5_100)), taken(at(5_350)), taken(at(9_000))), (1, 2, 10));
        assert!(!rate.is_idle(at(9_999)) && rate.is_idle(at(10_000)));
    }

    #[test]
    fn a_large_call_takes_several_and_at_most_those_of_some_seconds() {
        let rate = Rate::default();
        let at = |ms| Duration::from_millis(ms);
        rate.charge(5, 10, at(1_000));
        let taken = |now| (0..100).filter(|_| rate.take(10, now).is_ok()).count();
        assert_eq!(taken(at(1_000)), 5);
        assert_eq!(rate.debt(at(1_000)), None);
        rate.charge(1_000, 10, at(1_000));
        assert_eq!(rate.debt(at(1_000)), Some(at(4_000)));
        assert_eq!(rate.take(10, at(1_000)), Err(at(4_100)));
        assert_eq!(taken(at(5_100)), 1);
        assert_eq!(taken(at(60_000)), 10);
    }

    #[test]
    fn a_longer_span_has_as_many_at_once_and_then_one_for_each_share() {
        let (rate, span) = (Rate::default(), Duration::from_secs(600));
        let taken =
            |now| (0..2_000).filter(|_| rate.take_within(1_200, span, Duration::from_secs(now)).is_ok()).count();
        assert_eq!([taken(1_000), taken(1_001), taken(1_011), taken(1_611)], [1_200, 2, 20, 1_200]);
    }

    #[test]
    fn one_a_second_is_one_a_second() {
        let rate = Rate::default();
        let second = Duration::from_secs(1);
        assert_eq!((rate.take(1, second), rate.take(1, second)), (Ok(()), Err(second)));
        assert_eq!(rate.take(1, 2 * second), Ok(()));
    }
}
