//! The engine over a clock and a store that the test controls: cases that would take a day, a sleep or an outage.
mod idle;
mod load;
mod max_pause;
mod store;

use crate::support::model::{Obedient, thread_id};
use pausewatch::test_support::clock::{Clock, Manual};
use pausewatch::test_support::coordinator::{Call, Engine, Fatal, IDLE_SPAN, Outcome};
use pausewatch::test_support::core::types::Ttl;
use pausewatch::test_support::core::{Answer, Command, ElicitationRef, Refusal, Timestamp};
use pausewatch::test_support::hub::{Hub, View};
use pausewatch::test_support::store::{Embedded, Memory, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// An engine with its clock and store.
struct Rig {
    engine: Engine,
    clock: Arc<Manual>,
    hub: Arc<Hub>,
}

fn clock() -> Arc<Manual> {
    Arc::new(Manual::new(Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 }, 7))
}

fn increment(request_id: &str, ttl: Option<Duration>) -> Command {
    let ttl = ttl.map(|ttl| Ttl::new("ttl", ttl).expect("within the limits"));
    Command::Increment { request_id: request_id.into(), reason: "".into(), holder: "".into(), ttl }
}

fn decrement(elicitation: Option<&str>) -> Command {
    Command::Decrement {
        request_id: "".into(),
        elicitation: elicitation.map(|id| ElicitationRef(id.into())),
        by_admin: false,
    }
}

fn renew(elicitation: &str) -> Command {
    Command::Renew { elicitation: ElicitationRef(elicitation.into()), ttl: None }
}

fn renew_for(elicitation: &str, ttl: Duration) -> Command {
    Command::Renew {
        elicitation: ElicitationRef(elicitation.into()),
        ttl: Some(Ttl::new("ttl", ttl).expect("within the limits")),
    }
}

impl Rig {
    fn new(store: impl Store, clock: Arc<Manual>) -> Self {
        Self::with_default(store, clock, Some(24 * HOUR))
    }

    /// `anonymous_ttl`: the lease of elicitations without a ttl.
    fn with_default(store: impl Store, clock: Arc<Manual>, anonymous_ttl: Option<Duration>) -> Self {
        let hub = Arc::<Hub>::default();
        let engine = Engine::new(Box::new(store), clock.clone(), anonymous_ttl, &hub).expect("the store is sound");
        Rig { engine, clock, hub }
    }

    fn in_directory(directory: &Path, clock: Arc<Manual>) -> Self {
        Self::new(Embedded::open(directory, clock.boot_id()).expect("the store is sound"), clock)
    }

    fn try_batch(&mut self, calls: &[(&str, Command)]) -> Result<Vec<Outcome>, Fatal> {
        let calls: Vec<Call> =
            calls.iter().map(|(thread, command)| (thread_id(thread), command.clone()).into()).collect();
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        self.engine.process(&calls, &mut outcomes, &mut committed)?;
        assert_eq!(outcomes.len(), calls.len());
        self.hub.publish(committed);
        Ok(outcomes)
    }

    fn call(&mut self, thread: &str, command: Command) -> Outcome {
        self.try_batch(&[(thread, command)]).expect("the store is sound").remove(0)
    }

    /// Runs the engine's own work that is due now.
    fn turn(&mut self) {
        self.try_batch(&[]).expect("the store is sound");
    }

