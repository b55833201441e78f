//! A follower of an engine: what it shows, with compactions and broken watches, and what it has ready for a takeover.
use super::fake::FakeEtcd;
use super::kv::Kv;
use super::progress::Progress;
use super::tests::{Working, follower, keys, lead};
use super::wire::{RequestOp, TxnRequest};
use crate::clock::{Clock, Manual};
use crate::coordinator::hub::{Hub, View};
use crate::coordinator::store::{CommitError, Contents, OpenError, Store, Write, ops};
use crate::coordinator::{Call, Engine, Settings};
use crate::core::scope::Scope;
use crate::core::types::{ThreadId, Ttl};
use crate::core::{Command, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Keeps the committed batch for the test, which writes it to the log.
#[derive(Clone)]
struct Recorder(Arc<Mutex<Vec<u8>>>, u64);

impl Store for Recorder {
    fn load(&mut self, _: Timestamp) -> Result<Contents, OpenError> {
        Ok(Contents { epoch: self.1, ..Contents::default() })
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        ops::encode(batch, self.1, &mut self.0.lock().expect("no panic while locked"));
        Ok(())
    }
}

/// All that readers see of a thread, except the ends of leases and how the last pause ended if the follower did not see
/// that.
fn shown(hub: &Hub) -> Vec<String> {
    let (views, more) = hub.list(None, 10_000, true, &Scope::ALL);
    assert!(!more);
    let show = |View { thread, header, floor, open, pause_end, .. }: View| {
        let open: Vec<_> = open.iter().map(|open| open.elicitation.clone()).collect();
        format!("{thread:?} {header:?} {floor} {open:?} {pause_end:?}")
    };
    views.into_iter().map(show).collect()
}

/// Waits until all committed entries are applied.
async fn caught_up(progress: &Progress, seq: u64) {
    timeout(Duration::from_secs(60), progress.shows(seq)).await.expect("it is shown soon");
}

/// I8: at equal entries, the hub of a follower shows the same as the leader's, after etcd has compacted entries, and
/// after a fresh load. A takeover then starts from the same state.
#[tokio::test(start_paused = true)]
async fn a_follower_shows_what_the_leader_does() {
    let etcd = FakeEtcd::default();
    let (mut chain, _) = lead(&etcd, 1).await;
    chain.housekeeping.compact = false;
    let first = chain.seq;
    let working = Working::new(chain);
    let epoch = follower(&etcd, 1).await.fleet.id;
    let clock = Arc::new(Manual::new(Timestamp { boot: 5_000_000_000, wall: 9_000_000_000 }, epoch));
    let (hub, log) = (Arc::<Hub>::default(), Recorder(Arc::default(), epoch));
    let mut engine =
        Engine::with(Box::new(log.clone()), clock.clone(), Settings::default(), &hub).expect("it is empty");
    let progress = Arc::new(Progress::new(Arc::<Hub>::default()));
    progress.begin(i64::MIN);
    let following = tokio::spawn({
        let (etcd, progress) = (etcd.clone(), progress.clone());
        async move { follower(&etcd, 2).await.until_leading(&watch::Sender::new(None), &progress).await }
    });
    // It has loaded an empty fleet.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut seed, mut seq) = (0x5eed_u64, first);
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..600 {
        clock.advance(Duration::from_millis(random(900)));
        let mut calls = Vec::new();
        for call in 0..random(6) {
            let thread = ThreadId::parse("", &format!("thread {}", random(12))).expect("valid");
            let request_id = format!("{round} {call}").into_boxed_str();
            let command = match random(3) {
                0 => {
                    let ttl =
                        (random(2) == 0).then(|| Ttl::new("", Duration::from_secs(1 + random(9))).expect("valid"));
                    Command::Increment { request_id, reason: "why".into(), holder: "me".into(), ttl }
                }
                _ => Command::Decrement { request_id, elicitation: None, by_admin: random(2) == 0 },
            };
            calls.push(Call::from((thread, command)));
        }
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        engine.process(&calls, &mut outcomes, &mut committed).expect("it keeps all");
        let batch = std::mem::take(&mut *log.0.lock().expect("no panic while locked"));
        match random(20) {
            0 => etcd.break_tails(),
            1 => {
                etcd.break_tails();
                etcd.forget();
            }
            _ => {}
        }
        if !batch.is_empty() {
            working.commit(batch).await.expect("it leads");
            seq += 1;
        }
        hub.publish(committed);
        if random(3) == 0 {
            caught_up(&progress, seq).await;
            assert_eq!(shown(progress.hub()), shown(&hub), "round {round}");
        }
    }
    caught_up(&progress, seq).await;
    let expected = shown(&hub);
    assert_eq!(shown(progress.hub()), expected);
    // A fresh load by another replica.
    let fresh = Arc::new(Progress::new(Arc::<Hub>::default()));
    fresh.begin(i64::MIN);
    let loading = tokio::spawn({
        let (etcd, fresh) = (etcd.clone(), fresh.clone());
        async move { follower(&etcd, 3).await.until_leading(&watch::Sender::new(None), &fresh).await.map(drop) }
    });
    caught_up(&fresh, seq).await;
    let without_ends = |shown: Vec<String>| -> Vec<_> {
        shown.into_iter().map(|line| line.rsplit_once("] ").map(|(state, _)| state.to_owned())).collect()
    };
    assert_eq!(without_ends(shown(fresh.hub())), without_ends(expected.clone()));
    loading.abort();
    // A takeover.
    drop(working.requests);
    let Ok(won) = following.await.expect("no panic") else { panic!("it must win the leadership") };
    assert_eq!(won.standby.seq, seq);
    assert!(
        !progress.follows(),
        "after the takeover, its own engine must set the time up to which durations are shown"
    );
    struct Loaded(Option<Contents>);
    impl Store for Loaded {
        fn load(&mut self, _: Timestamp) -> Result<Contents, OpenError> {
            Ok(self.0.take().expect("it is loaded once"))
        }
        fn commit(&mut self, _: &[Write<'_>]) -> Result<(), CommitError> {
            Ok(())
        }
    }
    let loaded = Loaded(Some(won.standby.contents(clock.now())));
    let mut next = Engine::with(Box::new(loaded), clock.clone(), Settings::default(), progress.hub()).expect("sound");
    assert_eq!(shown(progress.hub()), expected);
    // It remembers the request ids of the last 10 minutes.
    let call = |request_id: &str| {
        let thread = ThreadId::parse("", "a new one").expect("valid");
        let (reason, holder) = ("why".into(), "me".into());
        Call::from((thread, Command::Increment { request_id: request_id.into(), reason, holder, ttl: None }))
    };
    let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
    next.process(&[call("new")], &mut outcomes, &mut committed).expect("it keeps nothing");
    assert!(outcomes[0].is_ok());
}

/// M3: also at a replica that has applied entries which the leader record has lost, and which therefore never
/// challenges.
#[tokio::test(start_paused = true)]
async fn a_follower_whose_fleet_is_gone_ends() {
    for is_another_founded in [false, true] {
        let etcd = FakeEtcd::default();
        let working = Working::new(lead(&etcd, 1).await.0);
        let progress = Arc::new(Progress::new(Arc::<Hub>::default()));
        progress.begin(i64::MIN);
        let following = tokio::spawn({
            let (etcd, progress) = (etcd.clone(), progress.clone());
            async move { follower(&etcd, 2).await.until_leading(&watch::Sender::new(None), &progress).await }
        });
        working.commit(Vec::new()).await.expect("it leads");
        let mut batch = Vec::new();
        ops::encode(&[Write::PutFloor(7)], 1, &mut batch);
        working.commit(batch).await.expect("it leads");
        caught_up(&progress, 1).await;
        let all = keys().all();
        let removal = TxnRequest { success: vec![RequestOp::delete(all.key, all.range_end)], ..TxnRequest::default() };
        etcd.txn(removal).await.expect("it is there");
        if is_another_founded {
            lead(&etcd, 3).await;
        }
        let ended = timeout(Duration::from_secs(60), following).await.expect("it notices").expect("no panic");
        let Err(OpenError::Corrupt(why)) = ended else { panic!("it must end with an error") };
        assert!(why.contains("is gone, or another one is in its place"), "{why}");
    }
}

/// I6, P1: durations are shown up to the time that the leader has confirmed with an applied entry, and never less than
/// before.
#[test]
fn durations_are_told_up_to_what_is_applied() {
    let progress = Progress::new(Arc::<Hub>::default());
    let now = Timestamp { boot: 1_000, wall: 0 };
    let told = || progress.hub().safe_time().limit(now).boot;
    progress.begin(100);
    assert_eq!(told(), 100);
    progress.holds(2, 300);
    progress.holds(1, 200);
    assert_eq!(told(), 100);
    progress.applied(1, 150);
    assert_eq!(told(), 200);
    progress.applied(2, 250);
    assert_eq!(told(), 300);
    progress.holds(1, 220);
    assert_eq!(told(), 300, "it must never decrease");
    progress.end();
    progress.holds(2, 900);
    assert_eq!(told(), 300, "now the engine of this replica sets it");
}

/// I4, P2: a waiter is woken by a read and a check that both began after it did, once all entries until then are
/// applied.
#[tokio::test(start_paused = true)]
async fn a_confirmation_needs_a_read_and_a_look_that_began_after_it() {
    let progress = Arc::new(Progress::new(Arc::<Hub>::default()));
    progress.begin(0);
    progress.applied(5, 0);
    let begin = async |rounds: &super::progress::Rounds| rounds.begin(Duration::from_millis(100), || 7).await;
    // Both are already under way.
    begin(&progress.reads).await;
    begin(&progress.looks).await;
    let waiting = tokio::spawn({
        let progress = progress.clone();
        async move { progress.confirm().await }
    });
    tokio::task::yield_now().await;
    progress.reads.succeed(5);
    progress.looks.succeed(5);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "both began before the wait");
    begin(&progress.reads).await;
    begin(&progress.looks).await;
    progress.reads.succeed(6);
    progress.looks.succeed(7);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "entry 7 is not applied");
    progress.applied(7, 0);
    assert!(waiting.await.expect("no panic"));
    assert_eq!(progress.good_since(), 7);
    assert!(!progress.confirm().await, "no task reads any more");
}
