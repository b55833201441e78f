//! Loading from an etcd whose large answers never arrive.
use super::fake::FakeEtcd;
use super::load;
use super::record::{Entry, LeaderRecord};
use super::tests::{keys, put};
use crate::coordinator::store::Write;
use crate::coordinator::store::ops;
use crate::core::types::ThreadId;
use crate::core::{Header, Pause, Timestamp};
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// The largest answer that arrives, in bytes of values.
const LARGEST: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_log_that_went_from_quiet_to_busy_is_loaded() {
    const SMALL: u64 = 200;
    const ALL: u64 = 240;
    let etcd = FakeEtcd::default();
    let (mut threads, mut expected) = (0, BTreeMap::new());
    for seq in 1..=ALL {
        let first = threads;
        threads += if seq <= SMALL { 1 } else { 1_000 };
        let ids: Vec<_> =
            (first..threads).map(|i| ThreadId::parse("", &format!("{i:0>100}")).expect("valid")).collect();
        let header = Header { revision: seq, pause: Pause::default(), changed: Timestamp::default() };
        let writes: Vec<_> = ids.iter().map(|id| Write::PutThread(id, &header)).collect();
        let mut ops = Vec::new();
        ops::encode(&writes, 1, &mut ops);
        let changes = ops::decode([&ops[..]]).expect("a batch");
        let rows =
            changes.into_iter().filter_map(|((table, key), value)| Some(((table, key.to_vec()), value?.to_vec())));
        expected.extend(rows);
        put(&etcd, keys().log(seq), Entry { term: 1, clock: 0, more: false, ops }.encode_to_vec()).await;
    }
    put(&etcd, keys().leader(), LeaderRecord { seq: ALL, term: 1, ..LeaderRecord::default() }.encode_to_vec()).await;
    etcd.lose_answers_above(LARGEST);
    let loaded = timeout(Duration::from_secs(60), load::load(&etcd, &keys())).await;
    let loaded = loaded.expect("it ends").expect("it is sound");
    assert_eq!((loaded.rows.len(), expected.len()), (threads, threads));
    assert!(loaded.rows == expected, "the rows differ from those that were written");
}