    fn open(&mut self, thread: &str, ttl: Option<Duration>) -> (String, u64) {
        match self.call(thread, increment("", ttl)).expect("it is accepted") {
            Answer::Incremented { elicitation, revision, .. } => (elicitation.id.to_string(), revision),
            other => panic!("the answer to an increment was {other:?}"),
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

/// G2: thousands of leases that end at the same time are closed over several batches, and no batch is delayed for long.
/// A call meanwhile finds the leases of its own thread ended.
#[test]
fn leases_that_end_all_at_once_are_closed_a_batch_at_a_time() {
    let mut rig = Rig::new(Memory, clock());
    let threads: Vec<_> = (0..2_500).map(|i| format!("t{i}")).collect();
    let ids: Vec<_> = threads.iter().map(|thread| rig.open(thread, Some(SECOND)).0).collect();
    rig.clock.advance(SECOND);
    let open = |rig: &Rig| threads.iter().filter(|thread| rig.count(thread) == 1).count();
    rig.turn();
    assert_eq!(open(&rig), 1_500);
    // They are closed in the order of their names: the next batch would not reach this one either, without a call.
    let last = (0..threads.len()).filter(|at| rig.count(&threads[*at]) == 1).max_by_key(|at| &threads[*at]);
    let last = last.expect("some are open");
    assert!(matches!(rig.call(&threads[last], renew(&ids[last])), Err(Refusal::Expired { .. })), "E2");
    assert!(rig.engine.next_due() <= rig.clock.now().boot);
    rig.turn();
    assert_eq!(open(&rig), 0);
}

/// As many calls wait for a commit that takes long.
#[test]
fn g1_a_renewal_that_came_in_time_counts_however_late_it_is_judged() {
    let mut rig = Rig::new(Obedient::default(), clock());
    let began = rig.clock.now();
    let ids = ["renewed", "late", "left"].map(|thread| rig.open(thread, Some(3 * SECOND)).0);
    rig.clock.advance(6 * SECOND);
    let came = |thread: &str, command: Command, after: Duration| Call {
        came: began.after(after).boot,
        ..Call::from((thread_id(thread), command))
    };
    let nanosecond = Duration::from_nanos(1);
    let calls = [came("renewed", renew(&ids[0]), 3 * SECOND - nanosecond), came("late", renew(&ids[1]), 3 * SECOND)];
    let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
    rig.engine.process(&calls, &mut outcomes, &mut committed).expect("the store is sound");
    rig.hub.publish(committed);
    let ends = rig.clock.now().after(3 * SECOND);
    assert!(matches!(&outcomes[0], Ok(Answer::Renewed { ends: Some(at), .. }) if *at == ends), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Err(Refusal::Expired { .. })), "E2: {outcomes:?}");
    assert!(rig.engine.next_due() <= rig.clock.now().boot, "the lease that nobody renewed is due");
    rig.turn();
    assert_eq!(["renewed", "late", "left"].map(|thread| rig.count(thread)), [1, 0, 0]);
}

#[test]
fn a_sleep_of_the_machine_restarts_every_lease_and_counts_as_paused() {
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
fn leases_are_moved_only_after_a_standstill_that_was_no_sleep() {
    let mut rig = Rig::new(Obedient::default(), clock());
    rig.open("t", Some(30 * SECOND));
    let mut committed = Vec::new();
    rig.engine.extend_leases(Duration::ZERO, &mut committed);
    assert!(committed.is_empty(), "doing this with every batch would leave time for nothing else");
    rig.engine.extend_leases(SECOND, &mut committed);
    assert_eq!(committed.len(), 1);
    rig.clock.sleep(HOUR);
    rig.engine.extend_leases(HOUR, &mut committed);
    assert_eq!(committed.len(), 1, "the batch restarts the leases");
}

#[test]
fn a_restart_restarts_every_lease_and_counts_as_paused() {
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

/// G2: otherwise a lease that had a second left would get a day.
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

/// G2: an elicitation that was opened without a default lease gets the default of the next start: in the lease index,
/// for watchers, and for renewals.
#[test]
fn an_elicitation_without_a_lease_gets_one_when_the_server_has_a_default_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock();
    let start = |anonymous_ttl| {
        let store = Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound");
        Rig::with_default(store, clock.clone(), anonymous_ttl)
    };
    let mut rig = start(None);
    let (id, _) = rig.open("t", None);
    rig.open("t", Some(HOUR));
    drop(rig);
    let rig = start(None);
    assert_eq!(rig.view("t").open[0].ends, None, "there is no default yet");
    drop(rig);
    let mut rig = start(Some(SECOND));
    rig.turn();
    assert_eq!(rig.view("t").open[0].ends, Some(clock.now().after(SECOND)));
    assert_eq!(rig.engine.next_due(), clock.now().after(SECOND).boot);
    clock.advance(SECOND - Duration::from_nanos(1));
    rig.call("t", renew(&id)).expect("it is open");
    clock.advance(SECOND - Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 2);
    clock.advance(Duration::from_nanos(1));
    rig.turn();
    assert_eq!(rig.count("t"), 1, "the other one has an hour");
    assert!(matches!(rig.call("t", renew(&id)), Err(Refusal::Expired { .. })));
    drop(rig);
    let mut rig = start(Some(SECOND));
    clock.advance(2 * SECOND);
    rig.turn();
    assert_eq!(rig.count("t"), 1, "its end was stored");
}

/// The boot-time clock starts anew after a reboot: the wall clock covers the gap, and counts it as zero if the clock
/// was set back.
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
        assert_eq!(rig.paused_total("ran"), 5 * SECOND, "a finished pause keeps its length");
        rig.clock.advance(3 * SECOND);
        assert_eq!(rig.paused_total("paused"), off + before_reboot + 3 * SECOND);
    }
}
