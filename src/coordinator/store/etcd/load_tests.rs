//! Loading from an etcd whose large answers never arrive.
use super::fake::FakeEtcd;
use super::load;
use super::record::{Entry, LeaderRecord};
use super::tests::{keys, put};
use prost::Message;
use std::time::Duration;
use tokio::time::timeout;

/// The largest answer that arrives, in bytes of values.
const LARGEST: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_log_that_went_from_quiet_to_busy_is_loaded() {
    const SMALL: u64 = 200;
    const ALL: u64 = 240;
    let etcd = FakeEtcd::default();
    for seq in 1..=ALL {
        // The beginning of a batch, whose content does not matter.
        let ops = vec![0; if seq <= SMALL { 10 } else { 100 << 10 }];
        let entry = Entry { term: 1, clock: 0, more: true, ops };
        put(&etcd, keys().log(seq), entry.encode_to_vec()).await;
    }
    put(&etcd, keys().leader(), LeaderRecord { seq: ALL, term: 1, ..LeaderRecord::default() }.encode_to_vec()).await;
    etcd.lose_answers_above(LARGEST);
    let loaded = timeout(Duration::from_secs(60), load::load(&etcd, &keys())).await;
    loaded.expect("it ends").expect("it is sound");
}
