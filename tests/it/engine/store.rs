//! A store that cannot be written, or is in memory.
use super::*;
use pausewatch::test_support::coordinator::{ChangeObserver, Changed, Settings};
use pausewatch::test_support::metrics::Metrics;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn while_the_store_refuses_changes_are_refused_and_renewals_and_reads_go_on() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    let (id, revision) = rig.open("t", Some(30 * SECOND));
    store.orders().refuse = true;
    assert!(unavailable(&rig.call("t", increment("r", None))));
    assert!(unavailable(&rig.call("t", decrement(Some(&id)))));
    assert!(unavailable(&rig.call("new", increment("r", None))));
    assert!(rig.call("t", renew(&id)).is_ok());
    assert!(rig.call("t", renew_for(&id, 30 * SECOND)).is_ok(), "a renewal with the same length stores nothing");
    assert!(unavailable(&rig.call("t", renew_for(&id, HOUR))), "its new length would be lost by a restart");
    assert!(matches!(rig.call("new", decrement(None)), Err(Refusal::NoOutstanding { .. })));
    let view = rig.view("t");
    assert_eq!((view.open.len(), view.header.expect("known").revision), (1, revision), "the change was not published");
    assert!(rig.view("new").header.is_none());
    (store.orders().recovers, store.orders().refuse) = (true, false);
    rig.clock.advance(SECOND);
    let again = rig.call("t", increment("r", None)).expect("the same request id counts once, now");
    assert!(matches!(again, Answer::Incremented { count: 2, revision: made, .. } if made == revision + 1));
}

/// G2: leases do not end while their holders cannot be served; afterwards each has a full ttl.
#[test]
fn an_outage_of_the_store_restarts_every_lease() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    rig.open("t", Some(30 * SECOND));
    store.orders().refuse = true;
    rig.clock.advance(31 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 1, "its end could not be stored");
    store.orders().refuse = false;
    rig.clock.advance(HOUR);
    rig.turn();
    // The turn in which the store recovers does not check leases yet.
    rig.turn();
    assert_eq!(rig.count("t"), 1, "E3");
    rig.clock.advance(30 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 0);
}

/// Callers who retry all the time must not delay the recovery of the store.
#[test]
fn a_store_that_refuses_is_tried_again_every_second_however_many_calls_come() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    rig.turn();
    (store.orders().refuse, store.orders().recovers) = (true, true);
    let mut refused = 0;
    while unavailable(&rig.call("t", increment("", None))) {
        rig.clock.advance(Duration::from_millis(50));
        refused += 1;
        assert!(refused <= 21, "the store was not retried after a second: {} recoveries", store.orders().recoveries);
    }
    assert!(refused > 15, "the store was retried before a second had passed");
}

#[test]
fn a_batch_that_is_refused_is_taken_back_whole() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    let (id, _) = rig.open("a", None);
    store.orders().refuse = true;
    let batch = [
        ("a", increment("r1", None)),
        ("a", decrement(Some(&id))),
        ("b", increment("r2", None)),
        ("b", decrement(None)),
        ("a", renew(&id)),
    ];
    let outcomes = rig.try_batch(&batch).expect("refused, not fatal");
    let refused: Vec<_> = outcomes.iter().map(unavailable).collect();
    assert_eq!(refused, [true, true, true, false, false]);
    assert!(
        matches!(outcomes[3], Err(Refusal::NoOutstanding { .. })),
        "decided as if the failed calls had not been made"
    );
    assert!(outcomes[4].is_ok(), "the elicitation that the failed batch closed is open again, and can be renewed");
    store.orders().refuse = false;
    rig.clock.advance(SECOND);
    let outcomes = rig.try_batch(&batch[..4]).expect("stored");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!((rig.count("a"), rig.count("b")), (1, 0));
    let now = rig.clock.now();
    let stored = store.orders().model.contents(now);
    assert_eq!(stored.records.iter().map(|record| record.open.len()).collect::<Vec<_>>(), [1, 0]);
}

/// A thread stays known when a call on it is refused, even if it is at the revision floor.
#[test]
fn a_refused_call_does_not_make_a_thread_forgotten() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    for thread in ["old", "t"] {
        rig.open(thread, None);
        rig.clock.advance(SECOND);
        rig.call(thread, decrement(None)).expect("closes");
        rig.clock.advance(HOUR);
    }
    rig.clock.advance(IDLE_SPAN - HOUR - Duration::from_secs(60));
    rig.turn();
    assert_eq!(
        (rig.view("t").floor, rig.view("t").header.expect("known").revision),
        (2, 2),
        "old is forgotten, t is not"
    );
    store.orders().refuse = true;
    assert!(unavailable(&rig.call("t", increment("", None))));
    store.orders().refuse = false;
    rig.clock.advance(SECOND);
    rig.open("t", None);
    rig.clock.advance(3 * SECOND);
    assert_eq!(rig.paused_total("t"), 4 * SECOND, "the earlier pause still counts");
}

#[test]
fn while_the_disk_is_full_increments_are_refused_and_all_else_goes_on() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    rig.call("t", increment("r", Some(20 * SECOND))).expect("opens");
    let (id, _) = rig.open("t", None);
    let (leased, _) = rig.open("t", Some(20 * SECOND));
    store.orders().full = true;
    assert!(unavailable(&rig.call("t", increment("another", None))));
    assert!(unavailable(&rig.call("new", increment("", None))));
    assert!(rig.call("t", increment("r", Some(20 * SECOND))).is_ok(), "it was made before, and needs no memory");
    assert!(rig.call("t", renew(&leased)).is_ok());
    assert!(rig.call("t", decrement(Some(&id))).is_ok());
    rig.clock.advance(20 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 0, "leases end");
    store.orders().recovers = true;
    assert!(rig.engine.next_due() <= rig.clock.now().after(SECOND).boot, "it is also retried without a call");
    rig.clock.advance(SECOND);
    assert!(rig.call("t", increment("another", None)).is_ok());
}

