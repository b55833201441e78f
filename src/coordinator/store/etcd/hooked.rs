//! An etcd before each of whose calls something happens: for tests of what others do meanwhile.
use super::fake::{FakeEtcd, FakeTail};
use super::kv::{Kv, KvError, Room};
use super::wire::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use std::future::Future;

/// A call that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// At this revision; 0: the present one.
    Read(i64),
    Write,
}

#[derive(Clone)]
pub(super) struct Hooked<F>(pub(super) FakeEtcd, pub(super) F);

impl<F, W> Kv for Hooked<F>
where
    F: Fn(About) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = ()> + Send,
{
    type Tail = FakeTail;

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        self.1(About::Read(request.revision)).await;
        self.0.range(request).await
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
        self.1(About::Write).await;
        self.0.txn(request).await
    }

    async fn tail(&self, range: RangeRequest, from: i64) -> Result<FakeTail, KvError> {
        self.0.tail(range, from).await
    }

    async fn compact(&self, revision: i64) -> Result<(), KvError> {
        self.0.compact(revision).await
    }

    async fn room(&self) -> Result<Room, KvError> {
        self.0.room().await
    }
}
