//! Snapshots of a store that commits as fast as it can: each snapshot is the state after one of the commits.
use crate::support::disk::SimDisk;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Elicitation, Header, Open, Pause, Timestamp};
use pausewatch::test_support::store::{Embedded, Snapshot, Store, Write, restore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const NOW: Timestamp = Timestamp { boot: 5_000_000_000, wall: 1_800_000_000_000_000_000 };
const BOOT: u64 = 7;
/// The number of open elicitations after each commit.
const OPEN: u64 = 5;
const SNAPSHOTS: usize = 25;
/// More commits than all files of the journal can hold.
const MORE: u64 = (10 << 20) / 2_048;

fn open(row: u64) -> Open {
    // Long enough that the journal wraps around several times.
    let reason = "r".repeat(1_024).into();
    let elicitation = Elicitation { id: ElicitationId(row.into()), reason, holder: "".into(), created: NOW };
    Open { elicitation: Arc::new(elicitation), lease: None, anonymous: true, row }
}

/// Commit `n` opens elicitation `n` and closes the elicitation `n - OPEN`.
fn commit(store: &mut Embedded, n: u64) {
    let thread = ThreadId::parse("", "t").unwrap();
    let pause = Pause { since: Some(NOW), ..Pause::default() };
    let (header, new) = (Header { revision: n, pause, changed: NOW }, open(n));
    let mut batch = vec![Write::PutThread(&thread, &header), Write::PutElicitation(&thread, &new)];
    batch.extend(n.checked_sub(OPEN).map(Write::DeleteElicitation));
    store.commit(&batch).unwrap();
}

/// The latest commit of a snapshot. Asserts that no other commit is missing.
fn newest(snapshot: &Snapshot) -> u64 {
    let mut backup = Vec::new();
    snapshot.write(0, &mut backup).unwrap();
    let directory = tempfile::tempdir().unwrap();
    restore(&mut &backup[..], directory.path(), false, BOOT, NOW).unwrap();
    let records = Embedded::open(directory.path(), BOOT).unwrap().load(NOW).unwrap().records;
    let rows: Vec<_> = records[0].open.iter().map(|open| open.row).collect();
    let newest = *rows.last().unwrap();
    assert_eq!(rows, (newest + 1 - OPEN..=newest).collect::<Vec<_>>(), "the snapshot contains only part of a commit");
    newest
}

/// N1: what was only in the journal is in the copy, even if all of it is meanwhile moved to the database and
/// overwritten.
#[test]
fn a_journal_that_goes_round_while_it_is_copied_takes_nothing_from_the_copy() {
    let disk = SimDisk::default();
    let mut store = Embedded::on(Arc::new(disk.clone()), "the disk of the test", BOOT).unwrap();
    store.load(NOW).unwrap();
    for n in 1..=OPEN {
        commit(&mut store, n);
    }
    let snapshots = store.snapshots();
    disk.meddle(move || {
        (OPEN + 1..=OPEN + MORE).for_each(|n| commit(&mut store, n));
        // The store must outlive the snapshot: a store that is closed has no snapshots.
        std::mem::forget(store);
    });
    let newest = newest(&snapshots.take().unwrap());
    assert!((OPEN..=OPEN + MORE).contains(&newest), "{newest}");
}

/// A slow reader of a copy delays no commit, and gets the state of the moment of its request.
#[test]
fn an_unread_copy_delays_nothing() {
    let mut store = Embedded::on(Arc::new(SimDisk::default()), "the disk of the test", BOOT).unwrap();
    store.load(NOW).unwrap();
    (1..=OPEN).for_each(|n| commit(&mut store, n));
    let snapshot = store.snapshots().take().unwrap();
    (OPEN + 1..=OPEN + 2 * MORE).for_each(|n| commit(&mut store, n));
    assert_eq!(newest(&snapshot), OPEN);
    drop(store);
    let mut backup = Vec::new();
    let closed = snapshot.write(0, &mut backup);
    assert!(closed.is_err(), "the rest of a closed database is not a copy");
}

/// N1 to N3 of `store/embedded/snapshot.rs`.
#[test]
fn a_snapshot_is_the_store_after_one_commit_and_not_before_the_last_that_was_acknowledged() {
    let mut store = Embedded::on(Arc::new(SimDisk::default()), "the disk of the test", BOOT).unwrap();
    store.load(NOW).unwrap();
    for n in 1..=OPEN {
        commit(&mut store, n);
    }
    let snapshots = store.snapshots();
    let (acknowledged, over) = (Arc::new(AtomicU64::new(OPEN)), Arc::<AtomicBool>::default());
    let committing = std::thread::spawn({
        let (acknowledged, over) = (acknowledged.clone(), over.clone());
        move || {
            let mut n = OPEN;
            while !over.load(SeqCst) {
                n += 1;
                commit(&mut store, n);
                acknowledged.store(n, SeqCst);
            }
            n
        }
    });
    let mut last = 0;
    for _ in 0..SNAPSHOTS {
        // Otherwise several snapshots could be of the same commit.
        while acknowledged.load(SeqCst) == last {
            std::hint::spin_loop();
        }
        let before = acknowledged.load(SeqCst);
        let newest = newest(&snapshots.take().unwrap());
        assert!(newest >= before, "the newest is {newest}, but {before} was acknowledged");
        last = newest;
    }
    over.store(true, SeqCst);
    let commits = committing.join().unwrap();
    println!("{commits} commits, {SNAPSHOTS} snapshots");
    assert!(commits * 2_048 > 9 << 20, "the journal was written over: {commits} commits");
    assert!(snapshots.take().is_err_and(|why| why.to_string().contains("the store was closed")));
}
