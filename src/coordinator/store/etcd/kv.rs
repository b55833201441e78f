//! The operations of etcd that a fleet needs: linearizable reads, transactions, watches, compaction, and its free
//! space. Tests and simulations replace this trait.
use super::wire::{KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use std::future::Future;

/// One etcd cluster. Each call is one attempt with a timeout; after a failure, the next one may go to another member.
pub trait Kv: Clone + Send + Sync + 'static {
    /// The writes, as they happen.
    type Tail: Tail;

    /// Reads keys. Linearizable: the result includes everything that was written before the call.
    fn range(&self, request: RangeRequest) -> impl Future<Output = Result<RangeResponse, KvError>> + Send;

    /// Makes one transaction, atomically.
    fn txn(&self, request: TxnRequest) -> impl Future<Output = Result<TxnResponse, KvError>> + Send;

    /// Follows the writes to the keys of `range` from the revision `from` on.
    fn tail(&self, range: RangeRequest, from: i64) -> impl Future<Output = Result<Self::Tail, KvError>> + Send;

    /// Deletes the history of all keys before `revision`.
    fn compact(&self, revision: i64) -> impl Future<Output = Result<(), KvError>> + Send;

    /// The used and free space.
    fn space(&self) -> impl Future<Output = Result<SpaceUsage, KvError>> + Send;
}

/// The writes in their order.
pub trait Tail: Send + 'static {
    /// The next writes. After an error there are no more.
    ///
    /// # Errors
    /// [`KvError::Compacted`]: the next writes are compacted.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    fn next(&mut self) -> impl Future<Output = Result<Vec<KeyValue>, KvError>> + Send;
}

/// The space of an etcd cluster, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Bytes that are used.
    pub used: i64,
    /// The maximum.
    pub quota: i64,
    /// etcd refuses writes.
    pub alarm: bool,
}

impl SpaceUsage {
    /// Whether increments should be refused, because closing elicitations takes space too.
    pub fn is_full(self) -> bool {
        self.alarm || self.used / 4 >= self.quota / 5
    }
}

/// Why a call to etcd has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// etcd has refused the call: this attempt has changed nothing.
    #[error("{0}")]
    Refused(String),
    /// The outcome is unknown: the call may have taken effect already, may take effect later, or may never do so.
    #[error("{0}")]
    Unknown(String),
    /// The requested revisions are compacted: read the present state.
    #[error("etcd no longer has that revision")]
    Compacted,
}

#[cfg(test)]
mod tests {
    use super::SpaceUsage;

    #[test]
    fn four_fifths_of_the_quota_are_full() {
        let space = |used, alarm| SpaceUsage { used, quota: 1_000, alarm };
        assert!(!space(799, false).is_full());
        assert!(space(800, false).is_full());
        assert!(space(0, true).is_full());
    }
}
