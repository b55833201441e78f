//! How long one thread has been paused since this process began to follow it, as far as it knows.
//!
//! The server's `paused_total` is exact at each state; between states the local clock carries on. So
//!
//! ```text
//! paid = paused_total - what it was at the beginning     (+ the local time since the state, while paused)
//! ```
//!
//! and a pause that began or ended unseen is in the difference of two totals. Pure: no clock is read.
//!
//! 1. Nothing before the beginning is credited, and never more than the time since then. The first state cannot say
//!    which part of its total was before; what may have been after the beginning is credited (the gap until the first
//!    state is milliseconds, unless the link was down).
//! 2. Cut off, a paused thread counts as paused for `grace`, then as running: the leases that would end its pause cannot
//!    be seen. The next state corrects what was assumed, both ways.
//! 3. A total or a revision that fell means that the server lost its state (or forgot an idle thread): the credit so far
//!    stays, and counts on from there. But states and answers may overtake each other. A question is answered with at
//!    least what was known when it was put, a stream that is opened anew begins with at least what the one before has
//!    told: what is older than known, and of no lower revision than that, was overtaken and changes nothing.
//! 4. Local time does not run while the machine sleeps, the server's may. Of a pause that spans a sleep the sleep is
//!    left out, so that it cannot pay for time that was charged. A state that was sent before the sleep and came after it
//!    does not have it in its total yet, so that nothing is left out there, but of the next.
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// A sleep of the machine shorter than this is noise between two clocks.
const SHORTEST_SLEEP: Duration = Duration::from_millis(100);
/// A state that is on its way for longer has had its connection given up.
const LONGEST_WAY: Duration = Duration::from_secs(15);

/// What a state says, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) revision: u64,
    pub(super) paused: bool,
    pub(super) total: Duration,
}

/// Orders the states of a thread by their age: revisions rise, and within one pause the total grows.
type Age = (u64, Duration);

impl Seen {
    fn age(&self) -> Age {
        (self.revision, self.total)
    }
}

/// How a state came.
#[derive(Debug, Clone, Copy)]
pub(super) enum Via {
    /// By the watch; `gap`: the first one, or the first one after a break.
    Watch { gap: bool },
    /// By asking, when `known` was the latest revision.
    Ask { known: Option<u64> },
}

/// This process's clock: the moment, and how long the machine has slept since it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) at: Instant,
    pub(super) slept: Duration,
}

/// Where a stopwatch that joined gets its place: the moment of the first state after it joined, and what was paid then.
pub(super) type Joined = Arc<OnceLock<(Instant, Duration)>>;

#[derive(Debug)]
pub(super) struct PausedTimeTracker {
    began: Instant,
    grace: Duration,
    last: Option<Last>,
    /// The revision that the watch has told last.
    heard: Option<u64>,
    /// Since when the watch is not heard, or since when what it would say was last asked for instead.
    cut: Option<Instant>,
    joined: Option<Joined>,
}

/// The last state.
#[derive(Debug)]
struct Last {
    seen: Seen,
    now: Now,
    paid: Duration,
    /// What the machine slept before this came and perhaps after it was sent: then it is part of the next total.
    unsettled: Duration,
}

impl PausedTimeTracker {
    pub(super) fn new(now: Instant, grace: Duration) -> Self {
        Self { began: now, grace, last: None, heard: None, cut: Some(now), joined: None }
    }

