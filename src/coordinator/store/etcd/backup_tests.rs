//! A backup of a fleet: it has one revision, however many pages it takes and whatever is written meanwhile, and it
//! includes the log.
use super::backup::FleetSnapshot;
use super::fake::{About, FakeEtcd, Machine};
use super::join::join;
use super::kv::Kv;
use super::patient::Patient;
use super::record::{Applied, Entry, Keys};
use super::tests::{lead, put};
use super::wire::{RequestOp, TxnRequest};
use crate::coordinator::store::embedded::{Summary, read_backup};
use crate::coordinator::store::ops::{self, Table};
use crate::coordinator::store::rows::ThreadRow;
use crate::coordinator::store::{OpenError, Write};
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Elicitation, Header, Open, Pause, Timestamp};
use prost::Message;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::sleep;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

fn keys() -> Keys {
    Keys::under("/p")
}

fn thread(name: &str) -> ThreadId {
    ThreadId::parse("", name).expect("valid")
}

/// A batch that sets a thread to this revision. `row`: it also opens an elicitation with this row.
fn batch(name: &str, revision: u64, row: Option<u64>) -> Vec<u8> {
    let thread = thread(name);
    let since = row.map(|_| Timestamp::default());
    let header = Header { revision, pause: Pause { since, ..Pause::default() }, changed: Timestamp::default() };
    let id = ElicitationId(row.unwrap_or_default().into());
    let elicitation = Elicitation { id, reason: "why".into(), holder: "who".into(), created: Timestamp::default() };
    let open = Open { elicitation: Arc::new(elicitation), lease: None, anonymous: true, row: row.unwrap_or_default() };
    let mut writes = vec![Write::PutThread(&thread, &header)];
    writes.extend(row.map(|_| Write::PutElicitation(&thread, &open)));
    encoded(&writes)
}

