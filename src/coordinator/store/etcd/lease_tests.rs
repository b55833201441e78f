//! I9: over any number of takeovers, no lease ends before one full length after its last renewal, and long ones end
//! within a further third of their length, plus the time without a leader.
use super::load::Loaded;
use super::record::{Entry, Keys};
use super::standby::Standby;
use crate::clock::{Clock, Manual};
use crate::coordinator::hub::Hub;
use crate::coordinator::store::ops::{self, Table};
use crate::coordinator::store::{CommitError, Contents, OpenError, Store, Write};
use crate::coordinator::{Call, Engine, Settings};
use crate::core::types::{ThreadId, Ttl};
use crate::core::{Answer, Command, ElicitationRef, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EPOCH: u64 = 7;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// The time without a leader, at each takeover.
const GAP: Duration = Duration::from_secs(2);

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// The rows that successive leaders have stored, and the records that a follower has ready.
#[derive(Default)]
struct Stored {
    rows: Rows,
    standby: Standby,
    led_until: Option<i64>,
}

/// The store of one leader.
struct Leader(Arc<Mutex<Stored>>, Arc<Manual>);

impl Store for Leader {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        let stored = &mut *self.0.lock().expect("no panic while locked");
        let mut standby = std::mem::take(&mut stored.standby);
        standby.led_until = stored.led_until;
        let contents = standby.contents(now);
        // The next follower loads the present rows, and applies later ones.
        let mut loaded = Loaded::default();
        loaded.rows = stored.rows.clone();
        stored.standby = loaded.standby(EPOCH, &Keys::under("/p"))?;
        Ok(Contents { epoch: EPOCH, ..contents })
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let mut bytes = Vec::new();
        ops::encode(batch, EPOCH, &mut bytes);
        let stored = &mut *self.0.lock().expect("no panic while locked");
        let changes = ops::decode([&bytes[..]]).expect("a batch");
        for ((table, key), value) in changes {
            match value {
                Some(value) => _ = stored.rows.insert((table, key.to_vec()), value.to_vec()),
                None => _ = stored.rows.remove(&(table, key.to_vec())),
            }
        }
        let entry = Entry { clock: self.1.boot(), ops: bytes, ..Entry::default() };
        stored.standby.apply(entry).expect("it makes sense");
        Ok(())
    }

    fn keeps_ends(&self) -> bool {
        true
    }
}

/// A fleet of engines, one after another.
struct Fleet {
    clock: Arc<Manual>,
    stored: Arc<Mutex<Stored>>,
    engine: Engine,
}

impl Fleet {
    fn new() -> Self {
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, EPOCH));
        let stored = Arc::<Mutex<Stored>>::default();
        let engine = Self::engine(&stored, &clock);
        Fleet { clock, stored, engine }
    }

    fn engine(stored: &Arc<Mutex<Stored>>, clock: &Arc<Manual>) -> Engine {
        let leader = Leader(stored.clone(), clock.clone());
        Engine::with(Box::new(leader), clock.clone(), Settings::default(), &Hub::default()).expect("it is sound")
    }

    fn take_over(&mut self) {
        self.stored.lock().expect("no panic while locked").led_until = Some(self.clock.boot());
        self.clock.advance(GAP);
        self.engine = Self::engine(&self.stored, &self.clock);
    }

    fn call(&mut self, thread: &str, command: Command) -> Option<Answer> {
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        let call = Call::from((ThreadId::parse("", thread).expect("valid"), command));
        self.engine.process(&[call], &mut outcomes, &mut committed).expect("it keeps all");
        outcomes.remove(0).ok()
    }

    fn open(&mut self, thread: &str, lease: Duration) -> ElicitationRef {
        let ttl = Some(Ttl::new("", lease).expect("valid"));
        let command = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl };
        match self.call(thread, command) {
            Some(Answer::Incremented { elicitation, .. }) => ElicitationRef(elicitation.id.to_string().into()),
            other => panic!("{other:?}"),
        }
    }

    /// Renews the elicitation; returns whether it is still open.
    fn renew(&mut self, thread: &str, elicitation: &ElicitationRef) -> bool {
        self.call(thread, Command::Renew { elicitation: elicitation.clone(), ttl: None }).is_some()
    }

    /// The number of open elicitations.
    fn open_now(&mut self) -> usize {
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        self.engine.process(&[], &mut outcomes, &mut committed).expect("it keeps all");
        let stored = self.stored.lock().expect("no panic while locked");
        stored.rows.keys().filter(|(table, _)| *table == Table::Elicitations).count()
    }
}

#[test]
fn long_leases_end_with_a_takeover_a_minute_and_no_lease_that_is_renewed_does() {
    for lease in [10 * MINUTE, HOUR, 24 * HOUR] {
        let mut fleet = Fleet::new();
        let (kept, left) = (fleet.open("kept", lease), fleet.open("left", lease));
        assert!(fleet.renew("left", &left), "it must be renewed once, and never again");
        let (begin, mut renewed) = (fleet.clock.boot(), fleet.clock.boot());
        let since = |fleet: &Fleet, moment: i64| Duration::from_nanos((fleet.clock.boot() - moment).unsigned_abs());
        let (mut takeovers, mut ended) = (0_u32, None);
        while since(&fleet, begin) < 3 * lease {
            fleet.clock.advance(MINUTE - GAP);
            fleet.take_over();
            takeovers += 1;
            // As holders do: after each third.
            if since(&fleet, renewed) + MINUTE > lease / 3 {
                assert!(fleet.renew("kept", &kept), "{lease:?}: it has ended early");
                renewed = fleet.clock.boot();
            }
            if ended.is_none() && fleet.open_now() == 1 {
                ended = Some(since(&fleet, begin));
            }
        }
        let ended = ended.expect("the one that nobody renews ends");
        assert!(ended >= lease, "{lease:?}: it ended after {ended:?}");
        assert!(ended <= lease + lease / 3 + GAP * takeovers + MINUTE, "{lease:?}: it ended after {ended:?}");
        assert!(fleet.renew("kept", &kept));
    }
}

#[test]
fn a_long_outage_counts_for_no_lease_and_a_short_lease_begins_anew() {
    let mut fleet = Fleet::new();
    let (long, short) = (fleet.open("long", HOUR), fleet.open("short", MINUTE));
    fleet.clock.advance(MINUTE / 2);
    fleet.stored.lock().expect("no panic while locked").led_until = Some(fleet.clock.boot());
    // There was no leader, so no holder could renew.
    fleet.clock.advance(5 * HOUR);
    fleet.engine = Fleet::engine(&fleet.stored, &fleet.clock);
    fleet.clock.advance(MINUTE - Duration::from_millis(1));
    assert!(fleet.renew("short", &short));
    fleet.clock.advance(HOUR - 2 * MINUTE);
    assert!(fleet.renew("long", &long));
}

#[test]
fn renewals_are_written_once_for_a_sixth_of_a_long_lease_and_never_of_a_short_one() {
    let mut fleet = Fleet::new();
    let (long, short) = (fleet.open("long", HOUR), fleet.open("short", 9 * MINUTE));
    let writes = |fleet: &Fleet| fleet.stored.lock().expect("no panic while locked").standby.seq;
    let before = writes(&fleet);
    for _ in 0..60 {
        fleet.clock.advance(MINUTE);
        assert!(fleet.renew("long", &long) && fleet.renew("short", &short));
    }
    assert_eq!(writes(&fleet) - before, 6);
    // After a sleep, all ends are stored, so that the next leader knows them.
    fleet.clock.sleep(HOUR / 2);
    fleet.open_now();
    assert_eq!(writes(&fleet) - before, 7);
}
