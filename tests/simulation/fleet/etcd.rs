//! A model of an etcd cluster: one history of revisions, served by several members, each with its own delays.
//!
//! If a client gets no answer, its call may have taken effect, may do so later, or never: a call is a message to a
//! member, which applies it when it arrives, whether or not the client still waits. A member may hang, or be cut off
//! from the others; the cluster may have no leader for a while. Watches break, lag, and start at revisions that are
//! compacted.
use super::fake_history::History;
use super::net::{Net, Node, random_of};
use super::oracle::Oracle;
use fastrand::Rng;
use pausewatch::test_support::etcd::wire::{KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use pausewatch::test_support::etcd::{Kv, KvError, SpaceUsage, Tail};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(super) const MEMBERS: usize = 3;
/// As in the real client.
const ATTEMPT: Duration = Duration::from_millis(500);
const PAGE: Duration = Duration::from_secs(10);
/// After this time, pings detect a watch with a dead connection.
const PINGED: Duration = Duration::from_secs(4);

struct State {
    compares: bool,
    history: History,
    /// How often the watches of each member broke.
    breaks: [u64; MEMBERS],
    /// The members that do not serve, and until when.
    stalled: [Option<Instant>; MEMBERS],
    /// Until when there is no leader.
    down: Option<Instant>,
    /// For each replica, the start of its last call that was answered.
    reached: BTreeMap<usize, Instant>,
    /// The number of calls whose answer was lost.
    in_doubt: u64,
}

/// The cluster.
pub(super) struct Cluster {
    start: Instant,
    seed: u64,
    /// Wakes waiters when something is written, or watches break, in the order in which they wait.
    news: Notify,
    state: Mutex<State>,
    net: Arc<Net>,
    oracle: Oracle,
}

impl Cluster {
    pub(super) fn new(mut random: Rng, net: Arc<Net>, oracle: Oracle, compares: bool) -> Self {
        let state = State {
            compares,
            history: History { revision: 1, ..History::default() },
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

    /// The start of the last call of this replica that was answered.
    pub(super) fn reached(&self, replica: usize) -> Option<Instant> {
        self.lock().reached.get(&replica).copied()
    }

    pub(super) fn in_doubt(&self) -> u64 {
        self.lock().in_doubt
    }

    /// Compacts the history down to the present.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let revision = state.history.revision;
        state.history.compact(revision);
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
    fn make(&mut self, txn: &TxnRequest, oracle: &Oracle) -> TxnResponse {
        let before = self.history.revision;
        let made = self.history.make(txn, self.compares);
        if let Some(written) = self.history.written.get(&self.history.revision)
            && self.history.revision > before
        {
            oracle.written(written);
        }
        made
    }
}

/// The client of one process of a replica.
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

    /// One attempt at the current member, which runs `work` when the call arrives.
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
                let before = state.history.revision;
                // Sometimes an election interrupts a call: the member answers that the outcome is unknown, whether the
                // call took effect or not.
                let done = match chance {
                    0..100 => Err(KvError::Unknown("etcdserver: leader changed".into())),
                    100..200 => {
                        let _ = work(&mut state, &cluster.oracle);
                        Err(KvError::Unknown("etcdserver: request timed out".into()))
                    }
                    _ => work(&mut state, &cluster.oracle),
                };
                (done, state.history.revision > before)
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
            // A slow call may be answered after one that started later.
            let mut state = self.cluster.lock();
            let last = state.reached.entry(self.replica).or_insert(began);
            *last = began.max(*last);
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
            revision if revision > 0 && revision < state.history.compacted => Err(KvError::Compacted),
            _ => Ok(state.history.read(&request)),
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
            state.history.compact(revision);
            Ok(())
        };
        self.call(ATTEMPT, forgotten).await
    }

    async fn space(&self) -> Result<SpaceUsage, KvError> {
        Ok(SpaceUsage { used: 0, quota: 1_000, alarm: false })
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
            // A member learns of a write a moment later than the member that received it.
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
                let written = state.history.written_from(&self.range, self.next).ok_or(KvError::Compacted)?;
                (written, state.history.revision)
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
