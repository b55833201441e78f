//! A model of an etcd cluster: one history of revisions, which several members serve, each with its own delays.
//!
//! What a client is not told may have been done, may be done later, or never: a call is a message to a member, which applies it whenever
//! it arrives, whether anybody still waits for the answer or not. A member may stand still, or be cut off from the others; the cluster may
//! have no leader for a while. Watches break, lag and begin at revisions that are forgotten.
use super::net::{Net, Node, random_of};
use super::oracle::Oracle;
use fastrand::Rng;
use pausewatch::test_support::etcd::wire::{
    Expected, KeyValue, Operation, Outcome, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp,
    TxnRequest, TxnResponse,
};
use pausewatch::test_support::etcd::{Kv, KvError, Room, Tail};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(super) const MEMBERS: usize = 3;
/// As the real client has them.
const ATTEMPT: Duration = Duration::from_millis(800);
const PAGE: Duration = Duration::from_secs(10);
/// A watch whose connection is dead is given up by pings.
const PINGED: Duration = Duration::from_secs(4);

/// The values of a key, by the revision that wrote them; `None`: deleted.
type Versions = Vec<(i64, Option<Vec<u8>>)>;
/// The keys of one revision, with their values.
type Written = Vec<(Vec<u8>, Vec<u8>)>;

struct State {
    compares: bool,
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Vec<u8>, Versions>,
    /// Those that are not just one present value: all that a compaction has to look at.
    changed: BTreeSet<Vec<u8>>,
    written: BTreeMap<i64, Written>,
    /// How often the watches of each member broke.
    breaks: [u64; MEMBERS],
    /// Until when a member serves nobody.
    stalled: [Option<Instant>; MEMBERS],
    /// Until when there is no leader.
    down: Option<Instant>,
    /// When the last call of each replica began that was answered.
    reached: BTreeMap<usize, Instant>,
    /// Calls whose answer the client did not get.
    in_doubt: u64,
}

/// The cluster.
pub(super) struct Cluster {
    start: Instant,
    seed: u64,
    /// Something is written, or watches break. Wakes in the order in which they wait.
    news: Notify,
    state: Mutex<State>,
    net: Arc<Net>,
    oracle: Oracle,
}

