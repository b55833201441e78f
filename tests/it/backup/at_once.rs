//! Snapshots of a store while it commits as fast as it can: each is what the store was after one of its commits.
use crate::support::disk::SimDisk;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Elicitation, Header, Open, Pause, Timestamp};
use pausewatch::test_support::store::{Embedded, Snapshot, Store, Write, restore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const NOW: Timestamp = Timestamp { boot: 5_000_000_000, wall: 1_800_000_000_000_000_000 };
const BOOT: u64 = 7;
/// Elicitations that are open after each commit.
const OPEN: u64 = 5;
const SNAPSHOTS: usize = 25;
/// Commits that are more than all files of the journal hold.
const MORE: u64 = (10 << 20) / 2_048;

fn open(row: u64) -> Open {
    // So long that the journal goes round and round.
    let reason = "r".repeat(1_024).into();
    let elicitation = Elicitation { id: ElicitationId(row.into()), reason, holder: "".into(), created: NOW };
    Open { elicitation: Arc::new(elicitation), lease: None, anonymous: true, row }
}

/// Commit `n` opens elicitation `n` and closes the one that is `OPEN` before it.
fn commit(store: &mut Embedded, n: u64) {
    let thread = ThreadId::parse("", "t").unwrap();
    let pause = Pause { since: Some(NOW), ..Pause::default() };
    let (header, new) = (Header { revision: n, pause, changed: NOW }, open(n));
    let mut batch = vec![Write::PutThread(&thread, &header), Write::PutElicitation(&thread, &new)];
    batch.extend(n.checked_sub(OPEN).map(Write::DeleteElicitation));
    store.commit(&batch).unwrap();
}

/// The latest commit of a snapshot, of which no other is missing.
fn newest(snapshot: &Snapshot) -> u64 {
    let mut backup = Vec::new();
    snapshot.write(0, &mut backup).unwrap();
    let directory = tempfile::tempdir().unwrap();
    restore(&mut &backup[..], directory.path(), false, BOOT, NOW).unwrap();
    let records = Embedded::open(directory.path(), BOOT).unwrap().load(NOW).unwrap().records;
    let rows: Vec<_> = records[0].open.iter().map(|open| open.row).collect();
    let newest = *rows.last().unwrap();
    assert_eq!(rows, (newest + 1 - OPEN..=newest).collect::<Vec<_>>(), "a part of a commit");
    newest
}

/// N1: what was in the journal alone is in the copy also when all of it is carried over and written over meanwhile.
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
        // It outlives the snapshot: a store that is closed has none.
        std::mem::forget(store);
    });
    let newest = newest(&snapshots.take().unwrap());
    assert!((OPEN..=OPEN + MORE).contains(&newest), "{newest}");
}

/// Who is slow to read a copy holds up no commit, and gets the moment that was asked for.
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
    assert!(closed.is_err(), "what is left of a closed database is no copy");
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
        // Else some would be of the same moment.
        while acknowledged.load(SeqCst) == last {
            std::hint::spin_loop();
        }
        let before = acknowledged.load(SeqCst);
        let newest = newest(&snapshots.take().unwrap());
        assert!(newest >= before, "{newest}, and {before} was acknowledged");
        last = newest;
    }
    over.store(true, SeqCst);
    let commits = committing.join().unwrap();
    println!("{commits} commits, {SNAPSHOTS} snapshots");
    assert!(commits * 2_048 > 9 << 20, "the journal was written over: {commits} commits");
    assert!(snapshots.take().is_err_and(|why| why.to_string().contains("the store was closed")));
}
