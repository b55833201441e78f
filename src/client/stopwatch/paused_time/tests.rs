//! The paused time that a tracker credits, state by state.
use super::*;

/// The epoch of states that a test does not give another.
const EPOCH: u64 = 1;
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
        Self { tracker: PausedTimeTracker::new(start, GRACE), start, epoch: EPOCH }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + s(seconds)
    }

    fn apply(&mut self, at: u64, revision: u64, paused: bool, total: u64, source: Source) -> bool {
        let now = LocalTime { at: self.at(at), slept: Duration::ZERO };
        self.tracker.apply(now, ObservedState { epoch: self.epoch, revision, paused, total: s(total) }, source)
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
fn g3_paused_time_follows_the_total_and_grows_while_paused() {
    let mut thread = Thread::new();
    thread.apply(0, 4, false, 100, WATCH);
    assert_eq!((thread.paused_time(9), thread.paused(9)), (0, false));
    thread.apply(10, 5, true, 100, WATCH);
    assert_eq!((thread.paused_time(13), thread.paused(13)), (3, true));
    thread.apply(14, 6, false, 104, WATCH);
    assert_eq!((thread.paused_time(20), thread.paused(20)), (4, false));
}

#[test]
fn the_first_state_credits_at_most_the_time_since_the_start() {
    let mut paused = Thread::new();
    paused.apply(2, 9, true, 3_600, WATCH);
    assert_eq!((paused.paused_time(2), paused.paused_time(5)), (2, 5));
    let mut less = Thread::new();
    less.apply(9, 9, false, 4, WATCH);
    assert_eq!(less.paused_time(20), 4);
}

#[test]
fn g3_a_pause_during_a_disconnect_is_credited_after_the_reconnect() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    assert!(!thread.disconnect(10), "a running thread has no waiters for its resume");
    assert_eq!(thread.paused_time(25), 0);
    assert!(thread.apply(25, 3, false, 9, WATCH), "waiters check again");
    assert_eq!(thread.paused_time(30), 9);
}

#[test]
fn g3_a_pause_that_ended_during_a_disconnect_is_credited_until_its_end() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    assert!(thread.disconnect(10), "waiters for the resume now need a timer");
    assert_eq!(thread.paused_time(25), 25);
    assert!(thread.apply(25, 2, false, 12, WATCH));
    assert_eq!((thread.paused_time(25), thread.paused_time(40)), (12, 12));
}

#[test]
fn g2_while_disconnected_a_pause_counts_for_the_grace_only() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    thread.disconnect(10);
    assert_eq!((thread.paused(39), thread.paused(40), thread.paused_time(100)), (true, false, 40));
    // The pause was real: all of it is credited.
    thread.apply(100, 1, true, 100, WATCH);
    assert_eq!((thread.paused(100), thread.paused_time(101)), (true, 101));
}

#[test]
fn g2_a_confirmation_while_disconnected_extends_the_pause_by_one_grace() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    thread.disconnect(10);
    thread.apply(20, 2, true, 5, CONFIRMATION);
    assert_eq!((thread.paused(49), thread.paused(50), thread.paused_time(60)), (true, false, 35));
    // One without news extends it too: the server's total may stand still for a moment.
    assert!(thread.apply(45, 2, true, 5, CONFIRMATION), "waiters check again");
    assert_eq!((thread.paused(74), thread.paused(75)), (true, false));
}

#[test]
fn lost_server_state_does_not_reduce_the_paused_time() {
    let mut thread = Thread::new();
    thread.apply(0, 7, true, 50, WATCH);
    thread.apply(10, 8, false, 60, WATCH);
    thread.disconnect(10);
    thread.apply(20, 1, true, 3, WATCH);
    assert_eq!((thread.paused_time(20), thread.paused_time(25)), (13, 18), "10 s before the loss, 3 s since, 5 s more");
    // The total is higher by chance; the lower revision shows the loss.
    thread.apply(30, 0, true, 13, WATCH);
    assert_eq!(thread.paused_time(30), 23);
}

#[test]
fn a_state_of_the_program_that_is_older_than_the_known_one_changes_nothing() {
    let mut thread = Thread::new();
    thread.apply(0, 5, true, 0, Source::Program);
    assert!(!thread.apply(5, 4, false, 0, Source::Program));
    assert_eq!((thread.paused(6), thread.paused_time(6)), (true, 6));
    // From the watch, it shows that the server has lost its state.
    assert!(thread.apply(7, 4, false, 0, WATCH));
    assert_eq!((thread.paused(8), thread.paused_time(8)), (false, 7));
}

