//! One clock for all replicas, so that a takeover looks like a restart in the same boot.
//!
//! It is the boot-time clock of the leader's machine plus an offset that stays the same for a term.
use super::record::LeaderRecord;
use crate::clock::Clock;
use crate::core::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How long (nanoseconds) the clock of an earlier term is more exact than the wall clocks: takeovers hardly move it,
/// and in this time the clocks of two machines drift apart by a few milliseconds.
const RECENT: i64 = 600_000_000_000;
/// The number of samples that are kept.
const SAMPLES: usize = 8;
/// The maximum error (nanoseconds) of an offset from the leader's answers: half of the longest round trip.
const WORST_SAMPLE: i64 = 500_000_000;
/// The clocks of two machines drift apart by at most one nanosecond in this many: each has an error of at most 50 ppm.
const PARTS_IN: i64 = 10_000;

/// The clock of a fleet, as its leader reports it.
pub struct ClusterClock {
    pub(super) machine: Arc<dyn Clock>,
    /// The cluster clock less the machine's, in nanoseconds.
    pub(super) offset: i64,
    pub(super) fleet_id: u64,
}

impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        let now = self.machine.now();
        Timestamp { boot: now.boot.saturating_add(self.offset), ..now }
    }

    fn boot(&self) -> i64 {
        self.machine.boot().saturating_add(self.offset)
    }

    fn awake(&self) -> Duration {
        self.machine.awake()
    }

    fn slept(&self) -> i64 {
        self.machine.slept()
    }

    fn boot_id(&self) -> u64 {
        self.fleet_id
    }
}

impl ClusterClock {
    /// The cluster clock when the machine's was `machine`.
    pub fn at(&self, machine: i64) -> i64 {
        machine.saturating_add(self.offset)
    }
}

/// The clock offset with which a new leader continues. `now` and `boot_id`: the time and the boot id of its machine.
/// `seen_since`: when it first saw the record of the last leader, on the clock of its machine. `heard`: the clocks that
/// leaders have reported to it.
pub(super) fn offset(
    last: Option<&LeaderRecord>,
    seen_since: i64,
    now: Timestamp,
    boot_id: u64,
    heard: &LeaderClock,
) -> i64 {
    // A new fleet begins with the clock of its first leader.
    let Some(last) = last else { return 0 };
    // Exact if the last leader ran on this machine.
    let exact = last.clock.saturating_add(now.boot.saturating_sub(last.machine_clock).max(0));
    // Two machines may have the same boot id, such as copies of a virtual machine.
    let agrees = |said| now.boot.saturating_add(said).abs_diff(exact) <= WORST_SAMPLE.unsigned_abs();
    let cluster = if last.machine == boot_id && heard.offset(last.term).is_none_or(agrees) {
        exact
    } else if let Some(said) = heard.offset_to_take_over(last.term, now.boot) {
        now.boot.saturating_add(said)
    } else {
        // No leader has answered recently: use the wall clocks.
        last.clock.saturating_add(now.wall.saturating_sub(last.wall).max(0))
    };
    // Never before the time that the last leader has written, plus the time since that record was read.
    let least = last.clock.saturating_add(now.boot.saturating_sub(seen_since).max(0));
    cluster.max(least).saturating_sub(now.boot)
}

/// The leader's clock as a follower sees it.
#[derive(Debug, Default)]
pub struct LeaderClock(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    term: u64,
    samples: VecDeque<Sample>,
    /// When the last answer arrived, on the clock of the machine.
    last: i64,
}

/// The clock offset from one answer of the leader, in nanoseconds.
#[derive(Debug)]
struct Sample {
    round_trip: i64,
    offset: i64,
    /// When the answer arrived, on the clock of the machine.
    answered: i64,
}

impl Sample {
    /// The maximum error of the offset at `now`: the answer may be from any moment of the round trip, and the clocks
    /// drift since.
    fn error(&self, now: i64) -> i64 {
        self.round_trip / 2 + now.saturating_sub(self.answered).max(0) / PARTS_IN
    }
}

impl Samples {
    /// The most exact sample that existed at `now`.
    fn best(&self, now: i64) -> Option<&Sample> {
        self.samples.iter().filter(|sample| sample.answered <= now).min_by_key(|sample| sample.error(now))
    }
}

impl LeaderClock {
    /// Records that the leader of `term` reported `cluster` between `asked` and `answered`, both on the clock of the
    /// machine.
    pub(crate) fn sample(&self, term: u64, asked: i64, cluster: i64, answered: i64) {
        let round_trip = answered.saturating_sub(asked);
        // This process was stopped meanwhile, so the sample is useless.
        if round_trip / 2 > WORST_SAMPLE {
            return;
        }
        let mut known = self.lock();
        // The answer of a former leader may arrive after one of its successor.
        if term < known.term {
            return;
        }
        if known.term != term {
            *known = Samples { term, ..Samples::default() };
        }
        if known.samples.len() == SAMPLES {
            known.samples.pop_front();
        }
        known.last = answered;
        let offset = cluster.saturating_sub(asked.saturating_add(round_trip / 2));
        known.samples.push_back(Sample { round_trip, offset, answered });
    }

    /// Whether any leader has answered.
    pub fn is_known(&self) -> bool {
        !self.lock().samples.is_empty()
    }

