//! The engine over a clock that the test moves and a store that obeys: what takes a day, a sleep or an outage.
use crate::support::model::{Obedient, thread_id};
use pausewatch::clock::{Clock, Manual};
use pausewatch::coordinator::{Call, Engine, Fatal, IDLE_SPAN, Outcome};
use pausewatch::core::types::Ttl;
use pausewatch::core::{Answer, Command, Moment, Named, Refusal};
use pausewatch::hub::{Hub, View};
use pausewatch::store::{Embedded, Memory, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// An engine and what surrounds it.
struct Rig {
    engine: Engine,
    clock: Arc<Manual>,
    hub: Arc<Hub>,
}

fn clock() -> Arc<Manual> {
    Arc::new(Manual::new(Moment { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 }, 7))
}

fn increment(request_id: &str, ttl: Option<Duration>) -> Command {
    let ttl = ttl.map(|ttl| Ttl::new("ttl", ttl).expect("within the limits"));
    Command::Increment { request_id: request_id.into(), reason: "".into(), holder: "".into(), ttl }
}

fn decrement(elicitation: Option<&str>) -> Command {
    Command::Decrement { request_id: "".into(), elicitation: elicitation.map(|id| Named(id.into())) }
}

fn renew(elicitation: &str) -> Command {
    Command::Renew { elicitation: Named(elicitation.into()), ttl: None }
}

fn renew_for(elicitation: &str, ttl: Duration) -> Command {
    Command::Renew {
        elicitation: Named(elicitation.into()),
        ttl: Some(Ttl::new("ttl", ttl).expect("within the limits")),
    }
}

impl Rig {
    fn new(store: impl Store, clock: Arc<Manual>) -> Self {
        let hub = Arc::<Hub>::default();
        let engine = Engine::new(Box::new(store), clock.clone(), Some(24 * HOUR), &hub).expect("the store is sound");
        Rig { engine, clock, hub }
    }

    fn in_directory(directory: &Path, clock: Arc<Manual>) -> Self {
        Self::new(Embedded::open(directory, clock.boot_id()).expect("the store is sound"), clock)
    }

    fn try_batch(&mut self, calls: &[(&str, Command)]) -> Result<Vec<Outcome>, Fatal> {
        let calls: Vec<Call> = calls.iter().map(|(thread, command)| (thread_id(thread), command.clone())).collect();
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        self.engine.process(&calls, &mut outcomes, &mut committed)?;
        assert_eq!(outcomes.len(), calls.len());
        self.hub.publish(committed);
        Ok(outcomes)
    }

    fn call(&mut self, thread: &str, command: Command) -> Outcome {
        self.try_batch(&[(thread, command)]).expect("the store is sound").remove(0)
    }

    /// What the engine does by itself at this time.
    fn turn(&mut self) {
        self.try_batch(&[]).expect("the store is sound");
    }

    fn open(&mut self, thread: &str, ttl: Option<Duration>) -> (String, u64) {
        match self.call(thread, increment("", ttl)).expect("it is accepted") {
            Answer::Incremented { elicitation, revision, .. } => (elicitation.id.to_string(), revision),
            other => panic!("an increment was answered {other:?}"),
        }
    }

    fn view(&self, thread: &str) -> View {
        self.hub.get(&thread_id(thread))
    }

    fn count(&self, thread: &str) -> usize {
        self.view(thread).open.len()
    }

    fn paused_total(&self, thread: &str) -> Duration {
        self.view(thread).header.expect("it is known").pause.total(self.clock.now())
    }
}

fn unavailable(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Refusal::StoreUnavailable { .. }))
}

// Leases.

/// G2: without any call, the engine asks to be run at the end of the first lease, and then closes it.
#[test]
fn the_end_of_a_lease_needs_no_call() {
    for mut rig in [Rig::new(Memory, clock()), Rig::new(Obedient::default(), clock())] {
        rig.turn();
        rig.open("t", Some(50 * SECOND));
        let (id, _) = rig.open("t", Some(20 * SECOND));
        assert_eq!(rig.engine.next_due(), rig.clock.now().after(20 * SECOND).boot);
        rig.clock.advance(20 * SECOND - Duration::from_nanos(1));
        rig.turn();
        assert_eq!(rig.count("t"), 2);
        rig.clock.advance(Duration::from_nanos(1));
        rig.turn();
        assert_eq!(rig.count("t"), 1);
        assert!(matches!(rig.call("t", renew(&id)), Err(Refusal::Expired { ago_ms: 0, .. })));
        assert_eq!(rig.engine.next_due(), rig.clock.now().after(30 * SECOND).boot);
    }
}

