//! The chain, checkpoints, loading and following, with an etcd in memory that can lose, delay and refuse requests.
use super::chain::{Chain, Replica, Written};
use super::fake::{About, FakeEtcd, Fault, Machine};
use super::follow::{Follower, Won};
use super::kv::Kv;
use super::load::{self, LoadError};
use super::progress::Progress;
use super::pulse::CUT_OFF;
use super::record::{Applied, Entry, FleetRecord, Keys, LeaderRecord};
use super::serve::Request;
use super::standby::Standby;
use super::wire::{RequestOp, TxnRequest};
use super::{LeaderClock, join};
use crate::coordinator::hub::Hub;
use crate::coordinator::store::ops::{self, Table};
use crate::coordinator::store::{CommitError, OpenError, Write};
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Elicitation, Header, Open, Pause, PauseEnd, RememberedClosing, Timestamp};
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

pub(super) fn keys() -> Arc<Keys> {
    Arc::new(Keys::under("/p"))
}

pub(super) async fn follower(etcd: &FakeEtcd, id: u64) -> Follower<FakeEtcd> {
    let fleet = join(etcd, &keys()).await.expect("the prefix is ours");
    Follower {
        kv: etcd.clone(),
        keys: keys(),
        machine: Machine::clock(id),
        me: Replica { id, address: format!("replica-{id}:1") },
        fleet,
        leader_clock: Arc::<LeaderClock>::default(),
        compact: true,
        abstains: Arc::default(),
    }
}

/// The progress of a follower whose hub shows what it has applied.
fn progress() -> Arc<Progress> {
    let progress = Progress::new(Arc::<Hub>::default());
    progress.begin(i64::MIN);
    Arc::new(progress)
}

/// The writer of a new term, with the records that it has taken over.
pub(super) async fn lead(etcd: &FakeEtcd, id: u64) -> (Chain<FakeEtcd>, Standby) {
    let won = follower(etcd, id).await.until_leading(&watch::Sender::new(None), &progress()).await;
    let Ok(Won { mut chain, standby, .. }) = won else { panic!("it must win the leadership") };
    let left = chain.left_behind(standby.next_row).await.expect("it is sound");
    chain.begin_checkpoints(left).expect("it leads");
    (chain, standby)
}

/// A chain at work.
pub(super) struct Working {
    pub(super) requests: mpsc::Sender<Request>,
    end: tokio::task::JoinHandle<String>,
}

impl Working {
    pub(super) fn new(chain: Chain<FakeEtcd>) -> Self {
        let (requests, queue) = mpsc::channel(4);
        Working { requests, end: tokio::spawn(async move { chain.run(queue, 0).await.to_string() }) }
    }

    pub(super) async fn commit(&self, batch: Vec<u8>) -> Result<(), CommitError> {
        self.ask(|reply| Request::Commit(batch, reply)).await
    }

    async fn confirm(&self) -> Result<(), CommitError> {
        self.ask(Request::Confirm).await
    }

    async fn ask(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), CommitError>>) -> Request,
    ) -> Result<(), CommitError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(request(reply)).await;
        sent.map_err(|_| CommitError::Deposed("it has ended".into()))?;
        answer.await.unwrap_or_else(|_| Err(CommitError::Deposed("it has ended".into())))
    }
}

/// A batch that sets a thread to this revision.
fn batch(revision: u64) -> Vec<u8> {
    let thread = ThreadId::parse("", "a thread").expect("valid");
    let header = Header { revision, pause: Pause::default(), changed: Timestamp::default() };
    let mut bytes = Vec::new();
    ops::encode(&[Write::PutThread(&thread, &header)], 1, &mut bytes);
    bytes
}

fn record(etcd: &FakeEtcd) -> LeaderRecord {
    LeaderRecord::decode(&etcd.value(&keys().leader()).expect("there")[..]).expect("a record")
}

fn is_deposed(outcome: &Result<(), CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Deposed(_)))
}

