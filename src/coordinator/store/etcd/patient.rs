//! An etcd cluster with a total timeout, for commands whose users wait for a result.
use super::client::{Client, Endpoints};
use super::kv::{Kv, KvError, SpaceUsage};
use super::wire::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use crate::clock::Clock;
use crate::coordinator::store::OpenError;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The time without an answer after which a command fails, in nanoseconds. etcd elects a leader within 4 s.
const GIVE_UP: i64 = 15_000_000_000;

const ANSWERS: i64 = i64::MAX;

/// A cluster whose unknown outcomes become refusals once it has not answered for [`GIVE_UP`].
#[derive(Clone)]
pub(super) struct Patient<K> {
    kv: K,
    machine: Arc<dyn Clock>,
    /// When the first call after the last answer failed, on the clock of the machine; [`ANSWERS`]: none has.
    failing_since: Arc<AtomicI64>,
}

/// Connects to etcd. `writes`: a full etcd is refused.
///
/// # Errors
/// As [`Client::check`].
pub(super) async fn connect(
    endpoints: &Endpoints,
    writes: bool,
    machine: Arc<dyn Clock>,
) -> Result<Patient<Client>, OpenError> {
    let client = Client::new(endpoints)?;
    client.check(writes).await?;
    Ok(Patient::new(client, machine))
}

impl<K: Kv> Patient<K> {
    pub(super) fn new(kv: K, machine: Arc<dyn Clock>) -> Self {
        Patient { kv, machine, failing_since: Arc::new(AtomicI64::new(ANSWERS)) }
    }

    fn judged<T>(&self, outcome: Result<T, KvError>) -> Result<T, KvError> {
        let Err(KvError::Unknown(why)) = outcome else {
            self.failing_since.store(ANSWERS, Relaxed);
            return outcome;
        };
        let now = self.machine.boot();
        let since = self.failing_since.fetch_min(now, Relaxed).min(now);
        if now.saturating_sub(since) < GIVE_UP {
            return Err(KvError::Unknown(why));
        }
        let seconds = GIVE_UP / 1_000_000_000;
        Err(KvError::Refused(format!("{why}. etcd has not answered for {seconds} s: is a majority of its members up?")))
    }
}

impl<K: Kv> Kv for Patient<K> {
    type Tail = K::Tail;

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        self.judged(self.kv.range(request).await)
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        self.judged(self.kv.txn(request).await)
    }

    async fn tail(&self, range: RangeRequest, from: i64) -> Result<K::Tail, KvError> {
        self.judged(self.kv.tail(range, from).await)
    }

    async fn compact(&self, revision: i64) -> Result<(), KvError> {
        self.judged(self.kv.compact(revision).await)
    }

    async fn space(&self) -> Result<SpaceUsage, KvError> {
        self.judged(self.kv.space().await)
    }
}
