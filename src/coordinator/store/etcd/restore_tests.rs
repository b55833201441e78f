//! A restore into etcd: it is served completely or not at all, whatever is lost, late or written by others meanwhile.
use super::backup::FleetSnapshot;
use super::fake::{About, FakeEtcd, Fault, Machine};
use super::image::Image;
use super::join::{join, new_fleet};
use super::kv::Kv;
use super::record::{FleetRecord, Keys};
use super::restore::{RestoredFleet, write_image};
use super::standby::Standby;
use super::tests::{lead, put};
use super::wire::{RequestOp, TxnRequest};
use crate::coordinator::store::embedded::BackupWriter;
use crate::coordinator::store::ops::{self, FLOOR_KEY, Table};
use crate::coordinator::store::{Contents, OpenError, Write};
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{
    Elicitation, Header, Open, Pause, PauseEnd, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// The machine on which the backup is restored, and its clock at that time.
const HERE: u64 = 9;
const NOW: Timestamp = Timestamp { boot: 500 * SECOND, wall: 1_800_000_000 * SECOND };
/// The size of an entry in bytes: the backup has many entries.
const MOST: usize = 2_000;
const THREADS: u64 = 200;

fn keys() -> Keys {
    Keys::under("/p")
}

fn thread(name: &str) -> ThreadId {
    ThreadId::parse("", name).expect("valid")
}

/// A backup of a store whose times belong to the boot `boot_id`: `writes`, and the floor 7.
fn backup_of(writes: &[Write<'_>], boot_id: u64) -> Vec<u8> {
    let (mut encoded, mut backup) = (Vec::new(), Vec::new());
    ops::encode(writes, boot_id, &mut encoded);
    let mut changes = ops::decode([&encoded[..]]).expect("a batch");
    let floor = 7_u64.to_be_bytes();
    changes.insert((Table::Meta, FLOOR_KEY.as_bytes()), Some(&floor));
    let mut writer = BackupWriter::begin(3, &mut backup).expect("memory takes it");
    for ((table, key), value) in &changes {
        writer.put(*table, key, value.expect("no deletions")).expect("memory takes it");
    }
    writer.end().expect("memory takes it");
    backup
}

/// A backup of many threads.
fn many() -> Vec<u8> {
    let threads: Vec<_> = (0..THREADS).map(|number| thread(&format!("thread {number}"))).collect();
    let header = Header { revision: 3, pause: Pause { accrued: HOUR, since: None }, changed: NOW };
    backup_of(&threads.iter().map(|thread| Write::PutThread(thread, &header)).collect::<Vec<_>>(), HERE)
}

fn image(backup: &[u8], fleet: &FleetRecord) -> Image {
    Image::read(&mut &backup[..], (HERE, NOW), fleet.id, MOST).expect("it is a backup")
}

async fn restore<K: Kv>(kv: &K, backup: &[u8]) -> Result<RestoredFleet, OpenError> {
    let fleet = new_fleet().expect("there are random numbers");
    write_image(kv, &keys(), Machine::clock(HERE), fleet.clone(), image(backup, &fleet)).await
}

/// The state that the first leader loads.
async fn led(etcd: &FakeEtcd) -> Contents {
    let (chain, standby): (_, Standby) = lead(etcd, HERE).await;
    assert_eq!(chain.term, 1);
    standby.contents(chain.clock.now())
}

/// Asserts that it is all of [`many`].
fn is_whole(contents: &Contents, founded: RestoredFleet) {
    assert_eq!((contents.records.len() as u64, founded.summary.threads), (THREADS, THREADS));
    for record in &contents.records {
        assert_eq!((record.header.revision, record.header.pause.accrued), (founded.revision, Duration::ZERO));
    }
    assert_eq!(contents.floor, founded.revision);
}

/// The essential parts of a restored state: revisions, totals, leases, remembered calls, all by the clock of the fleet.
#[tokio::test(start_paused = true)]
async fn a_backup_is_restored_on_the_clock_of_the_new_fleet() {
    let (paused, running) = (thread("paused"), thread("running"));
    // A minute before the backup by its own clock, and nine minutes ago by the wall clock.
    for (boot_id, age) in [(HERE, 60 * SECOND), (4, 540 * SECOND)] {
        let then = Timestamp { boot: NOW.boot - 60 * SECOND, wall: NOW.wall - 540 * SECOND };
        let header = |since| Header { revision: 1 << 60, pause: Pause { accrued: HOUR, since }, changed: then };
        let (with, without) = (header(Some(then)), header(None));
        let elicitation = |id: u128| {
            let (reason, holder) = ("why".into(), "who".into());
            Arc::new(Elicitation { id: ElicitationId(id), reason, holder, created: then })
        };
        let open = |row: u64, lease: Option<Duration>| Open {
            elicitation: elicitation(row.into()),
            lease: lease.map(|length| (length, then.after(length))),
            anonymous: row == 2,
            row,
        };
        let opens = [open(2, None), open(3, Some(Duration::from_secs(30))), open(4, Some(24 * HOUR))];
        let closing = RememberedClosing { id: ElicitationId(9), how: PauseEnd::Released, at: then, row: 5 };
        let answer = RememberedAnswer { count: 1, revision: 8, opened: Some((ElicitationId(4), None)) };
        let (rpc, request_id) = (Rpc::Increment, "request".into());
        let request = RememberedRequest { rpc, request_id, fingerprint: 6, answer, at: then, row: 77 };
        let mut writes = vec![Write::PutThread(&paused, &with), Write::PutThread(&running, &without)];
        writes.extend(opens.iter().map(|open| Write::PutElicitation(&paused, open)));
        writes.extend([Write::PutClosing(&running, &closing), Write::PutRequest(&paused, &request)]);

        let etcd = FakeEtcd::default();
        let fleet = new_fleet().expect("there are random numbers");
        let image = Image::read(&mut &backup_of(&writes, boot_id)[..], (HERE, NOW), fleet.id, MOST).expect("a backup");
        // Above all earlier revisions, and all that may have been used since.
        assert_eq!(image.revision, (1 << 60) + 1);
        let revision = image.revision;
        write_image(&etcd, &keys(), Machine::clock(HERE), fleet.clone(), image).await.expect("it is founded");
        let loaded = super::load::load(&etcd, &keys()).await.expect("it is sound");
        let contents = loaded.contents(fleet.id, &keys()).expect("it is sound");
        assert_eq!((contents.epoch, contents.floor, contents.next_row), (fleet.id, revision, 78));
        let [paused, running] = &contents.records[..] else { panic!("{contents:?}") };
        let ago = Timestamp { boot: NOW.boot - age, wall: then.wall };
        assert_eq!(running.header, Header { revision, pause: Pause::default(), changed: ago });
        assert_eq!(paused.header.pause, Pause { accrued: Duration::ZERO, since: Some(ago) });
        assert!(paused.open.iter().all(|open| open.elicitation.created == ago));
        assert_eq!(paused.open.iter().map(|open| open.row).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(running.memory.last_closing(), Some(&RememberedClosing { at: ago, ..closing }));
        let known = paused.memory.request(Rpc::Increment, "request", NOW);
        assert_eq!(known.map(|known| (known.at, known.answer)), Some((ago, answer)));

        // Leases restart: the end of a lease of a day is stored, so that it ends however often the leader changes.
        let mut standby = loaded.standby(fleet.id, &keys()).expect("it is sound");
        standby.led_until = Some(NOW.after(12 * HOUR).boot);
        let contents = standby.contents(NOW.after(12 * HOUR));
        let paused = contents.records.iter().find(|record| record.thread.as_str() == "paused").expect("it is there");
        let ends: Vec<_> = paused.open.iter().map(|open| open.ends().map(|ends| ends.boot)).collect();
        let anew = NOW.after(12 * HOUR).boot + 30 * SECOND;
        assert_eq!(ends, [None, Some(anew), Some(NOW.after((24 + 8) * HOUR).boot)]);
    }
}

/// Each entry is below the limits of etcd, and each row is in one of them.
#[test]
fn a_backup_is_cut_into_entries_of_limited_size() {
    let backup = many();
    let fleet = new_fleet().expect("there are random numbers");
    for most in [1, 100, MOST, 1 << 20] {
        let image = Image::read(&mut &backup[..], (HERE, NOW), fleet.id, most).expect("it is a backup");
        let mut rows = 0;
        for entry in &image.entries {
            let changes = ops::decode([&entry.ops[..]]).expect("each is a batch");
            assert!(!entry.more && (entry.ops.len() <= most || changes.len() == 1), "{} bytes", entry.ops.len());
            rows += changes.len() as u64;
        }
        assert_eq!((rows, image.summary.rows), (THREADS + 1, THREADS + 1));
        let expected = match most {
            1 | 100 => THREADS as usize..=THREADS as usize + 1,
            MOST => 5..=20,
            _ => 1..=1,
        };
        assert!(expected.contains(&image.entries.len()), "{most}: {}", image.entries.len());
    }
}

#[test]
fn what_is_no_whole_backup_is_refused_before_anything_is_written() {
    let backup = many();
    let read = |bytes: &[u8]| Image::read(&mut &bytes[..], (HERE, NOW), 1, MOST).expect_err("refused").to_string();
    assert!(read(&backup[..backup.len() / 2]).contains("the backup was cut off. Nothing was changed"));
    assert!(read(b"something else, and long enough").contains("not a backup of pausewatch. Nothing was changed"));
    let lonely = Header { revision: 1, pause: Pause { accrued: HOUR, since: Some(NOW) }, changed: NOW };
    let contradictory = backup_of(&[Write::PutThread(&thread("t"), &lonely)], HERE);
    assert!(
        read(&contradictory)
            .contains("paused without elicitations, or not paused with some. Use another one. Nothing was changed")
    );
}

/// R3: whatever happens to its attempts, it writes everything, once.
#[tokio::test(start_paused = true)]
async fn a_restore_whose_attempts_are_lost_unanswered_or_late_is_made_once() {
    let backup = many();
    let all = restore_counted(&backup).await;
    assert!(all > 5, "{all} transactions");
    for fault in [Fault::Lost, Fault::Unanswered, Fault::Late] {
        let etcd = FakeEtcd::default();
        let writes = Arc::<AtomicUsize>::default();
        let (faulty, of) = (etcd.clone(), writes.clone());
        // Each transaction is attempted twice.
        let failing = move |about| {
            if about == About::Write && of.fetch_add(1, SeqCst) % 2 == 0 {
                faulty.faults([fault]);
            }
            std::future::ready(())
        };
        let founded = restore(&etcd.before(failing), &backup).await.expect("it is founded");
        assert!(!founded.removed, "{fault:?}");
        etcd.deliver();
        assert_eq!(etcd.value(&keys().restoring()), None);
        assert!(writes.load(SeqCst) > all + 2, "{fault:?}");
        is_whole(&led(&etcd).await, founded);
    }
}

/// The number of transactions of a restore.
async fn restore_counted(backup: &[u8]) -> usize {
    let writes = Arc::<AtomicUsize>::default();
    let of = writes.clone();
    let counting = move |about| {
        of.fetch_add(usize::from(about == About::Write), SeqCst);
        std::future::ready(())
    };
    restore(&FakeEtcd::default().before(counting), backup).await.expect("it is founded");
    writes.load(SeqCst)
}

/// A restore that is killed after each of its transactions: none of it is served, and the next one removes it.
#[tokio::test(start_paused = true)]
async fn a_restore_that_dies_is_not_served_and_the_next_one_begins_again() {
    let backup = many();
    let all = restore_counted(&backup).await;
    for survives in 1..all {
        let etcd = FakeEtcd::default();
        let writes = Arc::<AtomicUsize>::default();
        let dying = move |about| {
            let number = if about == About::Write { writes.fetch_add(1, SeqCst) } else { 0 };
            async move {
                if number >= survives {
                    std::future::pending().await
                }
            }
        };
        let kv = etcd.before(dying);
        let killed = tokio::time::timeout(Duration::from_secs(1), restore(&kv, &backup)).await;
        assert!(killed.is_err(), "it does not end");
        let refused = join(&etcd, &keys()).await.expect_err("nothing to serve").to_string();
        assert!(
            refused.contains("a restore is under way, or was not finished") && refused.contains("/p/"),
            "{refused}"
        );
        assert!(FleetSnapshot::of(&etcd, &keys()).await.is_err(), "an incomplete restore must not be backed up");
        assert_eq!(etcd.value(&keys().fleet()), None);
        let founded = restore(&etcd, &backup).await.expect("it is founded");
        assert!(founded.removed);
        is_whole(&led(&etcd).await, founded);
    }
}

/// R3: late writes of the first restore have no effect, and it reports an error.
#[tokio::test(start_paused = true)]
async fn of_two_restores_at_once_the_later_one_counts() {
    let backup = many();
    let all = restore_counted(&backup).await;
    for after in 1..all {
        let etcd = FakeEtcd::default();
        let writes = Arc::<AtomicUsize>::default();
        let (second, other) = (etcd.clone(), backup.clone());
        let overtaken = move |about| {
            let number = if about == About::Write { writes.fetch_add(1, SeqCst) } else { 0 };
            let (second, other) = (second.clone(), other.clone());
            async move {
                if number == after {
                    assert!(restore(&second, &other).await.expect("it is founded").removed);
                }
            }
        };
        let refused = restore(&etcd.before(overtaken), &backup).await.expect_err("it was replaced");
        assert!(refused.to_string().contains("another restore has begun"), "{refused}");
        assert_eq!(led(&etcd).await.records.len() as u64, THREADS, "after {after}");
    }
}

/// J1, in both orders: the first writer gets the prefix.
#[tokio::test(start_paused = true)]
async fn a_replica_that_starts_meanwhile_founds_no_fleet_of_its_own() {
    let backup = many();
    // The replica has read an empty prefix when the restore begins.
    let etcd = FakeEtcd::default();
    let restoring = etcd.clone();
    let overtaken = move |about| {
        let etcd = restoring.clone();
        async move {
            if about == About::Write {
                put(&etcd, keys().restoring(), b"a restore".to_vec()).await;
            }
        }
    };
    let refused = join(&etcd.before(overtaken), &keys()).await.expect_err("no fleet").to_string();
    assert!(refused.contains("a restore is under way"), "{refused}");
    assert_eq!(etcd.value(&keys().fleet()), None);
    // The restore has read an empty prefix when the replica founds a fleet.
    let etcd = FakeEtcd::default();
    let founding = etcd.clone();
    let overtaken = move |about| {
        let etcd = founding.clone();
        async move {
            if about == About::Write {
                join(&etcd, &keys()).await.expect("it is founded");
            }
        }
    };
    let refused = restore(&etcd.before(overtaken), &backup).await.expect_err("a fleet").to_string();
    assert!(refused.contains("there is a fleet already"), "{refused}");
    assert_eq!(led(&etcd).await.records.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_with_a_fleet_or_keys_of_others_is_left_as_it_is() {
    let etcd = FakeEtcd::default();
    join(&etcd, &keys()).await.expect("it is founded");
    let refused = restore(&etcd, &many()).await.expect_err("a fleet").to_string();
    for part in ["/p/", "there is a fleet already", "--etcd-prefix", "etcdctl del --prefix /p/"] {
        assert!(refused.contains(part), "{refused:?} does not say {part:?}");
    }
    let etcd = FakeEtcd::default();
    put(&etcd, b"/p/registry/pods".to_vec(), b"x".to_vec()).await;
    let refused = restore(&etcd, &many()).await.expect_err("keys of others").to_string();
    assert!(refused.contains("not of pausewatch"), "{refused}");
    assert_eq!(etcd.count(&keys().all()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restore_for_which_there_is_no_space_leaves_nothing() {
    let backup = many();
    let all = restore_counted(&backup).await;
    for full_at in 0..all {
        let etcd = FakeEtcd::default();
        let writes = Arc::<AtomicUsize>::default();
        let full = etcd.clone();
        let filling = move |about| {
            if about == About::Write && writes.fetch_add(1, SeqCst) == full_at {
                full.faults([Fault::Full]);
            }
            std::future::ready(())
        };
        let refused = restore(&etcd.before(filling), &backup).await.expect_err("no space").to_string();
        assert!(refused.contains("space exceeded") && refused.contains("Run it again"), "{refused}");
        assert_eq!(etcd.count(&keys().all()), 0, "full at {full_at}");
    }
    // If the keys of a restore are deleted meanwhile, no fleet is left either.
    let etcd = FakeEtcd::default();
    let (deleting, writes) = (etcd.clone(), Arc::<AtomicUsize>::default());
    let deleted = move |about| {
        let number = if about == About::Write { writes.fetch_add(1, SeqCst) } else { 0 };
        let etcd = deleting.clone();
        async move {
            if number == 3 {
                let all = keys().all();
                let success = vec![RequestOp::delete(all.key, all.range_end)];
                etcd.txn(TxnRequest { success, ..TxnRequest::default() }).await.expect("done");
            }
        }
    };
    let refused = restore(&etcd.before(deleted), &backup).await.expect_err("they are gone").to_string();
    assert!(refused.contains("the keys of this one were deleted"), "{refused}");
    assert_eq!(etcd.count(&keys().all()), 0);
}
