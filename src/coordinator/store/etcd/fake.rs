//! An etcd in memory whose answers can be lost, late or refused; and a clock that follows the paused time of tokio.
use super::kv::{Kv, KvError, Room, Tail};
use super::wire::{
    Expected, KeyValue, Operation, Outcome, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp,
    TxnRequest, TxnResponse,
};
use crate::clock::Clock;
use crate::core::Timestamp;
use std::collections::{BTreeMap, VecDeque};
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

#[derive(Clone, Default)]
pub(super) struct FakeEtcd(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: i64,
    keys: BTreeMap<Vec<u8>, (i64, Vec<u8>)>,
    /// Every write: its revision, key and value; `None`: a deletion.
    past: Vec<(i64, Vec<u8>, Option<Vec<u8>>)>,
    /// Earlier revisions are compacted.
    compacted: i64,
    /// Its present revision, for those who follow.
    now: watch::Sender<i64>,
    faults: VecDeque<Fault>,
    late: Vec<TxnRequest>,
    unreachable: bool,
}

impl FakeEtcd {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }

    pub(super) fn faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// Lets what is late arrive.
    pub(super) fn deliver(&self) {
        let mut state = self.lock();
        for txn in std::mem::take(&mut state.late) {
            state.make(&txn);
        }
    }

    pub(super) fn set_unreachable(&self, unreachable: bool) {
        self.lock().unreachable = unreachable;
    }

    /// Forgets what was, without being asked.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        state.compacted = state.revision;
    }

    /// Breaks all watches.
    pub(super) fn break_tails(&self) {
        self.lock().now = watch::Sender::default();
    }

    pub(super) fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lock().keys.get(key).map(|(_, value)| value.clone())
    }

    pub(super) fn count(&self, range: &RangeRequest) -> usize {
        self.lock().keys.range(range.key.clone()..range.range_end.clone()).count()
    }
}

impl State {
    fn holds(&self, key: &[u8], expected: Option<&Expected>) -> bool {
        let found = self.keys.get(key);
        match expected {
            Some(Expected::ModRevision(revision)) => found.map_or(0, |(at, _)| *at) == *revision,
            Some(Expected::Value(value)) => found.is_some_and(|(_, found)| found == value),
            None => false,
        }
    }

    /// The keys as they were after `revision`.
    fn at(&self, revision: i64) -> BTreeMap<Vec<u8>, (i64, Vec<u8>)> {
        let mut keys = BTreeMap::new();
        for (at, key, value) in self.past.iter().take_while(|(at, ..)| *at <= revision) {
            match value {
                Some(value) => _ = keys.insert(key.clone(), (*at, value.clone())),
                None => _ = keys.remove(key),
            }
        }
        keys
    }

    fn read(&self, range: &RangeRequest) -> RangeResponse {
        let then;
        let keys = match range.revision {
            0 => &self.keys,
            revision => {
                then = self.at(revision);
                &then
            }
        };
        let found: Vec<_> = match range.range_end.is_empty() {
            true => keys.get_key_value(&range.key).into_iter().collect(),
            false => keys.range(range.key.clone()..range.range_end.clone()).collect(),
        };
        let limit = if range.limit > 0 { range.limit as usize } else { usize::MAX };
        let kvs = found.iter().take(limit).map(|(key, (revision, value))| KeyValue {
            key: (*key).clone(),
            mod_revision: *revision,
            value: value.clone(),
        });
        let header = Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() });
        RangeResponse { header, kvs: kvs.collect(), more: found.len() > limit }
    }

    fn make(&mut self, txn: &TxnRequest) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| self.holds(&compare.key, compare.expected.as_ref()));
        let operations = if succeeded { &txn.success } else { &txn.failure };
        assert!(operations.len() <= 128, "too many operations");
        let writes = operations.iter().any(|op| !matches!(op.operation, Some(Operation::Range(_))));
        self.revision += i64::from(writes);
        let responses = operations.iter().map(|op| ResponseOp { outcome: self.operate(op) }).collect();
        self.now.send_replace(self.revision);
        TxnResponse {
            header: Some(ResponseHeader { revision: self.revision, ..ResponseHeader::default() }),
            succeeded,
            responses,
        }
    }

    fn operate(&mut self, op: &RequestOp) -> Option<Outcome> {
        match op.operation.as_ref().expect("an operation") {
            Operation::Range(range) => return Some(Outcome::Range(self.read(range))),
            Operation::Put(put) => {
                self.keys.insert(put.key.clone(), (self.revision, put.value.clone()));
                self.past.push((self.revision, put.key.clone(), Some(put.value.clone())));
            }
            Operation::Delete(delete) => {
                let is_deleted = |key: &Vec<u8>| match delete.range_end.is_empty() {
                    true => *key == delete.key,
                    false => (&delete.key..&delete.range_end).contains(&key),
                };
                let deleted: Vec<_> = self.keys.keys().filter(|key| is_deleted(key)).cloned().collect();
                for key in deleted {
                    self.keys.remove(&key);
                    self.past.push((self.revision, key, None));
                }
            }
        }
        None
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
                if state.compacted > self.next {
                    return Err(KvError::Compacted);
                }
                let is_wanted = |(at, key, _): &&(i64, Vec<u8>, Option<Vec<u8>>)| {
                    *at >= self.next && (&self.range.key..&self.range.range_end).contains(&key)
                };
                let written = state.past.iter().filter(is_wanted).filter_map(|(at, key, value)| {
                    Some(KeyValue { key: key.clone(), mod_revision: *at, value: value.clone()? })
                });
                let written: Vec<_> = written.collect();
                if !state.unreachable && !written.is_empty() {
                    self.next = state.revision + 1;
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
        let state = self.lock();
        match request.revision {
            _ if state.unreachable => Err(KvError::Unknown("unreachable".into())),
            revision if revision > 0 && revision < state.compacted => Err(KvError::Compacted),
            _ => Ok(state.read(&request)),
        }
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        let unknown = || Err(KvError::Unknown("no answer".into()));
        let mut state = self.lock();
        if state.unreachable {
            return unknown();
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
        self.lock().compacted = revision;
        Ok(())
    }

    async fn room(&self) -> Result<Room, KvError> {
        Ok(Room { used: 0, quota: 1_000, alarm: false })
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
