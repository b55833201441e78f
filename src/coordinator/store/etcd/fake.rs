//! An etcd in memory whose answers can be lost, late or refused; and a clock that follows the paused time of tokio.
use super::fake_history::History;
use super::kv::{Kv, KvError, SpaceUsage, Tail};
use super::wire::{KeyValue, Operation, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse};
use crate::clock::Clock;
use crate::core::Timestamp;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The outcome of the next transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not arrive.
    Lost,
    /// It is done, and its answer does not arrive.
    Unanswered,
    /// It arrives when [`FakeEtcd::deliver`] is called.
    Late,
    /// There is no space.
    Full,
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// At this revision; 0: the present one.
    Read(i64),
    Write,
}

type Hook = Arc<dyn Fn(About) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The cluster. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct FakeEtcd {
    state: Arc<Mutex<State>>,
    hook: Option<Hook>,
}

#[derive(Default)]
struct State {
    history: History,
    /// Its present revision, for those who follow.
    now: watch::Sender<i64>,
    faults: VecDeque<Fault>,
    late: Vec<TxnRequest>,
    unreachable: bool,
    largest_answer: Option<usize>,
    refused_key: Option<Vec<u8>>,
}

impl FakeEtcd {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// The same etcd, but `hook` runs before each call through the returned value: it does what others do meanwhile.
    pub(super) fn before<W>(&self, hook: impl Fn(About) -> W + Send + Sync + 'static) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        FakeEtcd { hook: Some(Arc::new(move |about| Box::pin(hook(about)))), ..self.clone() }
    }

    async fn is_about_to(&self, call: About) {
        if let Some(hook) = &self.hook {
            hook(call).await;
        }
    }

    /// From now on, answers with more bytes of values are lost.
    pub(super) fn lose_answers_above(&self, bytes: usize) {
        self.lock().largest_answer = Some(bytes);
    }

    /// From now on, transactions that write `key` are refused.
    pub(super) fn refuse_writes_of(&self, key: Vec<u8>) {
        self.lock().refused_key = Some(key);
    }

    pub(super) fn faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// Delivers the late transactions.
    pub(super) fn deliver(&self) {
        let mut state = self.lock();
        for txn in std::mem::take(&mut state.late) {
            state.make(&txn);
        }
    }

    pub(super) fn set_unreachable(&self, unreachable: bool) {
        self.lock().unreachable = unreachable;
    }

    /// Compacts the whole history, without a request.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        let revision = state.history.revision;
        state.history.compact(revision);
    }

    /// Breaks all watches.
    pub(super) fn break_tails(&self) {
        self.lock().now = watch::Sender::default();
    }

    pub(super) fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lock().history.value(key).map(|(_, value)| value.clone())
    }

    pub(super) fn count(&self, range: &RangeRequest) -> usize {
        self.lock().history.read(range).kvs.len()
    }
}

impl State {
    fn make(&mut self, txn: &TxnRequest) -> TxnResponse {
        let made = self.history.make(txn, true);
        self.now.send_replace(self.history.revision);
        made
    }
}

/// The writes from a revision on.
pub(super) struct FakeTail {
    etcd: FakeEtcd,
    range: RangeRequest,
    next: i64,
    now: watch::Receiver<i64>,
}

impl Tail for FakeTail {
    async fn next(&mut self) -> Result<Vec<KeyValue>, KvError> {
        loop {
            self.now.borrow_and_update();
            {
                let state = self.etcd.lock();
                let written = state.history.written_from(&self.range, self.next).ok_or(KvError::Compacted)?;
                if !state.unreachable && !written.is_empty() {
                    self.next = state.history.revision + 1;
                    return Ok(written);
                }
            }
            self.now.changed().await.map_err(|_| KvError::Unknown("the watch broke".into()))?;
        }
    }
}

impl Kv for FakeEtcd {
    type Tail = FakeTail;

    async fn tail(&self, range: RangeRequest, from: i64) -> Result<FakeTail, KvError> {
        let state = self.lock();
        if state.unreachable {
            return Err(KvError::Unknown("unreachable".into()));
        }
        Ok(FakeTail { etcd: self.clone(), range, next: from, now: state.now.subscribe() })
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        self.is_about_to(About::Read(request.revision)).await;
        let state = self.lock();
        let page = match request.revision {
            _ if state.unreachable => Err(KvError::Unknown("unreachable".into())),
            revision if revision > 0 && revision < state.history.compacted => Err(KvError::Compacted),
            _ => Ok(state.history.read(&request)),
        }?;
        let bytes = page.kvs.iter().map(|key_value| key_value.value.len()).sum::<usize>();
        match state.largest_answer.is_some_and(|largest| bytes > largest) {
            true => Err(KvError::Unknown("the message is too large".into())),
            false => Ok(page),
        }
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        self.is_about_to(About::Write).await;
        let unknown = || Err(KvError::Unknown("no answer".into()));
        let mut state = self.lock();
        if state.unreachable {
            return unknown();
        }
        let is_refused = |operation: &RequestOp| match &operation.operation {
            Some(Operation::Put(put)) => state.refused_key.as_ref() == Some(&put.key),
            _ => false,
        };
        if request.success.iter().any(is_refused) {
            return Err(KvError::Refused("too many operations in txn request".into()));
        }
        match state.faults.pop_front() {
            None => Ok(state.make(&request)),
            Some(Fault::Lost) => unknown(),
            Some(Fault::Unanswered) => {
                state.make(&request);
                unknown()
            }
            Some(Fault::Late) => {
                state.late.push(request);
                unknown()
            }
            Some(Fault::Full) => Err(KvError::Refused("database space exceeded".into())),
        }
    }

    async fn compact(&self, revision: i64) -> Result<(), KvError> {
        self.lock().history.compact(revision);
        Ok(())
    }

    async fn space(&self) -> Result<SpaceUsage, KvError> {
        Ok(SpaceUsage { used: 0, quota: 1_000, alarm: false })
    }
}

/// The clock of a machine, by the time of tokio.
pub(super) struct Machine {
    start: Instant,
    boot_id: u64,
}

impl Machine {
    pub(super) fn clock(boot_id: u64) -> Arc<dyn Clock> {
        Arc::new(Machine { start: present(), boot_id })
    }
}

fn present() -> Instant {
    tokio::time::sleep(Duration::ZERO).deadline()
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let since = i64::try_from(present().duration_since(self.start).as_nanos()).expect("not for centuries");
        Timestamp { boot: 1_000_000_000 + since, wall: 2_000_000_000 + since }
    }

    fn awake(&self) -> Duration {
        present().duration_since(self.start)
    }

    fn boot_id(&self) -> u64 {
        self.boot_id
    }
}