    /// The offset of the cluster clock from that of the machine in `term`, if its leader has answered.
    pub fn offset(&self, term: u64) -> Option<i64> {
        let known = self.lock();
        known.best(known.last).filter(|_| known.term == term).map(|best| best.offset)
    }

    /// The offset for a takeover from `term`: that of the term, or that of an earlier term whose leader answered
    /// shortly before `now` (on the clock of the machine).
    pub(super) fn offset_to_take_over(&self, term: u64, now: i64) -> Option<i64> {
        let known = self.lock();
        let counts = known.term == term || now.saturating_sub(known.last) < RECENT;
        known.best(known.last).filter(|_| counts).map(|best| best.offset)
    }

    /// The maximum error of the offset at `now` (on the clock of the machine), in nanoseconds. Later samples are
    /// ignored.
    pub fn error(&self, now: i64) -> i64 {
        self.lock().best(now).map_or(0, |best| best.error(now))
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().expect("nothing panics while it holds the samples")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { boot: 1_000, wall: 50_000 };

    fn last() -> LeaderRecord {
        LeaderRecord { clock: 7_000, wall: 49_900, machine: 1, machine_clock: 940, ..LeaderRecord::default() }
    }

    /// A clock that has heard this offset from the leader of `term`.
    fn heard(term: u64, said: i64) -> LeaderClock {
        let clock = LeaderClock::default();
        clock.sample(term, NOW.boot, NOW.boot + said, NOW.boot);
        clock
    }

    fn nothing() -> LeaderClock {
        LeaderClock::default()
    }

    #[test]
    fn the_cluster_clock_goes_on_exactly_on_the_same_machine() {
        assert_eq!(offset(Some(&last()), NOW.boot, NOW, 1, &heard(0, 9)), 7_060 - 1_000);
        // An answer from the leader of another term is no reason to doubt that.
        assert_eq!(offset(Some(&last()), NOW.boot, NOW, 1, &heard(3, WORST_SAMPLE * 4)), 7_060 - 1_000);
    }

    #[test]
    fn two_clocks_with_one_boot_id_are_told_apart_by_what_the_leader_said() {
        const DAY: i64 = 86_400_000_000_000;
        let ahead = Timestamp { boot: NOW.boot + DAY, ..NOW };
        assert_eq!(offset(Some(&last()), ahead.boot, ahead, 1, &heard(0, 6_055 - DAY)), 6_055 - DAY);
    }

    #[test]
    fn the_cluster_clock_follows_the_last_leader_or_the_wall_clock() {
        assert_eq!(offset(Some(&last()), NOW.boot, NOW, 2, &heard(0, 6_055)), 6_055);
        assert_eq!(offset(Some(&last()), NOW.boot, NOW, 2, &nothing()), 7_100 - 1_000);
        assert_eq!(offset(None, NOW.boot, NOW, 2, &nothing()), 0);
    }

    #[test]
    fn the_cluster_clock_never_goes_back() {
        assert_eq!(offset(Some(&last()), NOW.boot, NOW, 2, &heard(0, 0)), 6_000);
        // The last leader's clock goes on while nobody leads, whatever is known of earlier ones.
        assert_eq!(offset(Some(&last()), NOW.boot - 30, NOW, 2, &heard(0, 0)), 6_030);
        let wall = Timestamp { wall: 0, ..NOW };
        assert_eq!(offset(Some(&last()), NOW.boot, wall, 2, &nothing()), 6_000);
    }

    #[test]
    fn the_most_exact_sample_counts() {
        let clock = LeaderClock::default();
        clock.sample(3, 100, 1_150, 200);
        assert_eq!(clock.offset(3), Some(1_000));
        clock.sample(3, 300, 1_350, 310);
        clock.sample(3, 400, 1_900, 900);
        assert_eq!((clock.offset(3), clock.offset(4)), (Some(1_045), None));
        clock.sample(4, 0, 20, 3 * WORST_SAMPLE);
        assert_eq!((clock.offset(3), clock.offset(4)), (Some(1_045), None), "it was stopped");
        clock.sample(4, 0, 20, 10);
        assert_eq!((clock.offset(3), clock.offset(4)), (None, Some(15)));
        clock.sample(3, 400, 1_900, 410);
        assert_eq!((clock.offset(3), clock.offset(4)), (None, Some(15)), "a late answer of the former leader");
    }

    #[test]
    fn an_offset_gets_less_exact_while_the_leader_is_not_heard() {
        let clock = LeaderClock::default();
        assert_eq!(clock.error(1_000_000_000), 0);
        clock.sample(3, 100, 1_150, 500);
        assert_eq!((clock.error(499), clock.error(500), clock.error(500 + 1_000_000_000)), (0, 200, 100_200));
        // A newer answer is more exact by then, although it took longer.
        clock.sample(3, 1_000_000_000, 1_000_031_050, 1_000_060_000);
        assert_eq!((clock.offset(3), clock.error(1_000_060_000)), (Some(1_050), 30_000));
    }

    #[test]
    fn the_clock_of_an_earlier_term_counts_for_ten_minutes() {
        let clock = LeaderClock::default();
        assert_eq!(clock.offset_to_take_over(3, 0), None);
        clock.sample(3, 1_000, 1_150, 1_100);
        assert_eq!(clock.offset_to_take_over(3, i64::MAX), Some(100));
        assert_eq!(clock.offset_to_take_over(5, 1_099 + RECENT), Some(100));
        assert_eq!(clock.offset_to_take_over(5, 1_100 + RECENT), None);
    }
}