#[test]
fn g3_sleep_of_the_machine_within_a_pause_is_not_credited() {
    let hour = s(3_600);
    let start = Instant::now();
    let mut tracker = PausedTimeTracker::new(start, GRACE);
    let state = |revision, paused, total| ObservedState { epoch: EPOCH, revision, paused, total };
    let now = |at, slept| LocalTime { at: start + s(at), slept };
    tracker.apply(now(0, s(7)), state(1, false, s(0)), WATCH);
    tracker.apply(now(600, s(7)), state(2, true, s(0)), WATCH);
    tracker.apply(now(640, s(7) + hour), state(3, false, hour + s(10)), WATCH);
    assert_eq!(tracker.paused_time(start + s(640)), s(10), "of 40 s awake, 10 s were paused");
    // The thread ran when the machine fell asleep: at most the time awake is credited.
    tracker.apply(now(660, s(7) + 2 * hour), state(5, false, 2 * hour), WATCH);
    assert_eq!(tracker.paused_time(start + s(660)), s(30));
}

#[test]
fn g3_a_small_difference_between_two_clocks_is_not_a_sleep() {
    let start = Instant::now();
    let mut tracker = PausedTimeTracker::new(start, GRACE);
    let ms = Duration::from_millis;
    let state = |revision, paused, total| ObservedState { epoch: EPOCH, revision, paused, total };
    tracker.apply(LocalTime { at: start, slept: s(7) }, state(1, true, s(0)), WATCH);
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
    let state = |revision, paused, total| ObservedState { epoch: EPOCH, revision, paused, total: s(total) };
    let now = |at, slept| LocalTime { at: start + s(at), slept: s(slept) };
    tracker.apply(now(0, 7), state(1, true, 0), WATCH);
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
    thread.apply(0, 1, false, 0, WATCH);
    thread.disconnect(10);
    let (paused_time, baseline) = thread.tracker.join(thread.at(15));
    assert_eq!((paused_time, baseline.get()), (s(0), None));
    thread.apply(20, 3, false, 10, WATCH);
    assert_eq!(baseline.get(), Some(&(thread.at(20), s(10))));
    let (_, later) = thread.tracker.join(thread.at(21));
    assert_eq!(later.get(), None, "a later join waits for a state of its own");
}

#[test]
fn g3_a_lost_total_that_is_exceeded_meanwhile_is_credited_in_full() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    thread.apply(10, 2, true, 0, WATCH);
    thread.apply(12, 3, false, 2, WATCH);
    thread.disconnect(20);
    // Lost 2 s; a pause began 4 s ago, so that the total exceeds the lost one.
    thread.epoch = 2;
    thread.apply(25, 900, true, 4, WATCH);
    assert_eq!((thread.paused_time(25), thread.paused_time(33)), (6, 14));
    thread.apply(34, 901, false, 13, WATCH);
    assert_eq!(thread.paused_time(40), 15);
}

#[test]
fn g3_a_pause_on_both_sides_of_a_loss_is_credited_beyond_the_grace() {
    let mut thread = Thread::new();
    thread.apply(0, 1, false, 0, WATCH);
    thread.apply(10, 2, true, 0, WATCH);
    thread.disconnect(20);
    thread.epoch = 2;
    // Paused for 10 s until the disconnect, again since 25.
    thread.apply(100, 900, true, 75, WATCH);
    assert_eq!((thread.paused_time(100), thread.paused_time(101)), (85, 86));
}

#[test]
fn a_pause_that_a_loss_ended_keeps_what_was_assumed() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    thread.disconnect(10);
    thread.epoch = 2;
    assert!(thread.apply(15, 900, false, 0, WATCH), "waiters for the resume check again");
    assert_eq!((thread.paused_time(15), thread.paused_time(30)), (15, 15));
}

#[test]
fn states_without_an_epoch_are_compared_by_total_and_revision() {
    let mut thread = Thread::new();
    thread.epoch = 0;
    thread.apply(0, 5, false, 0, WATCH);
    thread.apply(5, 6, true, 0, WATCH);
    thread.disconnect(6);
    // The server was upgraded, and kept its store.
    thread.epoch = 2;
    thread.apply(10, 7, false, 3, WATCH);
    assert_eq!(thread.paused_time(20), 3);
}

#[test]
fn g2_a_link_that_died_in_silence_was_lost_with_its_last_message() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    assert!(thread.tracker.disconnect(thread.at(40), thread.at(5)), "waiters for the resume check again");
    assert_eq!((thread.paused(40), thread.paused_time(50)), (false, 35), "the grace is over");
    // The pause was confirmed after the last message.
    let mut asked = Thread::new();
    asked.apply(0, 1, true, 0, WATCH);
    asked.apply(20, 1, true, 20, CONFIRMATION);
    asked.tracker.disconnect(asked.at(40), asked.at(5));
    assert_eq!((asked.paused(49), asked.paused_time(60)), (true, 50));
}

/// Else the time before it joined would be charged to it.
#[test]
fn g1_a_pause_counts_until_the_last_join_before_the_link_was_known_to_be_dead() {
    let mut thread = Thread::new();
    thread.apply(0, 1, true, 0, WATCH);
    assert_eq!(thread.tracker.join(thread.at(38)).0, s(38));
    thread.tracker.disconnect(thread.at(40), thread.at(5));
    assert_eq!((thread.paused(38), thread.paused_time(50)), (false, 38));
    assert_eq!(thread.tracker.unconfirmed_pause(thread.at(38)), s(0), "it has its whole grace");
    // Later ones change nothing: the pause is over by then.
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