#[test]
fn a_call_that_comes_after_the_end_of_a_lease_finds_it_ended() {
    let mut rig = Rig::new(Obedient::default(), clock());
    let (id, _) = rig.open("t", Some(SECOND));
    rig.clock.advance(SECOND);
    assert!(matches!(rig.call("t", renew(&id)), Err(Refusal::Expired { .. })), "E2");
    assert!(matches!(rig.call("t", decrement(None)), Err(Refusal::NoOutstanding { .. })));
}

/// G2: thousands of leases that end at once are closed over some batches, none of which is held up for long; who calls
/// meanwhile finds those of its own thread ended.
#[test]
fn leases_that_end_all_at_once_are_closed_a_batch_at_a_time() {
    let mut rig = Rig::new(Memory, clock());
    let threads: Vec<_> = (0..2_500).map(|i| format!("t{i}")).collect();
    let ids: Vec<_> = threads.iter().map(|thread| rig.open(thread, Some(SECOND)).0).collect();
    rig.clock.advance(SECOND);
    let open = |rig: &Rig| threads.iter().filter(|thread| rig.count(thread) == 1).count();
    rig.turn();
    assert_eq!(open(&rig), 1_500);
    let last = threads.iter().position(|thread| rig.count(thread) == 1).expect("some are open");
    assert!(matches!(rig.call(&threads[last], renew(&ids[last])), Err(Refusal::Expired { .. })), "E2");
    assert!(rig.engine.next_due() <= rig.clock.now().boot);
    rig.turn();
    assert_eq!(open(&rig), 0);
}

#[test]
fn a_sleep_of_the_machine_begins_every_lease_anew_and_counts_as_paused() {
    let mut rig = Rig::new(Obedient::default(), clock());
    rig.open("t", Some(30 * SECOND));
    rig.clock.advance(20 * SECOND);
    rig.clock.sleep(10 * HOUR);
    rig.turn();
    assert_eq!(rig.count("t"), 1, "E3: its holder slept too, and could not renew it");
    assert_eq!(rig.paused_total("t"), 20 * SECOND + 10 * HOUR);
    rig.clock.advance(30 * SECOND - Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 1);
    rig.clock.advance(Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 0);
}

#[test]
fn a_restart_begins_every_lease_anew_and_counts_as_paused() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let mut rig = Rig::in_directory(directory.path(), clock.clone());
    rig.open("t", Some(30 * SECOND));
    drop(rig);
    clock.advance(HOUR);
    let mut rig = Rig::in_directory(directory.path(), clock);
    rig.turn();
    assert_eq!((rig.count("t"), rig.paused_total("t")), (1, HOUR));
    rig.clock.advance(30 * SECOND);
    rig.turn();
    assert_eq!((rig.count("t"), rig.paused_total("t")), (0, HOUR + 30 * SECOND));
}

/// G2: else the one that had a second left would have a day.
#[test]
fn after_a_restart_a_lease_has_the_length_of_its_last_renewal() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let mut rig = Rig::in_directory(directory.path(), clock.clone());
    let (shorter, _) = rig.open("t", None);
    let (longer, _) = rig.open("t", Some(2 * SECOND));
    let (closed, _) = rig.open("t", None);
    let batch = [
        ("t", renew_for(&shorter, SECOND)),
        ("t", renew_for(&longer, HOUR)),
        ("t", renew(&longer)),
        ("t", renew_for(&closed, HOUR)),
        ("t", decrement(Some(&closed))),
    ];
    assert!(rig.try_batch(&batch).expect("stored").iter().all(Result::is_ok));
    drop(rig);
    let mut rig = Rig::in_directory(directory.path(), clock);
    assert_eq!(rig.count("t"), 2);
    rig.clock.advance(SECOND);
    rig.turn();
    assert_eq!(rig.view("t").open[0].elicitation.id.to_string(), longer);
    rig.clock.advance(HOUR - SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 0);
}

