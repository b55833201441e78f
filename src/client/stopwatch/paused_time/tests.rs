//! The paused time of a thread beyond the cases of `clients/vectors`: confirmations, joins, and which waiters a state
//! wakes.
use super::*;

const GRACE: Duration = s(30);
const WATCH: Source = Source::Watch;
const CONFIRMATION: Source = Source::Confirmation;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

struct Thread {
    tracker: PausedTimeTracker,
    start: Instant,
    /// The epoch of the states that are applied next.
    epoch: u64,
}

impl Thread {
    fn new() -> Self {
        let start = Instant::now();
        Self { tracker: PausedTimeTracker::new(start, GRACE), start, epoch: 1 }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + s(seconds)
    }

    fn apply(&mut self, at: u64, revision: u64, paused: bool, total: u64, source: Source) -> bool {
        self.apply_pause(at, revision, paused.then_some(0), total, source)
    }

    /// Applies a state with an open pause of so many seconds; `None`: the thread runs.
    fn apply_pause(&mut self, at: u64, revision: u64, open: Option<u64>, total: u64, source: Source) -> bool {
        let now = LocalTime { at: self.at(at), slept: Duration::ZERO };
        let (paused, paused_for) = (open.is_some(), s(open.unwrap_or_default()));
        let state = ObservedState { epoch: self.epoch, revision, paused, total: s(total), paused_for };
        self.tracker.apply(now, state, source)
    }

    fn disconnect(&mut self, at: u64) -> bool {
        self.tracker.disconnect(self.at(at), self.at(at))
    }

    fn paused_time(&self, at: u64) -> u64 {
        self.tracker.paused_time(self.at(at)).as_secs()
    }

    fn paused(&self, at: u64) -> bool {
        self.tracker.is_paused(self.at(at))
    }
}

#[test]
fn waiters_check_again_when_a_pause_has_ended_or_may_have() {
    let running = |thread: &mut Thread| thread.apply(0, 1, false, 0, WATCH);
    let paused = |thread: &mut Thread| thread.apply(0, 1, true, 0, WATCH);
    let mut thread = Thread::new();
    running(&mut thread);
    assert!(!thread.disconnect(10), "a running thread must have no waiters for its resume");
    assert!(thread.apply(25, 3, false, 9, WATCH), "the pause was longer than was known");
    let mut thread = Thread::new();
    paused(&mut thread);
    assert!(thread.disconnect(10), "waiters for the resume must now use a timer");
    assert!(thread.apply(25, 2, false, 12, WATCH), "a resume");
    let mut thread = Thread::new();
    paused(&mut thread);
    thread.disconnect(10);
    thread.epoch = 2;
    assert!(thread.apply(15, 900, false, 0, WATCH), "the loss of state must end the pause");
    let mut thread = Thread::new();
    paused(&mut thread);
    assert!(thread.tracker.disconnect(thread.at(40), thread.at(5)), "the connection was lost without notice");
}

#[test]
fn g2_a_confirmation_counts_for_when_the_link_was_lost() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    thread.apply(20, 1, true, 20, CONFIRMATION);
    thread.tracker.disconnect(thread.at(40), thread.at(5));
    assert_eq!((thread.paused(49), thread.paused_time(60)), (true, 50));
}

#[test]
fn g2_a_confirmation_while_disconnected_extends_the_pause_by_one_grace() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    thread.disconnect(10);
    thread.apply(20, 2, true, 5, CONFIRMATION);
    assert_eq!((thread.paused(49), thread.paused(50), thread.paused_time(60)), (true, false, 35));
    // A confirmation without news extends it too: the server's total may stay the same for a moment.
    assert!(thread.apply(45, 2, true, 5, CONFIRMATION), "waiters check again");
    assert_eq!((thread.paused(74), thread.paused(75)), (true, false));
}

#[test]
fn a_state_of_the_program_that_is_older_than_the_known_one_changes_nothing() {
    let mut thread = Thread::new();
    thread.apply(0, 5, true, 0, Source::Program);
    assert!(!thread.apply(5, 4, false, 0, Source::Program));
    assert_eq!((thread.paused(6), thread.paused_time(6)), (true, 6));
    // From the watch, this state shows that the server has lost its state.
    assert!(thread.apply(7, 4, false, 0, WATCH));
    assert_eq!((thread.paused(8), thread.paused_time(8)), (false, 7));
}

#[test]
fn the_next_state_sets_the_join_baseline() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    thread.disconnect(10);
    let (paused_time, baseline) = thread.tracker.join(thread.at(15));
    assert_eq!((paused_time, baseline.get()), (s(0), None));
    thread.apply_pause(20, 3, Some(2), 10, WATCH);
    let expected = Baseline { at: thread.at(20), paused_time: s(10), open_pause: s(2) };
    assert_eq!(baseline.get(), Some(&expected));
    let (_, later) = thread.tracker.join(thread.at(21));
    assert_eq!(later.get(), None, "a later join must wait for its own state");
}

/// Otherwise the time before it joined would be charged to it.
#[test]
fn g1_a_pause_counts_until_the_last_join_before_the_link_was_known_to_be_dead() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    assert_eq!(thread.tracker.join(thread.at(38)).0, s(38));
    thread.tracker.disconnect(thread.at(40), thread.at(5));
    assert_eq!((thread.paused(38), thread.paused_time(50)), (false, 38));
    assert_eq!(thread.tracker.unconfirmed_pause(thread.at(38)), s(0), "it must have its whole grace period");
    // Later joins change nothing: the pause is over by then.
    thread.tracker.join(thread.at(45));
    assert_eq!(thread.paused_time(50), 38);
}

#[test]
fn g1_a_pause_uses_the_grace_of_those_who_were_there() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    thread.disconnect(10);
    let used = |thread: &Thread, joined| thread.tracker.unconfirmed_pause(thread.at(joined)).as_secs();
    assert_eq!((used(&thread, 0), used(&thread, 25), used(&thread, 50)), (30, 15, 0));
    thread.apply(60, 1, false, 20, WATCH);
    assert_eq!(used(&thread, 0), 0);
}