/// J2: otherwise the keys of the second fleet would be invalid log entries of the first.
#[tokio::test]
async fn no_fleet_is_founded_within_another_one() {
    let etcd = FakeEtcd::default();
    let (around, within) = (Keys::under("/a/"), Keys::under("/a/log/x/"));
    join(&etcd, &around).await.expect("the prefix is ours");
    let Err(OpenError::Io(why)) = join(&etcd, &within).await else { panic!("the second fleet must not be founded") };
    assert!(why.contains("/a/log/x/: this lies within the fleet /a/"), "{why}");
    assert!(load::load(&etcd, &around).await.is_ok());
    join(&etcd, &Keys::under("/b/log/x/")).await.expect("nothing is around it");
}

/// I3, F2: whatever happens to its attempts, a batch is in the log once, in its place.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_attempts_are_lost_unanswered_or_late_is_written_once() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    let faults = [Fault::Lost, Fault::Unanswered, Fault::Late];
    let mut committed = 0;
    for first in faults {
        for second in faults {
            etcd.faults([first, second]);
            working.commit(batch(committed + 1)).await.expect("it leads");
            committed += 1;
            etcd.deliver();
            assert_eq!(etcd.count(&keys().entries()) as u64, committed, "{first:?}, {second:?}");
            assert_eq!(record(&etcd).seq, committed, "{first:?}, {second:?}");
            let entry = Entry::decode(&etcd.value(&keys().log(committed)).expect("there")[..]).expect("an entry");
            assert_eq!(entry.ops, batch(committed));
        }
    }
    working.confirm().await.expect("it leads");
}

/// I6: other replicas count from when the record was written, whenever the leader gets the answer.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_in_doubt_counts_from_its_first_attempt() {
    let etcd = FakeEtcd::default();
    let (chain, _) = lead(&etcd, 1).await;
    let (pulse, machine) = (chain.pulse.clone(), chain.machine.clone());
    let working = Working::new(chain);
    for (faults, is_first) in [(vec![], true), (vec![Fault::Unanswered], true), (vec![Fault::Lost], false)] {
        let before = machine.boot();
        etcd.faults(faults.clone());
        working.commit(batch(1)).await.expect("it leads");
        assert_eq!(pulse.written() == before, is_first, "{faults:?}");
        assert_eq!(pulse.last() == before, faults.is_empty(), "{faults:?}");
    }
    // The record is only read, not written.
    sleep(Duration::from_millis(10)).await;
    let before = pulse.written();
    working.confirm().await.expect("it leads");
    assert_eq!((pulse.written(), pulse.last()), (before, machine.boot()));
    drop(working.requests);
    working.end.await.expect("no panic");
    assert_eq!(pulse.written(), i64::MIN, "the other replicas must not have to wait");
}

