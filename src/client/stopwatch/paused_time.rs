//! How long one thread has been paused since this process began to follow it, as far as is known.
//!
//! The server's `paused_total` is exact in each state; between states the local clock carries on:
//!
//! ```text
//! paused_time = paused_total - paused_total at the start     (+ the local time since the last state, while paused)
//! ```
//!
//! The difference of two totals includes every pause that this process did not see. Pure: no clock is read.
//!
//! 1. Time before the start is never credited, and never more than the time since the start. The first state cannot say
//!    which part of its total is older than the start; whatever may be newer is credited (the gap until the first state
//!    is milliseconds, unless the link was down).
//! 2. While disconnected, a paused thread counts as paused for `grace` and then as running: the leases that would end its
//!    pause cannot be seen. The next state corrects the assumption, in both directions.
//! 3. A lower total or revision means that the server lost its state (or forgot an idle thread): the paused time so far
//!    is kept, and grows from there. But watched states and query responses may overtake each other. A query returns at
//!    least the revision that was known when it was sent, and a new stream starts with at least the last revision of the
//!    stream before it. So a state older than the known one, but not below that bound, was overtaken and changes nothing.
//! 4. Local time stops while the machine sleeps; the server's may not. A sleep within a pause is left out, so that it
//!    cannot pay for time that was charged. The total of a state that was sent before the sleep and arrived after it does
//!    not include the sleep: it is then left out of the next total.
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Shorter sleeps of the machine are noise between two clocks.
const MIN_SLEEP: Duration = Duration::from_millis(100);
/// The longest delivery of a state: the connection is given up before a state is later than this.
const MAX_DELIVERY_DELAY: Duration = Duration::from_secs(15);

/// The fields of a state that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedState {
    pub(super) revision: u64,
    pub(super) paused: bool,
    pub(super) total: Duration,
}

/// Orders the states of a thread by their age: revisions rise, and within one pause the total grows.
type Age = (u64, Duration);

impl ObservedState {
    fn age(&self) -> Age {
        (self.revision, self.total)
    }
}

/// The origin of a state.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// The watch; `gap`: it is the first state, or the first one after a disconnect.
    Watch { gap: bool },
    /// A query; `known_revision`: the latest revision when the query was sent.
    Query { known_revision: Option<u64> },
}

/// A reading of this process's clock, and how long the machine has slept since it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalTime {
    pub(super) at: Instant,
    pub(super) slept: Duration,
}

/// Set with the first state after a stopwatch joined: the time of that state, and the paused time then.
pub(super) type JoinBaseline = Arc<OnceLock<(Instant, Duration)>>;

#[derive(Debug)]
pub(super) struct PausedTimeTracker {
    started_at: Instant,
    grace: Duration,
    last: Option<LastState>,
    /// The last revision that the watch delivered.
    watch_revision: Option<u64>,
    /// When the watch was disconnected, or when a query last replaced it since. `None`: connected.
    disconnected_at: Option<Instant>,
    join_baseline: Option<JoinBaseline>,
}

#[derive(Debug)]
struct LastState {
    state: ObservedState,
    received: LocalTime,
    paused_time: Duration,
    /// Sleep of the machine before this state arrived and perhaps after it was sent: then the next total includes it.
    unsettled_sleep: Duration,
}

impl PausedTimeTracker {
    pub(super) fn new(now: Instant, grace: Duration) -> Self {
        let disconnected_at = Some(now);
        Self { started_at: now, grace, last: None, watch_revision: None, disconnected_at, join_baseline: None }
    }

    /// How long the thread has been paused since the start.
    pub(super) fn paused_time(&self, now: Instant) -> Duration {
        let Some(last) = &self.last else { return Duration::ZERO };
        let open = match last.state.paused {
            true => {
                let end = self.valid_until().map_or(now, |valid_until| now.min(valid_until));
                end.saturating_duration_since(last.received.at)
            }
            false => Duration::ZERO,
        };
        last.paused_time.saturating_add(open)
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        let is_valid = self.valid_until().is_none_or(|valid_until| now < valid_until);
        is_valid && self.last.as_ref().is_some_and(|last| last.state.paused)
    }

    /// When an unconfirmed pause stops counting. `None`: connected.
    pub(super) fn valid_until(&self) -> Option<Instant> {
        self.disconnected_at.and_then(|at| at.checked_add(self.grace))
    }

