//! Loading from an etcd whose answers do not come if they are large.
use super::fake::{FakeEtcd, FakeTail};
use super::kv::{Kv, KvError, Room};
use super::load;
use super::record::{Entry, LeaderRecord};
use super::tests::{keys, put};
use super::wire::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use prost::Message;
use std::time::Duration;
use tokio::time::timeout;

/// The largest answer that comes, in bytes of values.
const LARGEST: usize = 1 << 20;

#[derive(Clone)]
struct Narrow(FakeEtcd);

impl Kv for Narrow {
    type Tail = FakeTail;

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, KvError> {
        let page = self.0.range(request).await?;
        match page.kvs.iter().map(|key_value| key_value.value.len()).sum::<usize>() > LARGEST {
            true => Err(KvError::Unknown("the message is too large".into())),
            false => Ok(page),
        }
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, KvError> {
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

#[tokio::test(start_paused = true)]
async fn a_log_that_went_from_quiet_to_busy_is_loaded() {
    const SMALL: u64 = 200;
    const ALL: u64 = 240;
    let etcd = FakeEtcd::default();
    for seq in 1..=ALL {
        // The beginning of one batch: its content does not matter.
        let ops = vec![0; if seq <= SMALL { 10 } else { 100 << 10 }];
        let entry = Entry { term: 1, clock: 0, more: true, ops };
        put(&etcd, keys().log(seq), entry.encode_to_vec()).await;
    }
    put(&etcd, keys().leader(), LeaderRecord { seq: ALL, term: 1, ..LeaderRecord::default() }.encode_to_vec()).await;
    let loaded = timeout(Duration::from_secs(60), load::load(&Narrow(etcd), &keys())).await;
    loaded.expect("it ends").expect("it is sound");
}