/// I2, F1: after a takeover, the old leader writes and confirms nothing, even with requests that it sent earlier.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_and_confirms_nothing() {
    for late in [false, true] {
        let etcd = FakeEtcd::default();
        let (old, _) = lead(&etcd, 1).await;
        // The old leader hangs, like a stopped process.
        let (new, _) = lead(&etcd, 2).await;
        assert_eq!((record(&etcd).term, record(&etcd).replica), (2, 2));
        let (old, new) = (Working::new(old), Working::new(new));
        if late {
            etcd.faults([Fault::Late]);
            assert!(is_deposed(&old.commit(batch(1)).await));
        } else {
            assert!(is_deposed(&old.confirm().await));
        }
        new.commit(batch(2)).await.expect("it leads");
        etcd.deliver();
        assert!(old.end.await.expect("no panic").contains("another replica has taken over"));
        new.commit(batch(3)).await.expect("it still leads");
        assert_eq!((record(&etcd).seq, etcd.count(&keys().entries())), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_only_if_it_was_certainly_not_written() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    etcd.faults([Fault::Full]);
    assert!(matches!(working.commit(batch(1)).await, Err(CommitError::Refused(_))));
    etcd.faults([Fault::Late, Fault::Full, Fault::Full]);
    working.commit(batch(1)).await.expect("it is tried until it is known");
    etcd.deliver();
    assert_eq!((record(&etcd).seq, etcd.count(&keys().entries())), (1, 1));
}

/// Otherwise no other replica could take over.
#[tokio::test(start_paused = true)]
async fn a_term_goes_on_while_etcd_is_full_and_a_write_in_doubt() {
    for arrives in [Fault::Lost, Fault::Late, Fault::Unanswered] {
        let etcd = FakeEtcd::default();
        let (chain, _) = lead(&etcd, 1).await;
        let (pulse, machine) = (chain.pulse.clone(), chain.machine.clone());
        let (working, before) = (Working::new(chain), machine.boot());
        etcd.faults([arrives].into_iter().chain(std::iter::repeat_n(Fault::Full, 400)));
        working.commit(batch(1)).await.expect("it is tried until it is known");
        let took = machine.boot() - before;
        assert!(arrives == Fault::Unanswered || took > 2 * CUT_OFF, "{arrives:?}: {took} ns");
        assert!(pulse.is_fresh(machine.boot()), "{arrives:?}");
        etcd.deliver();
        assert_eq!((record(&etcd).seq, etcd.count(&keys().entries())), (1, 1), "{arrives:?}");
    }
}

/// Only the rows wait, but neither callers nor the end of the term.
#[tokio::test(start_paused = true)]
async fn a_leader_serves_and_stops_while_etcd_refuses_a_checkpoint() {
    const AT_ONCE: Duration = Duration::from_secs(1);
    for stops in [false, true] {
        let etcd = FakeEtcd::default();
        let (chain, _) = lead(&etcd, 1).await;
        let (pulse, machine) = (chain.pulse.clone(), chain.machine.clone());
        let working = Working::new(chain);
        working.commit(batch(1)).await.expect("it leads");
        sleep(Duration::from_secs(299)).await;
        assert_eq!(etcd.value(&keys().applied()), None, "no checkpoint may be due yet");
        // Each keep-alive is refused too.
        etcd.faults(std::iter::repeat_n(Fault::Full, 1_000));
        for _ in 0..30 {
            let confirmed = timeout(AT_ONCE, working.confirm()).await;
            confirmed.expect("it is answered").expect("it leads");
            sleep(Duration::from_millis(500)).await;
        }
        assert!(pulse.is_fresh(machine.boot()));
        if stops {
            drop(working.requests);
            let ended = timeout(AT_ONCE, working.end).await.expect("it ends").expect("no panic");
            assert!(ended.contains("gave up"), "{ended}");
        } else {
            let refused = working.commit(batch(2)).await;
            assert!(matches!(refused, Err(CommitError::Refused(_))), "{refused:?}");
            // Later there is space again.
            sleep(Duration::from_secs(400)).await;
            let applied = etcd.value(&keys().applied()).expect("the checkpoint was made");
            assert_eq!(Applied::decode(&applied[..]).expect("readable").seq, 1);
            assert_eq!(etcd.count(&keys().rows()), 1);
        }
    }
}

/// A refusal need not mean that etcd is full: it may allow fewer operations in a transaction, or no writes of some keys.
#[tokio::test(start_paused = true)]
async fn calls_are_accepted_while_etcd_refuses_a_checkpoint_and_has_space() {
    let etcd = FakeEtcd::default();
    etcd.refuse_writes_of(keys().applied());
    let (chain, _) = lead(&etcd, 1).await;
    let pulse = chain.pulse.clone();
    let working = Working::new(chain);
    working.commit(batch(1)).await.expect("it leads");
    sleep(Duration::from_secs(400)).await;
    assert!(etcd.count(&keys().rows()) == 1 && etcd.value(&keys().applied()).is_none(), "a checkpoint was begun");
    assert!(!pulse.is_full());
    working.commit(batch(2)).await.expect("etcd has space");
}

/// F3: the outcome is then unknown, and the term has ended.
#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_reach_etcd_gives_up() {
    let etcd = FakeEtcd::default();
    let (chain, _) = lead(&etcd, 1).await;
    let (pulse, machine) = (chain.pulse.clone(), chain.machine.clone());
    let working = Working::new(chain);
    assert!(pulse.is_fresh(machine.boot()));
    etcd.set_unreachable(true);
    let before = machine.boot();
    assert!(is_deposed(&working.commit(batch(1)).await));
    let took = machine.boot() - before;
    assert!((CUT_OFF - 300_000_000..=CUT_OFF + 300_000_000).contains(&took), "{took} ns");
    assert!(!pulse.is_fresh(machine.boot()));
    assert!(working.end.await.expect("no panic").contains("was not reached"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_writes_is_not_challenged_and_a_silent_one_is_within_a_second_and_a_half() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    let machine = Machine::clock(9);
    let mut following = tokio::spawn({
        let (etcd, leader) = (etcd.clone(), watch::Sender::new(None));
        async move {
            let led = follower(&etcd, 2).await.until_leading(&leader, &progress()).await;
            led.map(|_| leader.borrow().clone())
        }
    });
    tokio::select! {
        _ = &mut following => panic!("it must not lead"),
        () = sleep(Duration::from_secs(60)) => {}
    }
    // An outage of etcd does not count as a silence of the leader.
    etcd.set_unreachable(true);
    sleep(Duration::from_secs(2)).await;
    etcd.set_unreachable(false);
    tokio::select! {
        _ = &mut following => panic!("it must not lead"),
        () = sleep(Duration::from_secs(60)) => {}
    }
    working.end.abort();
    let silent = machine.boot();
    let leader = following.await.expect("no panic").expect("no error").expect("it has seen the leader");
    let took = machine.boot() - silent;
    assert!((800_000_000..=1_500_000_000).contains(&took), "{took} ns");
    assert_eq!((leader.term, &*leader.address), (1, "replica-1:1"));
}

/// Reads write nothing, but the leader is still alive.
#[tokio::test(start_paused = true)]
async fn a_leader_that_only_confirms_writes_its_record_as_often_as_an_idle_one() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    for _ in 0..10 {
        let before = record(&etcd).clock;
        for _ in 0..30 {
            sleep(Duration::from_millis(10)).await;
            working.confirm().await.expect("it leads");
        }
        assert!(record(&etcd).clock > before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_is_succeeded_at_once() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    working.commit(batch(7)).await.expect("it leads");
    drop(working.requests);
    assert!(working.end.await.expect("no panic").contains("gave up"));
    let machine = Machine::clock(9);
    let before = machine.boot();
    let (_, standby) = lead(&etcd, 2).await;
    assert!(machine.boot() - before < 300_000_000);
    assert_eq!(standby.records().len(), 1);
}

/// L2, and the leftovers of a leader that was deposed during a large batch.
#[tokio::test(start_paused = true)]
async fn a_large_batch_is_there_whole_or_not_at_all() {
    let etcd = FakeEtcd::default();
    let thread = ThreadId::parse("", "t").expect("valid");
    let reason = "x".repeat(400 << 10).into_boxed_str();
    let elicitation = Elicitation { id: ElicitationId(1), reason, holder: "".into(), created: Timestamp::default() };
    let open = Open { elicitation: Arc::new(elicitation), lease: None, anonymous: true, row: 5 };
    let mut large = Vec::new();
    let pause = Pause { since: Some(Timestamp::default()), ..Pause::default() };
    let header = Header { revision: 1, pause, changed: Timestamp::default() };
    let put = Write::PutElicitation(&thread, &open);
    ops::encode(&[Write::PutThread(&thread, &header), put, put, put], 1, &mut large);
    let working = Working::new(lead(&etcd, 1).await.0);
    working.commit(large.clone()).await.expect("it leads");
    assert_eq!(record(&etcd).seq, 3, "the batch must have three parts");
    let last = LeaderRecord { seq: 4, term: 2, ..record(&etcd) };
    drop(working);
    // The beginning of another batch.
    let entry = Entry { term: 2, clock: 0, more: true, ops: large[..1_000].to_vec() };
    let success = vec![
        RequestOp::put(keys().log(4), entry.encode_to_vec()),
        RequestOp::put(keys().leader(), last.encode_to_vec()),
    ];
    etcd.txn(TxnRequest { success, ..TxnRequest::default() }).await.expect("done");
    let (chain, standby) = lead(&etcd, 3).await;
    assert_eq!(standby.records().len(), 1);
    let working = Working::new(chain);
    working.commit(batch(1)).await.expect("it leads");
    let loaded = load::load(&etcd, &keys()).await.expect("it is sound");
    assert_eq!(loaded.rows.len(), 3);
}

/// I7, L1: at every step of checkpoints and truncations, a load returns the committed state.
#[tokio::test(start_paused = true)]
async fn a_load_gives_what_was_committed_at_every_step_of_a_checkpoint() {
    let etcd = FakeEtcd::default();
    let (mut chain, _) = lead(&etcd, 1).await;
    chain.housekeeping.compact = false;
    let mut expected = BTreeMap::new();
    let mut seed = 0x5eed_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut row, mut open_rows, mut steps) = (0, Vec::new(), 0);
    for round in 0..60 {
        for _ in 0..20 {
            let thread = ThreadId::parse("", &format!("thread {}", random(300))).expect("valid");
            let header = Header { revision: round, pause: Pause::default(), changed: Timestamp::default() };
            row += 2;
            let id = ElicitationId(row.into());
            let elicitation = Elicitation { id, reason: "r".into(), holder: "".into(), created: Timestamp::default() };
            let open = Open { elicitation: Arc::new(elicitation), lease: None, anonymous: true, row };
            let at = chain.machine.now();
            let closing = RememberedClosing { id, how: PauseEnd::Decremented, at, row: row + 1 };
            open_rows.push(row);
            let closed = open_rows.swap_remove(random(open_rows.len() as u64) as usize);
            let mut writes = vec![Write::PutThread(&thread, &header), Write::PutElicitation(&thread, &open)];
            writes.extend([Write::PutFloor(round), Write::PutClosing(&thread, &closing)]);
            match random(3) {
                0 => open_rows.push(closed),
                _ => writes.push(Write::DeleteElicitation(closed)),
            }
            if random(5) == 0 {
                writes.push(Write::DeleteThread(&thread));
            }
            let mut bytes = Vec::new();
            ops::encode(&writes, 1, &mut bytes);
            let changes = ops::decode([&bytes[..]]).expect("a batch");
            for ((table, key), value) in changes {
                match value {
                    Some(value) => _ = expected.insert((table, key.to_vec()), value.to_vec()),
                    None => _ = expected.remove(&(table, key.to_vec())),
                }
            }
            assert!(matches!(chain.commit(&bytes).await, Ok(Written::Done)));
        }
        loop {
            chain.maintain().await.expect("it leads");
            let loaded = load::load(&etcd, &keys()).await.expect("it is sound");
            let is_remembered = |key: &(Table, Vec<u8>)| key.0 == Table::Memory;
            let rest = |rows: &BTreeMap<(Table, Vec<u8>), Vec<u8>>| -> Vec<_> {
                let rest = rows.iter().filter(|(key, _)| !is_remembered(key));
                rest.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            assert!(rest(&loaded.rows) == rest(&expected), "round {round}");
            // Request ids of ten minutes: those of fourteen rounds.
            let count = |rows: &BTreeMap<_, _>| rows.keys().filter(|key| is_remembered(key)).count();
            assert!(count(&loaded.rows) >= count(&expected).min(14 * 20), "round {round}");
            steps += 1;
            if !chain.checkpoints.are_being_written() {
                break;
            }
        }
        sleep(Duration::from_secs(45)).await;
    }
    let applied = etcd.value(&keys().applied()).expect("checkpoints were made");
    let applied = Applied::decode(&applied[..]).expect("readable").seq;
    let entries = etcd.count(&keys().entries());
    assert!(applied > 900 && (280..500).contains(&entries) && steps > 70, "{applied}, {entries}, {steps}");
}

#[tokio::test(start_paused = true)]
async fn replicas_with_one_prefix_join_one_fleet() {
    let etcd = FakeEtcd::default();
    let first = join(&etcd, &keys()).await.expect("it is founded");
    assert_eq!(join(&etcd, &keys()).await.expect("it is joined"), first);
    let other = join(&etcd, &Keys::under("/q")).await.expect("it is founded");
    assert!(other.id != first.id && other.peer_key != first.peer_key);
}

pub(super) async fn put(etcd: &FakeEtcd, key: Vec<u8>, value: Vec<u8>) {
    let txn = TxnRequest { success: vec![RequestOp::put(key, value)], ..TxnRequest::default() };
    etcd.txn(txn).await.expect("done");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_start_at_the_same_time_join_one_fleet() {
    let etcd = FakeEtcd::default();
    // Another replica founds the fleet between the first and the second read of this one.
    let (founder, reads) = (etcd.clone(), Arc::<AtomicUsize>::default());
    let meanwhile = move |about| {
        let (etcd, is_second) = (founder.clone(), matches!(about, About::Read(_)) && reads.fetch_add(1, SeqCst) == 1);
        async move {
            if is_second {
                join(&etcd, &keys()).await.expect("it founds the fleet");
            }
        }
    };
    let joined = join(&etcd.before(meanwhile), &keys()).await.expect("the prefix is ours");
    assert_eq!(joined, join(&etcd, &keys()).await.expect("the prefix is ours"));
}

#[tokio::test(start_paused = true)]
async fn a_prefix_of_others_or_of_a_later_version_is_refused() {
    let etcd = FakeEtcd::default();
    put(&etcd, b"/p/registry/pods".to_vec(), b"x".to_vec()).await;
    let refused = join(&etcd, &keys()).await.expect_err("foreign keys");
    assert!(matches!(&refused, OpenError::Corrupt(why) if why.contains("not of pausewatch")), "{refused:?}");
    let etcd = FakeEtcd::default();
    let record = FleetRecord { format: 2, id: 7, peer_key: vec![1] };
    put(&etcd, keys().fleet(), record.encode_to_vec()).await;
    let refused = join(&etcd, &keys()).await.expect_err("a later version");
    assert!(matches!(&refused, OpenError::Newer(why) if why.contains("--etcd-prefix")), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replica_does_not_lead_another_fleet_than_it_has_joined() {
    let etcd = FakeEtcd::default();
    let follower = follower(&etcd, 1).await;
    let record = FleetRecord { format: 1, id: 7, peer_key: vec![1] };
    put(&etcd, keys().fleet(), record.encode_to_vec()).await;
    let refused = follower.until_leading(&watch::Sender::new(None), &progress()).await.err().expect("another fleet");
    assert!(refused.to_string().contains("another one is in its place"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_hole_in_the_log_is_noticed() {
    let etcd = FakeEtcd::default();
    let working = Working::new(lead(&etcd, 1).await.0);
    for revision in 1..=3 {
        working.commit(batch(revision)).await.expect("it leads");
    }
    for seq in [1, 2, 3] {
        let delete = vec![RequestOp::delete(keys().log(seq), Vec::new())];
        etcd.txn(TxnRequest { success: delete, ..TxnRequest::default() }).await.expect("done");
        let refused = load::load(&etcd, &keys()).await.expect_err("it is damaged");
        let LoadError::Damaged(OpenError::Corrupt(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("damaged"), "{why}");
    }
}