impl Cluster {
    pub(super) fn new(mut random: Rng, net: Arc<Net>, oracle: Oracle, compares: bool) -> Self {
        let state = State {
            compares,
            revision: 1,
            compacted: 0,
            keys: BTreeMap::new(),
            changed: BTreeSet::new(),
            written: BTreeMap::new(),
            breaks: [0; MEMBERS],
            stalled: [None; MEMBERS],
            down: None,
            reached: BTreeMap::new(),
            in_doubt: 0,
        };
        Cluster {
            start: Instant::now(),
            seed: random.u64(..),
            news: Notify::new(),
            state: Mutex::new(state),
            net,
            oracle,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    pub(super) fn stall(&self, member: usize, until: Instant) {
        self.lock().stalled[member] = Some(until);
    }

    pub(super) fn lose_leader(&self, until: Instant) {
        self.lock().down = Some(until);
    }

    pub(super) fn break_watches(&self, member: usize) {
        self.lock().breaks[member] += 1;
        self.news.notify_waiters();
    }

    /// When the last call of this replica began that was answered.
    pub(super) fn reached(&self, replica: usize) -> Option<Instant> {
        self.lock().reached.get(&replica).copied()
    }

    pub(super) fn in_doubt(&self) -> u64 {
        self.lock().in_doubt
    }

    /// Forgets all but the present.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        state.compact(revision);
        drop(state);
        self.news.notify_waiters();
    }

    pub(super) fn heal(&self) {
        let mut state = self.lock();
        (state.stalled, state.down) = ([None; MEMBERS], None);
    }

    fn random(&self, replica: usize, member: usize) -> Rng {
        random_of(self.seed, Node::Etcd(member), Node::Replica(replica), self.start)
    }

    /// Waits until `member` serves.
    async fn served(&self, member: usize) {
        loop {
            let until = {
                let state = self.lock();
                state.stalled[member].max(state.down).filter(|until| *until > Instant::now())
            };
            match until {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }
}

impl State {
    fn value(&self, key: &[u8]) -> Option<(i64, &Vec<u8>)> {
        let (revision, value) = self.keys.get(key)?.last()?;
        Some((*revision, value.as_ref()?))
    }

    fn holds(&self, key: &[u8], expected: Option<&Expected>) -> bool {
        let found = self.value(key);
        match expected {
            Some(Expected::ModRevision(revision)) => found.map_or(0, |(at, _)| at) == *revision,
            Some(Expected::Value(value)) => found.is_some_and(|(_, found)| found == value),
            None => false,
        }
    }

    fn read(&self, range: &RangeRequest) -> RangeResponse {
        let at = if range.revision > 0 { range.revision } else { self.revision };
        let of = |(key, versions): (&Vec<u8>, &Versions)| {
            let (revision, value) = versions.iter().rev().find(|(revision, _)| *revision <= at)?;
            Some(KeyValue { key: key.clone(), mod_revision: *revision, value: value.clone()? })
        };
        let limit = if range.limit > 0 { range.limit as usize } else { usize::MAX };
        let mut kvs: Vec<_> = match range.range_end.is_empty() {
            true => self.keys.get_key_value(&range.key).and_then(of).into_iter().collect(),
            false => {
                let within = self.keys.range(range.key.clone()..range.range_end.clone());
                within.filter_map(of).take(limit.saturating_add(1)).collect()
            }
        };
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        RangeResponse {
            header: Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() }),
            kvs,
            more,
        }
    }

    fn make(&mut self, txn: &TxnRequest, oracle: &Oracle) -> TxnResponse {
        let holds = txn.compare.iter().all(|compare| self.holds(&compare.key, compare.expected.as_ref()));
        let succeeded = holds || !self.compares;
        let operations = if succeeded { &txn.success } else { &txn.failure };
        assert!(operations.len() <= 128, "etcd refuses so many operations");
        let writes = operations.iter().any(|op| !matches!(op.operation, Some(Operation::Range(_))));
        self.revision += i64::from(writes);
        let mut put = BTreeSet::new();
        let responses = operations.iter().map(|op| ResponseOp { outcome: self.operate(op, &mut put) }).collect();
        if let Some(written) = self.written.get(&self.revision).filter(|_| writes) {
            oracle.written(written);
        }
        TxnResponse {
            header: Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() }),
            succeeded,
            responses,
        }
    }

    fn operate(&mut self, op: &RequestOp, put: &mut BTreeSet<Vec<u8>>) -> Option<Outcome> {
        match op.operation.as_ref().expect("an operation") {
            Operation::Range(range) => return Some(Outcome::Range(self.read(range))),
            Operation::Put(written) => {
                assert!(put.insert(written.key.clone()), "etcd refuses a key twice");
                let versions = self.keys.entry(written.key.clone()).or_default();
                versions.push((self.revision, Some(written.value.clone())));
                if versions.len() > 1 {
                    self.changed.insert(written.key.clone());
                }
                let pair = (written.key.clone(), written.value.clone());
                self.written.entry(self.revision).or_default().push(pair);
            }
            Operation::Delete(delete) => {
                let revision = self.revision;
                let end = if delete.range_end.is_empty() {
                    [&delete.key[..], &[0]].concat()
                } else {
                    delete.range_end.clone()
                };
                for (key, versions) in self.keys.range_mut(delete.key.clone()..end) {
                    if versions.last().is_some_and(|(_, value)| value.is_some()) {
                        versions.push((revision, None));
                        self.changed.insert(key.clone());
                    }
                }
            }
        }
        None
    }

    fn compact(&mut self, revision: i64) {
        self.compacted = self.compacted.max(revision);
        self.written = self.written.split_off(&revision);
        let State { keys, changed, .. } = self;
        changed.retain(|key| {
            let versions = keys.get_mut(key).expect("it has changed");
            let last = versions.iter().rposition(|(at, _)| *at <= revision).unwrap_or(0);
            versions.drain(..last);
            match &versions[..] {
                [(_, None)] => {
                    keys.remove(key);
                    false
                }
                versions => versions.len() > 1,
            }
        });
    }
}

/// The client of one life of a replica.
#[derive(Clone)]
pub(super) struct SimKv {
    cluster: Arc<Cluster>,
    replica: usize,
    /// The process was killed.
    dead: Arc<AtomicBool>,
    current: Arc<AtomicUsize>,
}

impl SimKv {
    pub(super) fn new(cluster: Arc<Cluster>, replica: usize, dead: Arc<AtomicBool>) -> Self {
        SimKv { cluster, replica, dead, current: Arc::default() }
    }