#[test]
fn every_thread_of_a_batch_is_stored_as_it_is_after_the_batch() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    let calls = ["a", "a", "b", "a"].map(|thread| (thread, increment("", None)));
    rig.try_batch(&calls).expect("the store is sound");
    assert_eq!(store.orders().batches, [4 + 3], "four elicitations, and a header for each run of a thread");
    let header = |rig: &Rig, thread| rig.view(thread).header.expect("it is known");
    let before = ["a", "b"].map(|thread| header(&rig, thread));
    let again = Rig::new(store, rig.clock.clone());
    assert_eq!(["a", "b"].map(|thread| header(&again, thread)), before);
    assert_eq!((again.count("a"), again.count("b")), (3, 1));
}

#[test]
fn a_store_that_may_take_long_says_so() {
    let store = Obedient::default();
    let rig = Rig::new(store.clone(), clock());
    assert!(!rig.engine.may_wait());
    store.orders().slow = true;
    assert!(rig.engine.may_wait());
}

#[test]
fn commits_are_counted() {
    let (clock, hub, metrics) = (clock(), Arc::<Hub>::default(), Arc::<Metrics>::default());
    let settings = Settings { metrics: metrics.clone(), ..Settings::default() };
    let store = Obedient::default();
    let engine = Engine::with(Box::new(store.clone()), clock.clone(), settings, &hub).expect("the store is sound");
    let mut rig = Rig { engine, clock, hub };
    let (id, _) = rig.open("t", None);
    rig.open("t", Some(SECOND));
    store.orders().refuse = true;
    assert!(unavailable(&rig.call("t", increment("", None))));
    let counted = || [&metrics.opened, &metrics.released, &metrics.expired].map(|counter| counter.get());
    assert_eq!((counted(), metrics.pauses.read().count()), ([2, 0, 0], 0));
    (store.orders().recovers, store.orders().refuse) = (true, false);
    rig.clock.advance(SECOND);
    rig.call("t", decrement(Some(&id))).expect("it is open");
    // The lease restarted after the outage.
    assert_eq!((counted(), metrics.pauses.read().count()), ([2, 1, 0], 0));
    rig.clock.advance(SECOND);
    rig.turn();
    assert_eq!((counted(), metrics.pauses.read().count()), ([2, 1, 1], 1), "the pause is over");
}

#[test]
fn increments_are_refused_while_the_observer_is_full_and_other_calls_continue() {
    /// An audit trail that accepts no more lines.
    struct Full(Arc<AtomicBool>);
    impl ChangeObserver for Full {
        fn changed(&mut self, _: &Changed<'_>) {}
        fn is_full(&self) -> bool {
            self.0.load(Relaxed)
        }
    }
    let (full, clock, hub) = (Arc::<AtomicBool>::default(), clock(), Arc::<Hub>::default());
    let metrics = Arc::<Metrics>::default();
    let witness: Option<Box<dyn ChangeObserver>> = Some(Box::new(Full(full.clone())));
    let settings = Settings { witness, metrics: metrics.clone(), ..Settings::default() };
    let engine = Engine::with(Box::new(Memory), clock.clone(), settings, &hub).expect("there is nothing to load");
    let mut rig = Rig { engine, clock, hub };
    let (id, _) = rig.open("t", None);
    full.store(true, Relaxed);
    assert!(unavailable(&rig.call("t", increment("", None))));
    assert!(metrics.store_failing.load(Relaxed));
    assert!(rig.call("t", decrement(Some(&id))).is_ok());
    full.store(false, Relaxed);
    assert!(rig.engine.next_due() <= rig.clock.now().after(SECOND).boot, "it is also noticed without a call");
    rig.clock.advance(SECOND);
    rig.turn();
    assert!(!metrics.store_failing.load(Relaxed));
    rig.open("t", None);
    full.store(true, Relaxed);
    assert!(unavailable(&rig.call("t", increment("", None))));
    drop(rig);
    assert!(!metrics.store_failing.load(Relaxed), "another server, or another term of this one, has its own metrics");
}

#[test]
fn calls_without_a_lasting_change_are_answered_without_the_disk() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    let (id, _) = rig.open("t", Some(20 * SECOND));
    store.orders().batches.clear();
    for command in [renew(&id), renew_for(&id, 20 * SECOND), decrement(Some("00000000000000000000000000000000"))] {
        let _ = rig.call("t", command);
    }
    rig.turn();
    assert!(store.orders().batches.is_empty());
    rig.call("t", renew_for(&id, HOUR)).expect("it is open");
    assert_eq!(store.orders().batches.len(), 1, "the length of a lease outlives the process");
}

#[test]
fn a_broken_store_answers_no_call_and_publishes_nothing() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    store.orders().fatal = true;
    let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
    let calls = [(thread_id("t"), increment("", None)).into()];
    assert!(rig.engine.process(&calls, &mut outcomes, &mut committed).is_err());
    assert!(committed.is_empty(), "G5: nothing is published before it is durable");
}

#[test]
fn a_store_that_keeps_nothing_begins_above_the_revisions_of_the_process_before() {
    let clock = clock();
    let mut rig = Rig::new(Memory, clock.clone());
    let last = (0..100).map(|_| rig.open("t", None).1).max().expect("some");
    clock.advance(Duration::from_millis(10));
    assert!(Rig::new(Memory, clock).open("t", None).1 > last);
}
