//! Every row of the tables in the API's contract, with one record and a clock that the test controls. Each call here
//! also checks I1, I2 and I3.
use super::*;
use crate::core::idempotency::MEMORY_SPAN;
use crate::core::types::ThreadId;

#[path = "thread_cap_tests.rs"]
mod cap;
#[path = "thread_model_tests.rs"]
mod model;

const HOUR: Duration = Duration::from_secs(3_600);

/// One thread with its surroundings.
struct World {
    record: Record,
    now: Timestamp,
    given: u128,
    row: u64,
    anonymous_ttl: Option<Duration>,
    max_pause: Option<Duration>,
}

impl World {
    fn new() -> Self {
        let now = Timestamp { boot: 5_000_000_000, wall: 1_700_000_000_000_000_000 };
        let thread = ThreadId::parse("thread_id", "t").expect("a valid id");
        World {
            record: Record::new(thread, 0, now),
            now,
            given: 0,
            row: 0,
            anonymous_ttl: Some(24 * HOUR),
            max_pause: None,
        }
    }

    fn call(&mut self, command: &Command) -> Result<Answer, Refusal> {
        self.given += 1;
        let id = ElicitationId(self.given);
        let fresh = DecideInputs {
            now: self.now,
            id,
            row: self.row,
            anonymous_ttl: self.anonymous_ttl,
            max_pause: self.max_pause,
        };
        self.row += 2;
        let decision = decide(&self.record, command, fresh)?;
        if let Some(change) = decision.change {
            let row = change.request.as_ref().map(|request| request.row);
            assert!(row.is_none_or(|row| row + 1 == self.row), "its row must be the second of the two reserved ones");
            let before = self.record.clone();
            self.record.apply(&change);
            let after = self.record.clone();
            self.record.revert(&change);
            assert!(self.record == before, "I3: {command:?}, reverted, must leave no trace");
            self.record.apply(&change);
            assert!(self.record == after, "{command:?} must have the same effect the second time");
            let raised = u64::from(!matches!(command, Command::Renew { .. }));
            assert_eq!(after.header.revision, before.header.revision + raised, "I2: one revision a change");
            assert_eq!(after.header.pause.since.is_some(), !after.open.is_empty(), "I1: paused while any is open");
            self.record.memory.forget(self.now, |_| ());
        }
        Ok(decision.answer)
    }

    fn open(&mut self, request_id: &str, ttl: Option<Duration>) -> Result<(String, u32, u64), Refusal> {
        self.call(&increment(request_id, "why", ttl)).map(|answer| match answer {
            Answer::Incremented { count, revision, elicitation, .. } => (elicitation.id.to_string(), count, revision),
            other => panic!("the answer to an increment was {other:?}"),
        })
    }

    fn opened(&mut self, ttl: Option<Duration>) -> String {
        self.open("", ttl).expect("there is room").0
    }

    fn close(&mut self, request_id: &str, named: Option<&str>) -> Result<(u32, u64), Refusal> {
        self.call(&decrement(request_id, named)).map(|answer| match answer {
            Answer::Decremented { count, revision } => (count, revision),
            other => panic!("the answer to a decrement was {other:?}"),
        })
    }

    fn renew(&mut self, named: &str, ttl: Option<Duration>) -> Result<Option<Duration>, Refusal> {
        let ttl = ttl.map(|ttl| Ttl::new("ttl", ttl).expect("within the limits"));
        let now = self.now;
        self.call(&Command::Renew { elicitation: ElicitationRef(named.into()), ttl }).map(|answer| match answer {
            Answer::Renewed { ends, .. } => ends.map(|ends| ends.since(now)),
            other => panic!("the answer to a renewal was {other:?}"),
        })
    }