    /// One attempt at the current member, which does `work` whenever it is asked.
    async fn call<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&mut State, &Oracle) -> Result<T, KvError> + Send + 'static,
    ) -> Result<T, KvError> {
        if self.dead.load(Relaxed) {
            pending::<()>().await;
        }
        let (current, began) = (self.current.load(Relaxed), Instant::now());
        let (member, me) = (Node::Etcd(current % MEMBERS), Node::Replica(self.replica));
        let (answer, answered) = oneshot::channel();
        let (cluster, replica) = (self.cluster.clone(), self.replica);
        tokio::spawn(async move {
            cluster.net.carry(me, member).await;
            cluster.served(current % MEMBERS).await;
            let chance = cluster.random(replica, current % MEMBERS).u16(..);
            let (done, has_written) = {
                let mut state = cluster.lock();
                let before = state.revision;
                // Now and then an election comes between: the member says that it does not know, whether it was done or not.
                let done = match chance {
                    0..100 => Err(KvError::Unknown("etcdserver: leader changed".into())),
                    100..200 => {
                        let _ = work(&mut state, &cluster.oracle);
                        Err(KvError::Unknown("etcdserver: request timed out".into()))
                    }
                    _ => work(&mut state, &cluster.oracle),
                };
                (done, state.revision > before)
            };
            if has_written {
                cluster.news.notify_waiters();
            }
            cluster.net.carry(member, me).await;
            let _ = answer.send(done);
        });
        let called = match timeout(within, answered).await {
            Ok(Ok(called)) => called,
            _ => Err(KvError::Unknown("no answer".into())),
        };
        if called.is_ok() {
            self.cluster.lock().reached.insert(self.replica, began);
        }
        if let Err(KvError::Unknown(_)) = called {
            self.cluster.lock().in_doubt += 1;
            let _ = self.current.compare_exchange(current, current.wrapping_add(1), Relaxed, Relaxed);
        }
        called
    }
}

impl Kv for SimKv {
    type Tail = SimTail;

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        let within = if request.range_end.is_empty() { ATTEMPT } else { PAGE };
        let read = move |state: &mut State, _: &Oracle| match request.revision {
            revision if revision > 0 && revision < state.compacted => Err(KvError::Compacted),
            _ => Ok(state.read(&request)),
        };
        self.call(within, read).await
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        self.call(ATTEMPT, move |state, oracle| Ok(state.make(&request, oracle))).await
    }

    async fn tail(&self, range: RangeRequest, from: i64) -> Result<SimTail, KvError> {
        let member = self.current.load(Relaxed) % MEMBERS;
        let opened = move |state: &mut State, _: &Oracle| Ok(state.breaks[member]);
        let breaks = self.call(ATTEMPT, opened).await?;
        let at = self.clone();
        Ok(SimTail { at, member, range, next: from, breaks })
    }

    async fn compact(&self, revision: i64) -> Result<(), KvError> {
        let forgotten = move |state: &mut State, _: &Oracle| {
            state.compact(revision);
            Ok(())
        };
        self.call(ATTEMPT, forgotten).await
    }

    async fn room(&self) -> Result<Room, KvError> {
        Ok(Room { used: 0, quota: 1_000, alarm: false })
    }
}

/// A watch at one member.
pub(super) struct SimTail {
    at: SimKv,
    member: usize,
    range: RangeRequest,
    next: i64,
    breaks: u64,
}

impl Tail for SimTail {
    async fn next(&mut self) -> Result<Vec<KeyValue>, KvError> {
        let cluster = self.at.cluster.clone();
        loop {
            if self.at.dead.load(Relaxed) {
                pending::<()>().await;
            }
            let news = cluster.news.notified();
            // A member learns of a write a moment later than the one that was asked for it.
            if timeout(PINGED, cluster.served(self.member)).await.is_err() {
                return Err(KvError::Unknown("the member does not answer".into()));
            }
            let lag = cluster.random(self.at.replica, self.member).u64(..8);
            sleep(Duration::from_millis(lag)).await;
            let (written, revision) = {
                let state = cluster.lock();
                if state.breaks[self.member] != self.breaks {
                    return Err(KvError::Unknown("the watch broke".into()));
                }
                if state.compacted > self.next {
                    return Err(KvError::Compacted);
                }
                let mut written = Vec::new();
                for (revision, pairs) in state.written.range(self.next..) {
                    let wanted =
                        pairs.iter().filter(|(key, _)| (&self.range.key..&self.range.range_end).contains(&key));
                    written.extend(wanted.map(|(key, value)| KeyValue {
                        key: key.clone(),
                        mod_revision: *revision,
                        value: value.clone(),
                    }));
                }
                (written, state.revision)
            };
            if !written.is_empty() {
                let (member, me) = (Node::Etcd(self.member), Node::Replica(self.at.replica));
                if timeout(PINGED, cluster.net.carry(member, me)).await.is_err() {
                    return Err(KvError::Unknown("its connection is dead".into()));
                }
                self.next = revision + 1;
                return Ok(written);
            }
            news.await;
        }
    }
}