fn encoded(writes: &[Write<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ops::encode(writes, 1, &mut bytes);
    bytes
}

/// The rows of a backup, as `restore` reads them.
fn rows(snapshot: &FleetSnapshot) -> (Rows, Summary) {
    let (mut bytes, mut rows) = (Vec::new(), Rows::new());
    let written = snapshot.write(7, &mut bytes).expect("memory takes it");
    let read = read_backup(&mut &bytes[..], &mut io::sink(), |part| {
        let changes = ops::decode([&part[..]]).expect("rows");
        let put = |((table, key), value): ((Table, &[u8]), Option<&[u8]>)| {
            ((table, key.to_vec()), value.expect("a backup has no deletions").to_vec())
        };
        rows.extend(changes.into_iter().map(put));
        Ok(())
    });
    assert_eq!(read.expect("it is whole"), written);
    (rows, written)
}

fn revision(rows: &Rows, name: &str) -> u64 {
    ThreadRow::decode(&rows[&(Table::Threads, name.as_bytes().to_vec())][..]).expect("a row").revision()
}

/// A1: the backup ends with the last change before its first read, and takes many pages. An earlier read checks that
/// there is a fleet.
#[tokio::test(start_paused = true)]
async fn all_pages_of_a_backup_are_of_one_revision() {
    let etcd = FakeEtcd::default();
    let (mut chain, _) = lead(&etcd, 1).await;
    for change in 1..=300 {
        chain.commit(&batch(&format!("thread {change}"), change, None)).await.expect("it leads");
        chain.commit(&batch("each time", change, None)).await.expect("it leads");
    }
    let (chain, reads) = (Arc::new(Mutex::new(chain)), Arc::<AtomicUsize>::default());
    let meanwhile = {
        let reads = reads.clone();
        move |about| {
            assert_ne!(about, About::Write, "a backup must write nothing");
            let (chain, change) = (chain.clone(), 301 + reads.fetch_add(1, SeqCst) as u64);
            async move {
                chain.lock().await.commit(&batch("each time", change, None)).await.expect("it leads");
                chain.lock().await.commit(&batch(&format!("late {change}"), 1, None)).await.expect("it leads");
            }
        }
    };
    let snapshot = FleetSnapshot::of(&etcd.before(meanwhile), &keys()).await.expect("it is sound");
    let (rows, summary) = rows(&snapshot);
    assert!(reads.load(SeqCst) >= 6, "the log must have more than one page");
    assert_eq!(revision(&rows, "each time"), 302, "it must have exactly what was written before the copy began");
    assert_eq!(summary.threads, 303);
}

/// A2: it has the rows of a checkpoint, the log's changes and deletions of them, and no incomplete batch.
#[tokio::test(start_paused = true)]
async fn the_log_is_folded_into_the_rows() {
    let etcd = FakeEtcd::default();
    let (mut chain, _) = lead(&etcd, 1).await;
    chain.housekeeping.compact = false;
    for (row, name) in [(1, "closed in the log"), (2, "forgotten in the log"), (3, "as it was")] {
        chain.commit(&batch(name, 1, Some(row))).await.expect("it leads");
    }
    sleep(Duration::from_secs(400)).await;
    for _ in 0..4 {
        chain.maintain().await.expect("it leads");
    }
    let applied = etcd.value(&keys().applied()).expect("a checkpoint was made");
    assert_eq!(Applied::decode(&applied[..]).expect("readable").seq, 3);
    // The log is truncated: the effect of its entries is in rows.
    sleep(Duration::from_secs(700)).await;
    for _ in 0..4 {
        chain.maintain().await.expect("it leads");
    }
    assert_eq!(etcd.count(&keys().entries()), 0);
    chain
        .commit(&[batch("closed in the log", 2, None), encoded(&[Write::DeleteElicitation(1)])].concat())
        .await
        .unwrap();
    let forgotten = thread("forgotten in the log");
    let delete = [Write::DeleteElicitation(2), Write::DeleteThread(&forgotten), Write::PutFloor(9)];
    chain.commit(&encoded(&delete)).await.expect("it leads");
    chain.commit(&batch("new in the log", 5, Some(8))).await.expect("it leads");
    // The beginning of a batch, from a leader that was deposed.
    let begun = Entry { term: 1, clock: 0, more: true, ops: batch("never committed", 1, None) };
    let mut leader = super::record::LeaderRecord::decode(&etcd.value(&keys().leader()).unwrap()[..]).unwrap();
    leader.seq += 1;
    put(&etcd, keys().log(leader.seq), begun.encode_to_vec()).await;
    put(&etcd, keys().leader(), leader.encode_to_vec()).await;

    let (rows, summary) = rows(&FleetSnapshot::of(&etcd, &keys()).await.expect("it is sound"));
    let names: Vec<_> = rows.keys().map(|(table, key)| (*table, String::from_utf8_lossy(key).into_owned())).collect();
    let number = |number: u64| String::from_utf8_lossy(&number.to_be_bytes()).into_owned();
    let expected = [
        (Table::Meta, "revision floor".to_owned()),
        (Table::Threads, "as it was".to_owned()),
        (Table::Threads, "closed in the log".to_owned()),
        (Table::Threads, "new in the log".to_owned()),
        (Table::Elicitations, number(3)),
        (Table::Elicitations, number(8)),
    ];
    assert_eq!(names, expected);
    assert_eq!((revision(&rows, "closed in the log"), revision(&rows, "as it was")), (2, 1));
    assert_eq!((summary.threads, summary.elicitations, summary.taken), (3, 2, 7));
}

/// If its revision is compacted, it starts again at the then current one, and gives up if that does not help.
#[tokio::test(start_paused = true)]
async fn a_backup_that_is_overtaken_by_a_compaction_is_taken_again_a_few_times() {
    for (compactions, succeeds) in [(1, true), (2, true), (usize::MAX, false)] {
        let etcd = FakeEtcd::default();
        let (mut chain, _) = lead(&etcd, 1).await;
        for change in 1..=200 {
            chain.commit(&batch(&format!("thread {change}"), 1, None)).await.expect("it leads");
        }
        let (chain, made) = (Arc::new(Mutex::new(chain)), Arc::<AtomicUsize>::default());
        let (all, counted) = (etcd.clone(), made.clone());
        let compacting = move |about| {
            let (etcd, made, chain) = (all.clone(), counted.clone(), chain.clone());
            async move {
                if matches!(about, About::Read(1..)) && made.load(SeqCst) < compactions {
                    made.fetch_add(1, SeqCst);
                    chain.lock().await.commit(&batch("later", 1, None)).await.expect("it leads");
                    etcd.forget();
                }
            }
        };
        let taken = FleetSnapshot::of(&etcd.before(compacting), &keys()).await;
        assert_eq!(made.load(SeqCst), compactions.min(3));
        match taken {
            Ok(snapshot) if succeeds => assert_eq!(rows(&snapshot).1.threads, 201),
            Err(error) if !succeeds => {
                assert!(error.to_string().contains("compacted while it was read, 3 times"), "{error}")
            }
            other => panic!("{compactions}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_without_a_whole_fleet_is_not_backed_up() {
    let refusal = async |etcd: &FakeEtcd| FleetSnapshot::of(etcd, &keys()).await.expect_err("no fleet").to_string();
    let etcd = FakeEtcd::default();
    join(&etcd, &Keys::under("/other")).await.expect("it is founded");
    let said = refusal(&etcd).await;
    assert!(said.contains("there is no fleet") && said.contains("--etcd-prefix"), "{said}");
    put(&etcd, keys().restoring(), b"x".to_vec()).await;
    put(&etcd, keys().log(1), b"a first entry".to_vec()).await;
    assert!(refusal(&etcd).await.contains("a restore is under way, or was not finished"));
    // A fleet that no replica has led is empty.
    let etcd = FakeEtcd::default();
    join(&etcd, &keys()).await.expect("it is founded");
    let empty = FleetSnapshot::of(&etcd, &keys()).await.expect("it is sound");
    assert_eq!(rows(&empty).1.rows, 0);
    // A3.
    let (mut chain, _) = lead(&etcd, 1).await;
    let lonely = Header {
        revision: 1,
        pause: Pause { since: Some(Timestamp::default()), ..Pause::default() },
        changed: Timestamp::default(),
    };
    chain.commit(&encoded(&[Write::PutThread(&thread("t"), &lonely)])).await.expect("it leads");
    let said = refusal(&etcd).await;
    assert!(said.contains("paused without elicitations") && said.contains("damaged"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_command_gives_up_an_etcd_that_does_not_answer() {
    let etcd = FakeEtcd::default();
    join(&etcd, &keys()).await.expect("it is founded");
    let machine = Machine::clock(1);
    etcd.set_unreachable(true);
    let before = machine.boot();
    let refused = FleetSnapshot::of(&Patient::new(etcd.clone(), machine.clone()), &keys()).await;
    let (refused, took) = (refused.expect_err("it is gone"), machine.boot() - before);
    assert!(matches!(&refused, OpenError::Io(why) if why.contains("has not answered for 15 s")), "{refused}");
    assert!((15_000_000_000..16_000_000_000).contains(&took), "{took} ns");
    // An etcd that answers sometimes is not given up.
    etcd.set_unreachable(false);
    let patient = Patient::new(etcd.clone(), machine);
    for _ in 0..5 {
        sleep(Duration::from_secs(20)).await;
        patient
            .txn(TxnRequest { success: vec![RequestOp::put(b"x".to_vec(), Vec::new())], ..TxnRequest::default() })
            .await
            .unwrap();
        etcd.set_unreachable(true);
        sleep(Duration::from_secs(10)).await;
        assert!(matches!(patient.txn(TxnRequest::default()).await, Err(super::kv::KvError::Unknown(_))));
        etcd.set_unreachable(false);
    }
}