    fn expire(&mut self, named: &str) -> Result<(u32, u64), Refusal> {
        let elicitation = ElicitationId::parse(named).expect("an id of ours");
        self.call(&Command::Expire { elicitation }).map(|answer| match answer {
            Answer::Decremented { count, revision } => (count, revision),
            other => panic!("the answer to the end of a lease was {other:?}"),
        })
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    fn ids(&self) -> Vec<String> {
        self.record.open.iter().map(|open| open.elicitation.id.to_string()).collect()
    }
}

fn increment(request_id: &str, reason: &str, ttl: Option<Duration>) -> Command {
    let ttl = ttl.map(|ttl| Ttl::new("ttl", ttl).expect("within the limits"));
    Command::Increment { request_id: request_id.into(), reason: reason.into(), holder: "who".into(), ttl }
}

fn decrement(request_id: &str, named: Option<&str>) -> Command {
    let elicitation = named.map(|named| ElicitationRef(named.into()));
    Command::Decrement { request_id: request_id.into(), elicitation, by_admin: false }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

// Counts.

#[test]
fn the_count_is_the_number_of_open_elicitations() {
    let mut world = World::new();
    let (_, count, revision) = world.open("", None).expect("opens");
    assert_eq!((count, revision), (1, 1));
    let (_, count, revision) = world.open("", None).expect("opens");
    assert_eq!((count, revision), (2, 2));
    assert_eq!(world.close("", None), Ok((1, 3)));
    assert!(world.record.header.pause.since.is_some());
    assert_eq!(world.close("", None), Ok((0, 4)));
    assert!(world.record.header.pause.since.is_none());
}

#[test]
fn a_decrement_at_0_is_refused_and_the_next_increment_counts_from_0() {
    let mut world = World::new();
    let before = world.record.clone();
    assert!(matches!(world.close("", None), Err(Refusal::NoOutstanding { .. })));
    assert_eq!(world.record, before);
    assert_eq!(world.open("", None).expect("opens").1, 1);
}

#[test]
fn a_thread_has_1000_open_elicitations_and_not_one_more() {
    let mut world = World::new();
    (0..MAX_OPEN).for_each(|_| _ = world.opened(None));
    assert_eq!(world.record.count(), 1_000);
    assert!(matches!(world.open("", None), Err(Refusal::TooMany { .. })));
    assert_eq!(world.close("", None).expect("closes").0, 999);
    assert_eq!(world.open("", None).expect("there is room again").1, 1_000);
}

// The elicitation that a decrement closes.

#[test]
fn an_unnamed_decrement_closes_the_oldest_that_asked_for_no_ttl_then_the_oldest() {
    let mut world = World::new();
    let leased = [world.opened(Some(seconds(5)))];
    let first = world.opened(None);
    let second = world.opened(None);
    let late = world.opened(Some(seconds(5)));
    for closed in [&first, &second, &leased[0], &late] {
        assert!(world.ids().contains(closed), "{closed} was closed before its turn");
        world.close("", None).expect("closes");
        assert!(!world.ids().contains(closed), "{closed} must be closed");
    }
    assert!(matches!(world.close("", None), Err(Refusal::NoOutstanding { .. })));
}

#[test]
fn a_server_default_lease_does_not_make_an_elicitation_named() {
    let mut world = World::new();
    let leased = world.opened(Some(seconds(5)));
    let anonymous = world.opened(None);
    assert!(world.record.open[1].lease.is_some(), "--anonymous-ttl must give it a lease");
    world.close("", None).expect("closes");
    assert_eq!(world.ids(), [leased]);
    assert!(!world.ids().contains(&anonymous));
}

#[test]
fn a_named_decrement_closes_exactly_that_one() {
    let mut world = World::new();
    let ids: Vec<_> = (0..3).map(|_| world.opened(None)).collect();
    assert_eq!(world.close("", Some(&ids[1])).expect("closes").0, 2);
    assert_eq!(world.ids(), [ids[0].clone(), ids[2].clone()]);
}

#[test]
fn a_closed_elicitation_is_distinguished_from_an_unknown_one_for_10_minutes() {
    let mut world = World::new();
    let released = world.opened(None);
    let expired = world.opened(Some(seconds(1)));
    world.opened(None);
    world.close("", Some(&released)).expect("closes");
    world.pass(seconds(1));
    world.expire(&expired).expect("its lease has ended");
    let released_of = |refusal| matches!(refusal, Err(Refusal::Released { .. }));
    let expired_of = |refusal| matches!(refusal, Err(Refusal::Expired { .. }));
    let unknown_of = |refusal| matches!(refusal, Err(Refusal::Unknown { .. }));
    assert!(matches!(world.close("", Some(&released)), Err(Refusal::Released { ago_ms: 1_000, .. })));
    assert!(expired_of(world.close("", Some(&expired))));
    for never in ["ffffffffffffffffffffffffffffffff", "approval-7", "x"] {
        assert!(unknown_of(world.close("", Some(never))), "{never}");
    }
    world.pass(MEMORY_SPAN - seconds(1) - Duration::from_nanos(1));
    assert!(released_of(world.close("", Some(&released))));
    world.pass(Duration::from_nanos(1));
    assert!(unknown_of(world.close("", Some(&released))));
    assert!(expired_of(world.close("", Some(&expired))), "the lease must have ended it");
    world.pass(seconds(1));
    assert!(unknown_of(world.close("", Some(&expired))));
    assert_eq!(world.record.count(), 1, "a refusal must not close another one");
}

#[test]
fn at_most_1024_closed_elicitations_are_remembered() {
    let mut world = World::new();
    let ids: Vec<_> = (0..1_025)
        .map(|_| {
            let id = world.opened(None);
            world.close("", Some(&id)).expect("closes");
            id
        })
        .collect();
    assert!(matches!(world.close("", Some(&ids[0])), Err(Refusal::Unknown { .. })));
    assert!(matches!(world.close("", Some(&ids[1])), Err(Refusal::Released { .. })));
}

// Request ids.

/// G4: a repeated call has one effect and gets the same answer.
#[test]
fn a_repeated_call_has_one_effect_and_the_same_answer() {
    let mut world = World::new();
    let first = world.call(&increment("a", "why", Some(seconds(9)))).expect("opens");
    world.open("", None).expect("another comes in between");
    world.pass(seconds(3));
    assert_eq!(world.call(&increment("a", "why", Some(seconds(9)))), Ok(first.clone()));
    assert_eq!(world.record.count(), 2);
    let closed = world.call(&decrement("a", None)).expect("RPCs do not share request ids");
    world.pass(seconds(3));
    assert_eq!(world.call(&decrement("a", None)), Ok(closed));
    assert_eq!(world.record.count(), 1);
    assert_eq!(world.call(&increment("a", "why", Some(seconds(9)))), Ok(first), "also after it was closed");
    assert_eq!((world.record.count(), world.record.header.revision), (1, 3));
}

/// G4: also out of order. A late duplicate of an increment does not reopen what its decrement has closed.
#[test]
fn a_late_duplicate_does_not_pause_again() {
    let mut world = World::new();
    let (id, ..) = world.open("a", None).expect("opens");
    world.close("b", Some(&id)).expect("closes");
    world.open("a", None).expect("answered as before");
    assert_eq!(world.record.count(), 0);
    world.close("b", Some(&id)).expect("answered as before, and not that it was released");
}

#[test]
fn a_request_id_is_remembered_for_10_minutes() {
    let mut world = World::new();
    world.open("a", None).expect("opens");
    world.pass(MEMORY_SPAN - Duration::from_nanos(1));
    assert_eq!(world.open("a", None).expect("answered as before").1, 1);
    world.pass(Duration::from_nanos(1));
    assert_eq!(world.open("a", None).expect("opens another").1, 2);
}

#[test]
fn a_request_id_with_other_content_is_refused() {
    let mut world = World::new();
    world.open("a", None).expect("opens");
    let (id, ..) = world.open("", None).expect("opens");
    let reused = |answer: Result<Answer, Refusal>| matches!(answer, Err(Refusal::RequestIdReused { .. }));
    assert!(reused(world.call(&increment("a", "another reason", None))));
    assert!(reused(world.call(&increment("a", "why", Some(seconds(1))))));
    let holder = Command::Increment { request_id: "a".into(), reason: "why".into(), holder: "w".into(), ttl: None };
    assert!(reused(world.call(&holder)));
    world.close("b", None).expect("closes");
    assert!(reused(world.call(&decrement("b", Some(&id)))));
    assert_eq!(world.record.count(), 1);
    assert!(world.call(&increment("a", "why", None)).is_ok(), "the same content must still be answered");
}

#[test]
fn an_empty_request_id_counts_every_time() {
    let mut world = World::new();
    world.opened(None);
    world.opened(None);
    assert_eq!(world.record.count(), 2);
}

#[test]
fn a_refused_call_is_judged_afresh() {
    let mut world = World::new();
    assert!(world.close("a", None).is_err());
    world.opened(None);
    assert_eq!(world.close("a", None).expect("not remembered as refused").0, 0);
    (0..MAX_OPEN).for_each(|_| _ = world.opened(None));
    assert!(world.open("b", None).is_err());
    world.close("", None).expect("closes");
    assert_eq!(world.open("b", None).expect("not remembered as refused").1, 1_000);
}

#[test]
fn at_most_1024_request_ids_are_remembered() {
    let mut world = World::new();
    for i in 0..1_025 {
        world.open(&format!("r{i}"), None).expect("opens");
        world.close("", None).expect("closes");
    }
    world.open("r1", None).expect("answered as before");
    assert_eq!(world.record.count(), 0);
    world.open("r0", None).expect("counts again: 1,024 came after it");
    assert_eq!(world.record.count(), 1);
}

// Leases.

/// G2: a lease that is not renewed closes its elicitation at its end, and not before.
#[test]
fn a_lease_ends_at_its_time_and_not_before() {
    let mut world = World::new();
    let id = world.opened(Some(seconds(5)));
    world.pass(seconds(5) - Duration::from_nanos(1));
    assert!(world.expire(&id).is_err());
    world.pass(Duration::from_nanos(1));
    assert_eq!(world.expire(&id), Ok((0, 2)));
    assert!(matches!(world.close("", Some(&id)), Err(Refusal::Expired { ago_ms: 0, .. })));
    assert!(world.expire(&id).is_err(), "it must end only once");
}

/// G2: an elicitation without a ttl gets the server's default lease.
#[test]
fn an_increment_without_ttl_gets_the_anonymous_one_or_none() {
    let mut world = World::new();
    world.anonymous_ttl = Some(seconds(7));
    world.opened(None);
    world.anonymous_ttl = None;
    let forever = world.opened(None);
    let leases: Vec<_> = world.record.open.iter().map(|open| open.lease.map(|(length, _)| length)).collect();
    assert_eq!(leases, [Some(seconds(7)), None]);
    world.pass(1_000 * HOUR);
    assert!(world.expire(&forever).is_err());
}

#[test]
fn a_renewal_moves_the_end_to_now_plus_ttl_later_or_sooner() {
    let mut world = World::new();
    let id = world.opened(Some(seconds(10)));
    world.pass(seconds(4));
    assert_eq!(world.renew(&id, None), Ok(Some(seconds(10))), "it must have the old length again");
    assert_eq!(world.renew(&id, Some(seconds(60))), Ok(Some(seconds(60))));
    assert_eq!(world.renew(&id, Some(seconds(2))), Ok(Some(seconds(2))), "a renewal may also shorten the lease");
    assert_eq!(world.renew(&id, None), Ok(Some(seconds(2))), "the shorter length must be kept");
    assert_eq!((world.record.header.revision, world.record.count()), (1, 1));
    world.pass(seconds(2));
    world.expire(&id).expect("at its new end");
}

#[test]
fn a_renewal_can_give_a_lease_to_what_had_none_and_does_not_make_it_named() {
    let mut world = World::new();
    world.anonymous_ttl = None;
    let leased = world.opened(Some(seconds(9)));
    let forever = world.opened(None);
    assert_eq!(world.renew(&forever, None), Ok(None), "an elicitation without a lease must stay without one");
    assert_eq!(world.renew(&forever, Some(seconds(3))), Ok(Some(seconds(3))));
    world.close("", None).expect("closes");
    assert_eq!(world.ids(), [leased], "the one without a ttl must be closed");
}

#[test]
fn a_renewal_never_revives_a_closed_elicitation() {
    let mut world = World::new();
    let (released, expired) = (world.opened(None), world.opened(Some(seconds(1))));
    world.close("", Some(&released)).expect("closes");
    world.pass(seconds(1));
    world.expire(&expired).expect("ends");
    assert!(matches!(world.renew(&released, Some(seconds(5))), Err(Refusal::Released { .. })));
    assert!(matches!(world.renew(&expired, Some(seconds(5))), Err(Refusal::Expired { .. })));
    assert!(matches!(world.renew("nobody", Some(seconds(5))), Err(Refusal::Unknown { .. })));
    assert_eq!(world.record.count(), 0);
}

// Paused time.

#[test]
fn paused_total_counts_nested_pauses_once_and_grows_while_open() {
    let mut world = World::new();
    let total = |world: &World| world.record.header.pause.total(world.now).as_secs();
    world.pass(seconds(100));
    assert_eq!(total(&world), 0);
    let outer = world.opened(None);
    let began = world.now;
    world.pass(seconds(2));
    let inner = world.opened(None);
    world.pass(seconds(3));
    world.close("", Some(&outer)).expect("closes");
    world.pass(seconds(4));
    assert_eq!(world.record.header.pause.since, Some(began), "the pause must begin with the first of them");
    assert_eq!((total(&world), world.record.header.pause.open_for(world.now)), (9, Some(seconds(9))));
    world.close("", Some(&inner)).expect("closes");
    world.pass(seconds(50));
    assert_eq!((total(&world), world.record.header.pause.open_for(world.now)), (9, None));
    world.opened(None);
    world.pass(seconds(1));
    assert_eq!((total(&world), world.record.header.pause.open_for(world.now)), (10, Some(seconds(1))));
}
