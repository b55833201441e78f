//! Eviction of idle threads, and of results that are remembered for a while.
use super::*;
use pausewatch::test_support::coordinator::Settings;
use pausewatch::test_support::quota::{Accounts, CallerKey, LimitPair, Limits};

#[test]
fn a_thread_is_forgotten_after_24_h_and_goes_on_above_what_any_forgotten_one_had() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    let mut last = 0;
    for _ in 0..3 {
        last = rig.open("busy", None).1;
        last = last.max(rig.open("busy", None).1);
        rig.call("busy", decrement(None)).expect("closes");
        rig.call("busy", decrement(None)).expect("closes");
        last += 2;
    }
    rig.open("open", Some(24 * HOUR));
    rig.clock.advance(IDLE_SPAN - Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.view("busy").header.expect("known").revision, last);
    rig.clock.advance(2 * Duration::from_secs(60));
    rig.turn();
    assert!(rig.view("busy").header.is_none(), "idle for 24 h");
    assert!(rig.view("open").header.is_some(), "its lease has just ended: not idle for 24 h");
    assert_eq!(rig.view("busy").floor, last);
    assert_eq!(rig.open("busy", None).1, last + 1);
    assert_eq!(rig.open("never named before", None).1, last + 1);
    let after_restart = store.orders().model.contents(rig.clock.now());
    assert_eq!(after_restart.floor, last);
    let mut rig = Rig::new(store, rig.clock);
    assert_eq!(rig.open("another new one", None).1, last + 1, "also after a restart");
}

#[test]
fn many_idle_threads_are_forgotten_a_few_at_a_time_without_delaying_calls() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    for i in 0..5_000 {
        rig.open(&format!("t{i}"), None);
        rig.call(&format!("t{i}"), decrement(None)).expect("closes");
    }
    // The oldest remembered results are evicted first.
    for _ in 0..100 {
        rig.clock.advance(Duration::from_secs(60));
        rig.turn();
    }
    rig.clock.advance(IDLE_SPAN + 2 * HOUR);
    store.orders().batches.clear();
    let mut turns = 0;
    while !store.orders().model.contents(rig.clock.now()).records.is_empty() {
        rig.turn();
        rig.clock.advance(Duration::from_millis(10));
        turns += 1;
        assert!(turns < 50, "soon");
    }
    assert!(turns > 2);
    let largest = store.orders().batches.iter().copied().max();
    assert!(largest.is_some_and(|size| size <= 2_010), "{largest:?}");
}

/// The first call after 24 h evicts the thread and recreates it, in one batch.
#[test]
fn a_thread_that_is_named_again_by_the_batch_that_forgets_it_is_kept() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    rig.open("t", None);
    rig.call("t", decrement(None)).expect("closes");
    rig.clock.advance(IDLE_SPAN + HOUR);
    assert_eq!(rig.open("t", None).1, 3);
    assert_eq!(rig.count("t"), 1);
    let records = store.orders().model.contents(rig.clock.now()).records;
    assert_eq!(records.len(), 1, "the eviction is stored too");
    assert_eq!((records[0].header.revision, records[0].open.len()), (3, 1));
}

#[test]
fn remembered_calls_are_deleted_from_the_store_after_10_minutes() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    rig.call("t", increment("r", None)).expect("opens");
    let (id, _) = rig.open("t", None);
    rig.call("t", decrement(Some(&id))).expect("closes");
    rig.clock.advance(Duration::from_secs(601));
    rig.turn();
    rig.clock.advance(Duration::from_secs(61));
    rig.turn();
    let records = store.orders().model.contents(rig.clock.now()).records;
    assert_eq!((records.len(), records[0].memory.is_empty(), records[0].open.len()), (1, true, 1));
}

#[test]
fn g7_a_thread_that_is_forgotten_makes_room_for_another_of_its_caller() {
    let (clock, hub) = (clock(), Arc::<Hub>::default());
    let threads = LimitPair { in_all: None, per_caller: Some(1) };
    let settings = Settings { limits: Some(Limits { threads, ..Limits::default() }), ..Settings::default() };
    let engine = Engine::with(Box::new(Memory), clock.clone(), settings, &hub).expect("there is nothing to load");
    let mut rig = Rig { engine, clock, hub };
    let by = Some(Accounts::default().of(CallerKey::User(1), Duration::ZERO));
    let open = |rig: &mut Rig, thread: &str| {
        let call = Call { by: by.clone(), ..Call::from((thread_id(thread), increment("", Some(SECOND)))) };
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        rig.engine.process(&[call], &mut outcomes, &mut committed).expect("it keeps nothing");
        outcomes.remove(0)
    };
    assert!(open(&mut rig, "first").is_ok());
    assert!(matches!(open(&mut rig, "second"), Err(Refusal::LimitExceeded(_))));
    rig.clock.advance(SECOND);
    rig.turn();
    assert!(matches!(open(&mut rig, "second"), Err(Refusal::LimitExceeded(_))), "an idle thread is kept for a day");
    rig.clock.advance(IDLE_SPAN + 2 * Duration::from_secs(60));
    rig.turn();
    assert!(open(&mut rig, "second").is_ok());
}