    /// How long the thread has been paused since the beginning.
    pub(super) fn paid(&self, now: Instant) -> Duration {
        let Some(last) = &self.last else { return Duration::ZERO };
        let open = match last.seen.paused {
            true => self.thaw().map_or(now, |thaw| now.min(thaw)).saturating_duration_since(last.now.at),
            false => Duration::ZERO,
        };
        last.paid.saturating_add(open)
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|last| last.seen.paused) && self.thaw().is_none_or(|thaw| now < thaw)
    }

    /// When a pause that cannot be confirmed stops counting. `None`: the link is up.
    pub(super) fn thaw(&self) -> Option<Instant> {
        self.cut.and_then(|cut| cut.checked_add(self.grace))
    }

    pub(super) fn revision(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.seen.revision)
    }

    /// The paused time at which a stopwatch joins, as far as is known, and where the next state says how much it was then.
    /// Even when the link seems to be up: it may be dead, and nobody has noticed.
    pub(super) fn join(&mut self, now: Instant) -> (Duration, Joined) {
        (self.paid(now), self.joined.get_or_insert_default().clone())
    }

    /// The watch is not heard any more. Says whether waiters must look again.
    pub(super) fn cut(&mut self, now: Instant) -> bool {
        self.cut.get_or_insert(now);
        self.is_paused(now)
    }

    /// Takes a state. Says whether waiters must look again: after a resume, and when what was assumed is corrected.
    pub(super) fn apply(&mut self, now: Now, seen: Seen, via: Via) -> bool {
        let known = self.last.as_ref().map(|last| last.seen.age());
        let at_least = match via {
            Via::Watch { gap: false } => None,
            Via::Watch { gap: true } => self.heard,
            Via::Ask { known } => known,
        };
        let overtaken = Some(seen.age()) < known && Some(seen.revision) >= at_least;
        let (assumed, was_paused) = (self.cut, self.is_paused(now.at));
        if let Via::Watch { .. } = via {
            self.heard = Some(seen.revision);
        }
        if overtaken {
            return matches!(via, Via::Watch { .. }) && self.heard_again(now.at);
        }
        let since_began = now.at.saturating_duration_since(self.began);
        let mut unsettled = Duration::ZERO;
        let paid = match &self.last {
            None => seen.total,
            Some(last) if seen.revision < last.seen.revision || seen.total < last.seen.total => {
                let since_last = now.at.saturating_duration_since(last.now.at);
                self.paid(now.at).max(last.paid.saturating_add(seen.total.min(since_last)))
            }
            Some(last) => {
                let (awake, slept) = awake(last, now, seen.total - last.seen.total);
                if seen.paused {
                    unsettled = slept;
                }
                last.paid.saturating_add(awake)
            }
        };
        let paid = paid.min(since_began);
        self.cut = match via {
            Via::Watch { .. } => None,
            Via::Ask { .. } => assumed.map(|_| now.at),
        };
        self.settle_joined(now.at, paid);
        self.last = Some(Last { seen, now, paid, unsettled });
        assumed.is_some() || (was_paused && !seen.paused)
    }

    /// The link is up, and what is known is newer than what it has told. Says whether waiters must look again.
    fn heard_again(&mut self, now: Instant) -> bool {
        let was_cut = self.cut.take().is_some();
        self.settle_joined(now, self.paid(now));
        was_cut
    }

    /// Gives those who joined without knowledge their place.
    fn settle_joined(&mut self, now: Instant, paid: Duration) {
        if let Some(joined) = self.joined.take() {
            // Nobody else sets it: it was taken out of its only place.
            let _ = joined.set((now, paid));
        }
    }
}

