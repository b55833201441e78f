//! The operations of etcd that a fleet needs: linearizable reads, transactions, watches, compaction, and its room. A seam for tests and simulations.
use super::wire::{KeyValue, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use std::future::Future;

/// One etcd cluster. Each call is one attempt, bounded in time; after one that failed, the next may go to another member.
pub trait Kv: Clone + Send + Sync + 'static {
    /// The writes, as they happen.
    type Tail: Tail;

    /// Reads keys. Linearizable: what was written before it began is seen.
    fn range(&self, request: RangeRequest) -> impl Future<Output = Result<RangeResponse, KvError>> + Send;

    /// Makes one transaction, or nothing of it.
    fn txn(&self, request: TxnRequest) -> impl Future<Output = Result<TxnResponse, KvError>> + Send;

    /// Follows what is written to the keys of `range` from the revision `from` on.
    fn tail(&self, range: RangeRequest, from: i64) -> impl Future<Output = Result<Self::Tail, KvError>> + Send;

    /// Forgets what keys were before `revision`.
    fn compact(&self, revision: i64) -> impl Future<Output = Result<(), KvError>> + Send;

    /// How much room there is.
    fn room(&self) -> impl Future<Output = Result<Room, KvError>> + Send;
}

/// Writes in their order.
pub trait Tail: Send + 'static {
    /// The next ones. After an error there are none.
    ///
    /// # Errors
    /// [`KvError::Compacted`]: the next ones are forgotten.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost.
    fn next(&mut self) -> impl Future<Output = Result<Vec<KeyValue>, KvError>> + Send;
}

/// The room of an etcd cluster, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are used.
    pub used: i64,
    /// Bytes that may be.
    pub quota: i64,
    /// Writes are refused.
    pub alarm: bool,
}

impl Room {
    /// Whether so much is used that elicitations should no longer be opened: closing them takes room too.
    pub fn is_full(self) -> bool {
        self.alarm || self.used / 4 >= self.quota / 5
    }
}

/// Why a call to etcd has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// etcd has refused it: nothing was changed by this attempt.
    #[error("{0}")]
    Refused(String),
    /// It may have been done, may be done later, or never.
    #[error("{0}")]
    Unknown(String),
    /// The requested revisions are compacted: read the present state.
    #[error("etcd no longer has that revision")]
    Compacted,
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn four_fifths_of_the_quota_are_full() {
        let room = |used, alarm| Room { used, quota: 1_000, alarm };
        assert!(!room(799, false).is_full());
        assert!(room(800, false).is_full());
        assert!(room(0, true).is_full());
    }
}