    pub(super) fn revision(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.state.revision)
    }

    /// The paused time at which a stopwatch joins, as far as is known, and the baseline that the next state sets. Needed
    /// even when the link seems to be up: it may be dead already without anyone having noticed.
    pub(super) fn join(&mut self, now: Instant) -> (Duration, JoinBaseline) {
        (self.paused_time(now), self.join_baseline.get_or_insert_default().clone())
    }

    /// Notes that the watch is disconnected. Returns whether waiters must check again.
    pub(super) fn disconnect(&mut self, now: Instant) -> bool {
        self.disconnected_at.get_or_insert(now);
        self.is_paused(now)
    }

    /// Applies a state. Returns whether waiters must check again: after a resume, and when an assumption was corrected.
    pub(super) fn apply(&mut self, now: LocalTime, state: ObservedState, source: Source) -> bool {
        let known = self.last.as_ref().map(|last| last.state.age());
        let lower_bound = match source {
            Source::Watch { gap: false } => None,
            Source::Watch { gap: true } => self.watch_revision,
            Source::Query { known_revision } => known_revision,
        };
        let is_overtaken = Some(state.age()) < known && Some(state.revision) >= lower_bound;
        let (disconnected_at, was_paused) = (self.disconnected_at, self.is_paused(now.at));
        if let Source::Watch { .. } = source {
            self.watch_revision = Some(state.revision);
        }
        if is_overtaken {
            return matches!(source, Source::Watch { .. }) && self.reconnect(now.at);
        }
        let since_start = now.at.saturating_duration_since(self.started_at);
        let mut unsettled_sleep = Duration::ZERO;
        let paused_time = match &self.last {
            None => state.total,
            Some(last) if state.revision < last.state.revision || state.total < last.state.total => {
                let since_last = now.at.saturating_duration_since(last.received.at);
                self.paused_time(now.at).max(last.paused_time.saturating_add(state.total.min(since_last)))
            }
            Some(last) => {
                let (awake, slept) = split_growth(last, now, state.total - last.state.total);
                if state.paused {
                    unsettled_sleep = slept;
                }
                last.paused_time.saturating_add(awake)
            }
        };
        let paused_time = paused_time.min(since_start);
        self.disconnected_at = match source {
            Source::Watch { .. } => None,
            Source::Query { .. } => disconnected_at.map(|_| now.at),
        };
        self.set_join_baseline(now.at, paused_time);
        self.last = Some(LastState { state, received: now, paused_time, unsettled_sleep });
        disconnected_at.is_some() || (was_paused && !state.paused)
    }

    /// Notes that the watch is connected, when its state is older than the known one. Returns whether waiters must check
    /// again.
    fn reconnect(&mut self, now: Instant) -> bool {
        let was_disconnected = self.disconnected_at.take().is_some();
        self.set_join_baseline(now, self.paused_time(now));
        was_disconnected
    }

    /// Sets the baseline of the stopwatches that joined since the last state.
    fn set_join_baseline(&mut self, now: Instant, paused_time: Duration) {
        if let Some(baseline) = self.join_baseline.take() {
            // Cannot fail: it was taken out of the only place that sets it.
            let _ = baseline.set((now, paused_time));
        }
    }
}