/// The part of `growth`, paused between `last` and `now`, in which this machine was awake; and what it slept that may be in
/// the next total instead.
///
/// Paused when last heard of, the thread was mostly paused all the while: then the growth is as long as the time awake and
/// those sleeps that are in it. Which they are is told by what comes closest.
fn awake(last: &Last, now: Now, growth: Duration) -> (Duration, Duration) {
    let awake = now.at.saturating_duration_since(last.now.at);
    let slept = now.slept.saturating_sub(last.now.slept);
    let slept = if slept < SHORTEST_SLEEP { Duration::ZERO } else { slept };
    match (slept.is_zero() && last.unsettled.is_zero(), last.seen.paused) {
        (true, _) => return (growth, Duration::ZERO),
        (_, false) => return (growth.min(awake), slept),
        (false, true) => {}
    }
    let none = (Duration::ZERO, if slept.is_zero() { last.unsettled } else { slept });
    let (all, new, old) = (last.unsettled + slept, slept, last.unsettled);
    let choices = [none, (new, Duration::ZERO), (old, new), (all, Duration::ZERO)];
    let possible = choices.into_iter().filter(|(within, _)| *within <= growth);
    let closest = possible.min_by_key(|(within, _)| growth.abs_diff(awake + *within));
    let (within, unsettled) = closest.unwrap_or(none);
    // What was known last may have been on its way for some time, which is in the growth too.
    let most = if within.is_zero() { awake + LONGEST_WAY } else { growth };
    ((growth - within).min(most), unsettled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = s(30);
    const WATCH: Via = Via::Watch { gap: false };
    const GAP: Via = Via::Watch { gap: true };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// By asking when this revision was known.
    const fn asked(revision: u64) -> Via {
        Via::Ask { known: Some(revision) }
    }

    struct Thread {
        credit: PausedTimeTracker,
        start: Instant,
    }

    impl Thread {
        fn new() -> Self {
            let start = Instant::now();
            Self { credit: PausedTimeTracker::new(start, GRACE), start }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + s(seconds)
        }

        fn apply(&mut self, at: u64, revision: u64, paused: bool, total: u64, via: Via) -> bool {
            let now = Now { at: self.at(at), slept: Duration::ZERO };
            self.credit.apply(now, Seen { revision, paused, total: s(total) }, via)
        }

        fn paid(&self, at: u64) -> u64 {
            self.credit.paid(self.at(at)).as_secs()
        }

        fn paused(&self, at: u64) -> bool {
            self.credit.is_paused(self.at(at))
        }
    }

    #[test]
    fn g3_paid_follows_the_total_and_runs_on_while_paused() {
        let mut thread = Thread::new();
        thread.apply(0, 4, false, 100, GAP);
        assert_eq!((thread.paid(9), thread.paused(9)), (0, false));
        thread.apply(10, 5, true, 100, WATCH);
        assert_eq!((thread.paid(13), thread.paused(13)), (3, true));
        thread.apply(14, 6, false, 104, WATCH);
        assert_eq!((thread.paid(20), thread.paused(20)), (4, false));
    }

    #[test]
    fn the_first_state_credits_no_more_than_the_time_since_the_beginning() {
        let mut paused = Thread::new();
        paused.apply(2, 9, true, 3_600, GAP);
        assert_eq!((paused.paid(2), paused.paid(5)), (2, 5));
        let mut less = Thread::new();
        less.apply(9, 9, false, 4, GAP);
        assert_eq!(less.paid(20), 4);
    }

    #[test]
    fn g3_a_pause_within_a_break_is_credited_afterwards() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        assert!(!thread.credit.cut(thread.at(10)), "nobody waits for the resume of a running thread");
        assert_eq!(thread.paid(25), 0);
        assert!(thread.apply(25, 3, false, 9, GAP), "waiters look again");
        assert_eq!(thread.paid(30), 9);
    }

    #[test]
    fn g3_a_pause_that_ended_within_a_break_is_credited_to_its_end_only() {
        let mut thread = Thread::new();
        thread.apply(0, 1, true, 0, GAP);
        assert!(thread.credit.cut(thread.at(10)), "those who wait for the resume must now see to themselves");
        assert_eq!(thread.paid(25), 25);
        assert!(thread.apply(25, 2, false, 12, GAP));
        assert_eq!((thread.paid(25), thread.paid(40)), (12, 12));
    }

    #[test]
    fn g2_cut_off_a_pause_counts_for_the_grace_only() {
        let mut thread = Thread::new();
        thread.apply(0, 1, true, 0, GAP);
        thread.credit.cut(thread.at(10));
        assert_eq!((thread.paused(39), thread.paused(40), thread.paid(100)), (true, false, 40));
        // The pause was real: all of it is credited.
        thread.apply(100, 1, true, 100, GAP);
        assert_eq!((thread.paused(100), thread.paid(101)), (true, 101));
    }

    #[test]
    fn g3_a_snapshot_that_an_answer_has_overtaken_changes_nothing() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.credit.cut(thread.at(10));
        assert!(thread.apply(20, 3, false, 4, asked(1)));
        // Its stream was opened before the answer was given.
        assert!(thread.apply(25, 2, true, 3, GAP), "the link is up again: waiters look again");
        assert_eq!((thread.paid(26), thread.paused(26), thread.credit.thaw()), (4, false, None));
        thread.apply(27, 3, false, 4, WATCH);
        assert_eq!((thread.paid(30), thread.paused(30)), (4, false));
    }

    #[test]
    fn g3_the_first_snapshot_may_be_overtaken_too_and_who_joined_has_a_place() {
        let mut thread = Thread::new();
        thread.apply(1, 2, true, 0, Via::Ask { known: None });
        let (_, joined) = thread.credit.join(thread.at(3));
        thread.apply(5, 1, false, 0, GAP);
        assert_eq!((thread.paid(5), thread.paused(5)), (4, true), "the pause goes on");
        let (at, paid) = *joined.get().expect("it has its place");
        assert_eq!((at, paid), (thread.at(5), s(4)));
    }

    #[test]
    fn g3_of_two_views_of_one_pause_the_older_changes_nothing() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.apply(10, 2, true, 6, WATCH);
        thread.apply(11, 2, true, 3, asked(1));
        assert_eq!((thread.paid(12), thread.paused(12)), (8, true), "the answer was on its way for long");
        thread.credit.cut(thread.at(12));
        thread.apply(14, 2, true, 10, asked(2));
        thread.apply(15, 2, true, 8, GAP);
        assert_eq!((thread.paid(15), thread.credit.thaw()), (11, None), "so was the snapshot");
        thread.apply(15, 2, true, 9, WATCH);
        thread.credit.cut(thread.at(15));
        thread.apply(15, 2, true, 8, GAP);
        assert_eq!(thread.paid(15), 11, "one stream may take over from another with a view that is older still");
        thread.apply(16, 3, false, 12, WATCH);
        assert_eq!(thread.paid(20), 12);
    }

    #[test]
    fn a_revision_below_what_the_watch_has_told_means_lost_state_whatever_was_asked_for() {
        let mut thread = Thread::new();
        thread.apply(0, 7, false, 0, GAP);
        thread.credit.cut(thread.at(10));
        thread.apply(12, 9, false, 2, asked(7));
        thread.apply(20, 1, true, 0, GAP);
        assert_eq!((thread.paid(23), thread.paused(23)), (5, true), "what was credited stays, and counts on");
    }

    #[test]
    fn g2_an_answer_while_the_watch_is_cut_counts_for_one_more_grace() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.credit.cut(thread.at(10));
        thread.apply(20, 2, true, 5, asked(1));
        assert_eq!((thread.paused(49), thread.paused(50), thread.paid(60)), (true, false, 35));
        // Also one that tells nothing new: the server's total may stand still for a moment.
        assert!(thread.apply(45, 2, true, 5, asked(2)), "waiters look again");
        assert_eq!((thread.paused(74), thread.paused(75)), (true, false));
    }

    #[test]
    fn a_server_that_lost_its_state_takes_no_credit_back() {
        let mut thread = Thread::new();
        thread.apply(0, 7, true, 50, GAP);
        thread.apply(10, 8, false, 60, WATCH);
        thread.credit.cut(thread.at(10));
        thread.apply(20, 1, true, 3, GAP);
        assert_eq!((thread.paid(20), thread.paid(25)), (13, 18), "10 s before the loss, 3 s since, 5 s more");
        // The total is higher by chance; the revision tells.
        thread.apply(30, 0, true, 13, GAP);
        assert_eq!(thread.paid(30), 23);
    }

    #[test]
    fn states_that_are_overtaken_are_ignored_and_lost_state_is_not() {
        let mut thread = Thread::new();
        thread.apply(0, 5, false, 0, GAP);
        thread.apply(1, 7, true, 0, asked(5));
        thread.apply(1, 6, false, 0, WATCH);
        assert!(thread.paused(1), "revision 6 was on its way when 7 was asked for");
        thread.apply(2, 6, false, 0, asked(5));
        assert!(thread.paused(2), "so was this answer");
        thread.apply(3, 1, false, 0, asked(7));
        assert!(!thread.paused(3), "an answer below what was known before the question is of another life");
    }

    #[test]
    fn g3_a_sleep_of_the_machine_within_a_pause_pays_for_nothing() {
        let hour = s(3_600);
        let start = Instant::now();
        let mut credit = PausedTimeTracker::new(start, GRACE);
        let seen = |revision, paused, total| Seen { revision, paused, total };
        let now = |at, slept| Now { at: start + s(at), slept };
        credit.apply(now(0, s(7)), seen(1, false, s(0)), GAP);
        credit.apply(now(600, s(7)), seen(2, true, s(0)), WATCH);
        credit.apply(now(640, s(7) + hour), seen(3, false, hour + s(10)), GAP);
        assert_eq!(credit.paid(start + s(640)), s(10), "of 40 s awake, 10 s were paused");
        // Fell asleep running: no more than the time awake.
        credit.apply(now(660, s(7) + 2 * hour), seen(5, false, 2 * hour), GAP);
        assert_eq!(credit.paid(start + s(660)), s(30));
    }

    #[test]
    fn g3_two_clocks_that_were_not_read_at_once_are_no_sleep() {
        let start = Instant::now();
        let mut credit = PausedTimeTracker::new(start, GRACE);
        let ms = Duration::from_millis;
        let seen = |revision, paused, total| Seen { revision, paused, total };
        credit.apply(Now { at: start, slept: s(7) }, seen(1, true, s(0)), GAP);
        credit.apply(Now { at: start + s(10), slept: s(7) + ms(99) }, seen(2, false, ms(10_099)), WATCH);
        assert_eq!(credit.paid(start + s(10)), s(10), "up to the time since the beginning");
        credit.apply(Now { at: start + s(20), slept: s(7) + ms(99) }, seen(3, true, ms(10_099)), WATCH);
        // A little more than the time awake: the pause had been on its way for as long.
        credit.apply(Now { at: start + s(30), slept: s(7) + ms(198) }, seen(4, false, ms(20_198)), WATCH);
        assert_eq!(credit.paid(start + s(30)), s(10) + ms(10_099), "all that the server says");
    }

    #[test]
    fn g3_a_state_that_a_sleep_of_the_machine_overtook_is_credited_whole() {
        let start = Instant::now();
        let mut credit = PausedTimeTracker::new(start, GRACE);
        let seen = |revision, paused, total| Seen { revision, paused, total: s(total) };
        let now = |at, slept| Now { at: start + s(at), slept: s(slept) };
        credit.apply(now(0, 7), seen(1, true, 0), GAP);
        // Sent at 20; the machine slept for an hour at 21.
        credit.apply(now(22, 3_607), seen(2, true, 20), WATCH);
        assert_eq!(credit.paid(start + s(22)), s(20), "2 s on its way: paid when the next one comes");
        credit.apply(now(30, 3_607), seen(3, false, 3_630), WATCH);
        assert_eq!(credit.paid(start + s(40)), s(30));
        // Resumed, then the sleep, then the news of it.
        credit.apply(now(50, 3_607), seen(4, true, 3_630), WATCH);
        credit.apply(now(60, 3_707), seen(5, false, 3_639), WATCH);
        assert_eq!(credit.paid(start + s(60)), s(39));
        // A sleep while it ran is none of the next pause.
        credit.apply(now(70, 3_807), seen(6, true, 3_639), WATCH);
        credit.apply(now(80, 3_807), seen(7, false, 3_649), WATCH);
        assert_eq!(credit.paid(start + s(80)), s(49));
        // Two of them, the second of which is in the pause.
        credit.apply(now(90, 3_907), seen(8, true, 3_649), WATCH);
        credit.apply(now(100, 3_957), seen(9, true, 3_709), WATCH);
        credit.apply(now(105, 3_957), seen(10, false, 3_714), WATCH);
        assert_eq!(credit.paid(start + s(105)), s(64));
    }

    #[test]
    fn who_joins_gets_its_place_with_the_next_state() {
        let mut thread = Thread::new();
        thread.apply(0, 1, false, 0, GAP);
        thread.credit.cut(thread.at(10));
        let (paid, joined) = thread.credit.join(thread.at(15));
        assert_eq!((paid, joined.get()), (s(0), None));
        thread.apply(20, 3, false, 10, GAP);
        assert_eq!(joined.get(), Some(&(thread.at(20), s(10))));
        let (_, later) = thread.credit.join(thread.at(21));
        assert_eq!(later.get(), None, "who joins later waits for a state of its own");
    }
}