/// The boot-time clock starts anew: the wall clock bridges the gap, and counts nothing below 0 should it be set back.
#[test]
fn a_reboot_is_bridged_by_the_wall_clock() {
    for (skew, off) in [(0, HOUR), (-7_200_000_000_000, Duration::ZERO)] {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = clock();
        let mut rig = Rig::in_directory(directory.path(), clock.clone());
        rig.open("paused", None);
        rig.open("ran", None);
        clock.advance(5 * SECOND);
        rig.call("ran", decrement(None)).expect("closes");
        clock.advance(5 * SECOND);
        let began = rig.view("paused").header.expect("known").pause.since.expect("paused").wall;
        drop(rig);
        clock.reboot(HOUR, skew);
        let mut rig = Rig::in_directory(directory.path(), clock);
        rig.turn();
        let before_reboot = if skew == 0 { 10 * SECOND } else { Duration::ZERO };
        assert_eq!(rig.paused_total("paused"), off + before_reboot);
        assert_eq!(rig.view("paused").header.expect("known").pause.since.expect("paused").wall, began);
        assert_eq!(rig.paused_total("ran"), 5 * SECOND, "what is over stays as it was");
        rig.clock.advance(3 * SECOND);
        assert_eq!(rig.paused_total("paused"), off + before_reboot + 3 * SECOND);
    }
}

// Collection of idle threads.

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
fn many_idle_threads_are_forgotten_bit_by_bit_and_hold_nobody_up() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    for i in 0..5_000 {
        rig.open(&format!("t{i}"), None);
        rig.call(&format!("t{i}"), decrement(None)).expect("closes");
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

/// The call that comes first after 24 h forgets the thread and names it again, in one batch.
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
    assert_eq!(records.len(), 1, "stored as well");
    assert_eq!((records[0].header.revision, records[0].open.len()), (3, 1));
}

#[test]
fn what_is_remembered_is_deleted_from_the_store_after_10_minutes() {
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

// A store that cannot be written.

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
    assert!(rig.call("t", renew_for(&id, 30 * SECOND)).is_ok(), "the length that it has");
    assert!(unavailable(&rig.call("t", renew_for(&id, HOUR))), "its new length would be lost by a restart");
    assert!(matches!(rig.call("new", decrement(None)), Err(Refusal::NoOutstanding { .. })));
    let view = rig.view("t");
    assert_eq!((view.open.len(), view.header.expect("known").revision), (1, revision), "nothing of it was published");
    assert!(rig.view("new").header.is_none());
    (store.orders().recovers, store.orders().refuse) = (true, false);
    rig.clock.advance(SECOND);
    let again = rig.call("t", increment("r", None)).expect("the same request id counts once, now");
    assert!(matches!(again, Answer::Incremented { count: 2, revision: made, .. } if made == revision + 1));
}

/// G2: leases do not end while their holders cannot be served, and each has a full ttl afterwards.
#[test]
fn an_outage_of_the_store_begins_every_lease_anew() {
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
    // The turn that finds the store well again does not look at leases yet.
    rig.turn();
    assert_eq!(rig.count("t"), 1, "E3");
    rig.clock.advance(30 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 0);
}

/// Callers who try again all the time must not keep the store from being tried again.
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
        assert!(refused <= 21, "a second has passed: {} recoveries", store.orders().recoveries);
    }
    assert!(refused > 15, "not before its second");
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
    assert!(matches!(outcomes[3], Err(Refusal::NoOutstanding { .. })), "judged as if what failed had not been called");
    assert!(outcomes[4].is_ok(), "what was closed in the batch is open again, and is renewed");
    store.orders().refuse = false;
    rig.clock.advance(SECOND);
    let outcomes = rig.try_batch(&batch[..4]).expect("stored");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!((rig.count("a"), rig.count("b")), (1, 0));
    let now = rig.clock.now();
    let stored = store.orders().model.contents(now);
    assert_eq!(stored.records.iter().map(|record| record.open.len()).collect::<Vec<_>>(), [1, 0]);
}

/// What is known of a thread stays known when a call on it is refused, even if it stands at the floor.
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
    assert_eq!(rig.paused_total("t"), 4 * SECOND, "the pause before counts still");
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
    assert!(rig.call("t", increment("r", Some(20 * SECOND))).is_ok(), "it was made before, and needs no room");
    assert!(rig.call("t", renew(&leased)).is_ok());
    assert!(rig.call("t", decrement(Some(&id))).is_ok());
    rig.clock.advance(20 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 0, "leases end");
    store.orders().recovers = true;
    rig.clock.advance(SECOND);
    assert!(rig.call("t", increment("another", None)).is_ok());
}

#[test]
fn nobody_is_answered_and_nothing_is_published_by_a_store_that_is_broken() {
    let store = Obedient::default();
    let mut rig = Rig::new(store.clone(), clock());
    store.orders().fatal = true;
    let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
    let calls = [(thread_id("t"), increment("", None))];
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