/// Splits `growth`, the paused time between `last` and `now`: returns the part in which this machine was awake, and the
/// sleep that the next total may include instead.
///
/// If the thread was paused in `last`, it was most likely paused throughout: then the growth is the time awake plus those
/// sleeps that it includes. The combination of sleeps that comes closest is chosen.
fn split_growth(last: &LastState, now: LocalTime, growth: Duration) -> (Duration, Duration) {
    let awake = now.at.saturating_duration_since(last.received.at);
    let slept = now.slept.saturating_sub(last.received.slept);
    let slept = if slept < MIN_SLEEP { Duration::ZERO } else { slept };
    match (slept.is_zero() && last.unsettled_sleep.is_zero(), last.state.paused) {
        (true, _) => return (growth, Duration::ZERO),
        (_, false) => return (growth.min(awake), slept),
        (false, true) => {}
    }
    let none = (Duration::ZERO, if slept.is_zero() { last.unsettled_sleep } else { slept });
    let (all, new, old) = (last.unsettled_sleep + slept, slept, last.unsettled_sleep);
    let choices = [none, (new, Duration::ZERO), (old, new), (all, Duration::ZERO)];
    let possible = choices.into_iter().filter(|(included, _)| *included <= growth);
    let closest = possible.min_by_key(|(included, _)| growth.abs_diff(awake + *included));
    let (included, unsettled_sleep) = closest.unwrap_or(none);
    // The growth also includes the time that the last state took to arrive.
    let max = if included.is_zero() { awake + MAX_DELIVERY_DELAY } else { growth };
    ((growth - included).min(max), unsettled_sleep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = s(30);
    const WATCH: Source = Source::Watch { gap: false };
    const GAP: Source = Source::Watch { gap: true };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The source of a query that was sent when `revision` was known.
    const fn query(revision: u64) -> Source {
        Source::Query { known_revision: Some(revision) }
    }

    struct Thread {
        tracker: PausedTimeTracker,
        start: Instant,
    }

    impl Thread {
        fn new() -> Self {
            let start = Instant::now();
            Self { tracker: PausedTimeTracker::new(start, GRACE), start }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + s(seconds)
        }

        fn apply(&mut self, at: u64, revision: u64, paused: bool, total: u64, source: Source) -> bool {
            let now = LocalTime { at: self.at(at), slept: Duration::ZERO };
            self.tracker.apply(now, ObservedState { revision, paused, total: s(total) }, source)
        }

        fn paused_time(&self, at: u64) -> u64 {
            self.tracker.paused_time(self.at(at)).as_secs()
        }

        fn paused(&self, at: u64) -> bool {
            self.tracker.is_paused(self.at(at))
        }
    }

    #[test]
    fn g3_paused_time_follows_the_total_and_grows_while_paused() {
        let mut thread = Thread::new();
        thread.apply(0, 4, false, 100, GAP);
        assert_eq!((thread.paused_time(9), thread.paused(9)), (0, false));
        thread.apply(10, 5, true, 100, WATCH);
        assert_eq!((thread.paused_time(13), thread.paused(13)), (3, true));
        thread.apply(14, 6, false, 104, WATCH);
        assert_eq!((thread.paused_time(20), thread.paused(20)), (4, false));
    }

    #[test]
    fn the_first_state_credits_at_most_the_time_since_the_start() {
        let mut paused = Thread::new();
        paused.apply(2, 9, true, 3_600, GAP);
        assert_eq!((paused.paused_time(2), paused.paused_time(5)), (2, 5));
        let mut less = Thread::new();
        less.apply(9, 9, false, 4, GAP);
        assert_eq!(less.paused_time(20), 4);
    }

    #[test]
    fn g3_a_pause_during_a_disconnect_is_credited_after_the_reconnect() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        assert!(!thread.tracker.disconnect(thread.at(10)), "a running thread has no waiters for its resume");
        assert_eq!(thread.paused_time(25), 0);
        assert!(thread.apply(25, 3, false, 9, GAP), "waiters check again");
        assert_eq!(thread.paused_time(30), 9);
    }

    #[test]
    fn g3_a_pause_that_ended_during_a_disconnect_is_credited_until_its_end() {
        let mut thread = Thread::new();
        thread.apply(0, 1, true, 0, GAP);
        assert!(thread.tracker.disconnect(thread.at(10)), "waiters for the resume now need a timer");
        assert_eq!(thread.paused_time(25), 25);
        assert!(thread.apply(25, 2, false, 12, GAP));
        assert_eq!((thread.paused_time(25), thread.paused_time(40)), (12, 12));
    }

    #[test]
    fn g2_while_disconnected_a_pause_counts_for_the_grace_only() {
        let mut thread = Thread::new();
        thread.apply(0, 1, true, 0, GAP);
        thread.tracker.disconnect(thread.at(10));
        assert_eq!((thread.paused(39), thread.paused(40), thread.paused_time(100)), (true, false, 40));
        // The pause was real: all of it is credited.
        thread.apply(100, 1, true, 100, GAP);
        assert_eq!((thread.paused(100), thread.paused_time(101)), (true, 101));
    }

    #[test]
    fn g3_a_snapshot_older_than_a_query_response_changes_nothing() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.tracker.disconnect(thread.at(10));
        assert!(thread.apply(20, 3, false, 4, query(1)));
        // Its stream was opened before the query was answered.
        assert!(thread.apply(25, 2, true, 3, GAP), "the link is up again: waiters check again");
        assert_eq!((thread.paused_time(26), thread.paused(26), thread.tracker.valid_until()), (4, false, None));
        thread.apply(27, 3, false, 4, WATCH);
        assert_eq!((thread.paused_time(30), thread.paused(30)), (4, false));
    }

    #[test]
    fn g3_a_first_snapshot_older_than_a_query_response_sets_the_join_baseline_only() {
        let mut thread = Thread::new();
        thread.apply(1, 2, true, 0, Source::Query { known_revision: None });
        let (_, baseline) = thread.tracker.join(thread.at(3));
        thread.apply(5, 1, false, 0, GAP);
        assert_eq!((thread.paused_time(5), thread.paused(5)), (4, true), "the pause goes on");
        let (at, paused_time) = *baseline.get().expect("the baseline is set");
        assert_eq!((at, paused_time), (thread.at(5), s(4)));
    }

    #[test]
    fn g3_an_older_total_of_the_same_pause_changes_nothing() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.apply(10, 2, true, 6, WATCH);
        thread.apply(11, 2, true, 3, query(1));
        assert_eq!((thread.paused_time(12), thread.paused(12)), (8, true), "the response was delayed");
        thread.tracker.disconnect(thread.at(12));
        thread.apply(14, 2, true, 10, query(2));
        thread.apply(15, 2, true, 8, GAP);
        assert_eq!((thread.paused_time(15), thread.tracker.valid_until()), (11, None), "the snapshot was delayed too");
        thread.apply(15, 2, true, 9, WATCH);
        thread.tracker.disconnect(thread.at(15));
        thread.apply(15, 2, true, 8, GAP);
        assert_eq!(thread.paused_time(15), 11, "a new stream may start with a still older total");
        thread.apply(16, 3, false, 12, WATCH);
        assert_eq!(thread.paused_time(20), 12);
    }

    #[test]
    fn a_revision_below_the_last_watched_one_means_lost_state_despite_later_queries() {
        let mut thread = Thread::new();
        thread.apply(0, 7, false, 0, GAP);
        thread.tracker.disconnect(thread.at(10));
        thread.apply(12, 9, false, 2, query(7));
        thread.apply(20, 1, true, 0, GAP);
        assert_eq!((thread.paused_time(23), thread.paused(23)), (5, true), "the credited time stays and grows");
    }

    #[test]
    fn g2_a_query_response_while_disconnected_extends_the_pause_by_one_grace() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.tracker.disconnect(thread.at(10));
        thread.apply(20, 2, true, 5, query(1));
        assert_eq!((thread.paused(49), thread.paused(50), thread.paused_time(60)), (true, false, 35));
        // A response without news extends it too: the server's total may stand still for a moment.
        assert!(thread.apply(45, 2, true, 5, query(2)), "waiters check again");
        assert_eq!((thread.paused(74), thread.paused(75)), (true, false));
    }

    #[test]
    fn lost_server_state_does_not_reduce_the_paused_time() {
        let mut thread = Thread::new();
        thread.apply(0, 7, true, 50, GAP);
        thread.apply(10, 8, false, 60, WATCH);
        thread.tracker.disconnect(thread.at(10));
        thread.apply(20, 1, true, 3, GAP);
        assert_eq!(
            (thread.paused_time(20), thread.paused_time(25)),
            (13, 18),
            "10 s before the loss, 3 s since, 5 s more"
        );
        // The total is higher by chance; the lower revision shows the loss.
        thread.apply(30, 0, true, 13, GAP);
        assert_eq!(thread.paused_time(30), 23);
    }

    #[test]
    fn overtaken_states_are_ignored_and_states_after_a_loss_are_applied() {
        let mut thread = Thread::new();
        thread.apply(0, 5, false, 0, GAP);
        thread.apply(1, 7, true, 0, query(5));
        thread.apply(1, 6, false, 0, WATCH);
        assert!(thread.paused(1), "revision 6 was on its way when 7 was queried");
        thread.apply(2, 6, false, 0, query(5));
        assert!(thread.paused(2), "this response was on its way too");
        thread.apply(3, 1, false, 0, query(7));
        assert!(!thread.paused(3), "a response below the revision known before the query means lost state");
    }

    #[test]
    fn g3_sleep_of_the_machine_within_a_pause_is_not_credited() {
        let hour = s(3_600);
        let start = Instant::now();
        let mut tracker = PausedTimeTracker::new(start, GRACE);
        let state = |revision, paused, total| ObservedState { revision, paused, total };
        let now = |at, slept| LocalTime { at: start + s(at), slept };
        tracker.apply(now(0, s(7)), state(1, false, s(0)), GAP);
        tracker.apply(now(600, s(7)), state(2, true, s(0)), WATCH);
        tracker.apply(now(640, s(7) + hour), state(3, false, hour + s(10)), GAP);
        assert_eq!(tracker.paused_time(start + s(640)), s(10), "of 40 s awake, 10 s were paused");
        // The thread ran when the machine fell asleep: at most the time awake is credited.
        tracker.apply(now(660, s(7) + 2 * hour), state(5, false, 2 * hour), GAP);
        assert_eq!(tracker.paused_time(start + s(660)), s(30));
    }

    #[test]
    fn g3_a_small_difference_between_two_clocks_is_not_a_sleep() {
        let start = Instant::now();
        let mut tracker = PausedTimeTracker::new(start, GRACE);
        let ms = Duration::from_millis;
        let state = |revision, paused, total| ObservedState { revision, paused, total };
        tracker.apply(LocalTime { at: start, slept: s(7) }, state(1, true, s(0)), GAP);
        tracker.apply(LocalTime { at: start + s(10), slept: s(7) + ms(99) }, state(2, false, ms(10_099)), WATCH);
        assert_eq!(tracker.paused_time(start + s(10)), s(10), "up to the time since the start");
        tracker.apply(LocalTime { at: start + s(20), slept: s(7) + ms(99) }, state(3, true, ms(10_099)), WATCH);
        // A little more than the time awake: the state took that long to arrive.
        tracker.apply(LocalTime { at: start + s(30), slept: s(7) + ms(198) }, state(4, false, ms(20_198)), WATCH);
        assert_eq!(tracker.paused_time(start + s(30)), s(10) + ms(10_099), "the server's whole total");
    }

    #[test]
    fn g3_a_state_delayed_by_a_sleep_of_the_machine_is_credited_in_full() {
        let start = Instant::now();
        let mut tracker = PausedTimeTracker::new(start, GRACE);
        let state = |revision, paused, total| ObservedState { revision, paused, total: s(total) };
        let now = |at, slept| LocalTime { at: start + s(at), slept: s(slept) };
        tracker.apply(now(0, 7), state(1, true, 0), GAP);
        // Sent at 20; the machine slept for an hour at 21.
        tracker.apply(now(22, 3_607), state(2, true, 20), WATCH);
        assert_eq!(tracker.paused_time(start + s(22)), s(20), "2 s on its way: paused_time when the next one comes");
        tracker.apply(now(30, 3_607), state(3, false, 3_630), WATCH);
        assert_eq!(tracker.paused_time(start + s(40)), s(30));
        // The thread resumed, the machine slept, then the state arrived.
        tracker.apply(now(50, 3_607), state(4, true, 3_630), WATCH);
        tracker.apply(now(60, 3_707), state(5, false, 3_639), WATCH);
        assert_eq!(tracker.paused_time(start + s(60)), s(39));
        // A sleep while the thread ran does not belong to the next pause.
        tracker.apply(now(70, 3_807), state(6, true, 3_639), WATCH);
        tracker.apply(now(80, 3_807), state(7, false, 3_649), WATCH);
        assert_eq!(tracker.paused_time(start + s(80)), s(49));
        // Two sleeps, the second one within the pause.
        tracker.apply(now(90, 3_907), state(8, true, 3_649), WATCH);
        tracker.apply(now(100, 3_957), state(9, true, 3_709), WATCH);
        tracker.apply(now(105, 3_957), state(10, false, 3_714), WATCH);
        assert_eq!(tracker.paused_time(start + s(105)), s(64));
    }

    #[test]
    fn the_next_state_sets_the_join_baseline() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.tracker.disconnect(thread.at(10));
        let (paused_time, baseline) = thread.tracker.join(thread.at(15));
        assert_eq!((paused_time, baseline.get()), (s(0), None));
        thread.apply(20, 3, false, 10, GAP);
        assert_eq!(baseline.get(), Some(&(thread.at(20), s(10))));
        let (_, later) = thread.tracker.join(thread.at(21));
        assert_eq!(later.get(), None, "a later join waits for a state of its own");
    }
}
