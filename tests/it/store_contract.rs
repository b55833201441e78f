//! What a store promises (S1 to S4 in `src/store/mod.rs`), held against every store, by random batches and a model of
//! them; and what the embedded store does with files that are not as it left them.
use crate::support::disk::{DATABASE, FakeDisk};
use crate::support::model::{Change, Model, writes};
use crate::support::{PATIENCE, Random};
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::store::{CommitError, Contents, Embedded, FORMAT, Memory, OpenError, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BOOT: u64 = 7;
const NOW: Timestamp = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };

fn at(step: usize) -> Timestamp {
    NOW.after(Duration::from_millis(step as u64))
}

/// After every step of a test.
fn later() -> Timestamp {
    NOW.after(Duration::from_secs(3_600))
}

fn on(disk: &FakeDisk) -> Result<Embedded, OpenError> {
    Embedded::on(Arc::new(disk.clone()), "a disk", BOOT)
}

fn load(disk: &FakeDisk) -> Result<Contents, OpenError> {
    on(disk)?.load(later())
}

fn must_open(directory: &Path) -> Embedded {
    Embedded::open(directory, BOOT).expect("the store is sound")
}

fn refusal(directory: &Path) -> OpenError {
    match Embedded::open(directory, BOOT).and_then(|mut store| store.load(later())) {
        Ok(contents) => panic!("it was opened, with {} threads", contents.records.len()),
        Err(error) => error,
    }
}

/// Commits what an engine could, `steps` times.
fn fill(store: &mut impl Store, model: &mut Model, random: &mut Random, steps: std::ops::Range<usize>) {
    for step in steps {
        let batch = model.random_batch(random, at(step));
        store.commit(&writes(&batch)).expect("there is room");
        model.apply(&writes(&batch));
    }
}

// Every store.

#[test]
fn a_store_gives_back_what_was_committed_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FakeDisk::default();
    type Reopen<'a> = Box<dyn Fn() -> Box<dyn Store> + 'a>;
    let stores: [(&str, Reopen<'_>); 3] = [
        ("memory", Box::new(|| Box::new(Memory))),
        ("embedded in a directory", Box::new(|| Box::new(must_open(directory.path())))),
        ("embedded on a disk of the test", Box::new(|| Box::new(on(&disk).expect("the store is sound")))),
    ];
    for (name, reopen) in stores {
        let (mut random, mut model) = (Random::new(0x5eed_0003), Model::default());
        for round in 0..8 {
            let mut store = reopen();
            let loaded = store.load(later()).expect("it is sound");
            match store.keeps() {
                true => assert!(model.is(loaded, later()), "S2: {name}, round {round}"),
                false => assert!(loaded.records.is_empty() && loaded.next_row == 0, "{name} keeps nothing"),
            }
            store.commit(&[]).expect("nothing is something to commit too");
            for step in 0..60 {
                let batch = model.random_batch(&mut random, at(100 * round + step));
                store.begin();
                assert!(!store.is_full(), "{name}");
                store.commit(&writes(&batch)).expect("there is room");
                model.apply(&writes(&batch));
            }
        }
    }
}

#[test]
fn a_new_store_is_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let contents = must_open(&directory.path().join("a/b")).load(NOW).expect("it is sound");
    assert_eq!((contents.records.len(), contents.floor, contents.next_row), (0, 0, 0));
}

// Power loss and kill -9.

/// G5, S1: at whatever moment the power goes, and whatever of the unsynced writes reaches the disk, every batch that was
/// acknowledged is there, and the one under way is there whole or not at all.
#[test]
fn every_acknowledged_batch_survives_a_power_loss_at_any_moment() {
    let seed = 0x5eed_0004;
    let mut random = Random::new(seed);
    let disk = FakeDisk::default();
    let mut store = on(&disk).expect("a new disk");
    // Large rows, so that the journal goes round and the database takes it up several times.
    let mut model = Model::with_ballast(60_000);
    let mut acknowledged = vec![(disk.history(), model.clone())];
    for step in 0..150 {
        let batch = model.random_batch(&mut random, at(step));
        store.commit(&writes(&batch)).expect("there is room");
        model.apply(&writes(&batch));
        acknowledged.push((disk.history(), model.clone()));
    }
    drop(store);
    let end = disk.history();
    for i in 0..40 {
        let moment = if i == 0 { end } else { random.below(end) };
        let left = disk.after_power_loss(moment, &mut random);
        let last = acknowledged.iter().rposition(|(history, _)| *history <= moment);
        let candidates = match last {
            Some(last) => &acknowledged[last..(last + 2).min(acknowledged.len())],
            None => &acknowledged[..1],
        };
        let which = || format!("seed {seed:#x}, cut {i} at {moment} of {end}, after batch {last:?}");
        let mut store = on(&left).unwrap_or_else(|error| panic!("{}: {error}", which()));
        let mut whole = |model: &&Model| store.load(later()).is_ok_and(|contents| model.is(contents, later()));
        let survived = candidates.iter().map(|(_, model)| model).find(|model| whole(model));
        let mut model = survived.unwrap_or_else(|| panic!("{}: not what was committed", which())).clone();
        // And the store goes on from there.
        if i % 6 == 0 {
            fill(&mut store, &mut model, &mut random, 1_000..1_010);
            drop(store);
            assert!(model.is(load(&left).expect("it is sound"), later()), "{}, gone on", which());
        }
    }
}

/// A creation that was cut off leaves a store that is empty, and no more than that.
#[test]
fn a_creation_that_is_interrupted_at_any_moment_leaves_an_empty_store() {
    let mut random = Random::new(0x5eed_000e);
    let disk = FakeDisk::default();
    let store = on(&disk).expect("a new disk");
    for moment in 0..=disk.history() {
        let left = disk.after_power_loss(moment, &mut random);
        let contents = load(&left).unwrap_or_else(|error| panic!("after {moment} steps: {error}"));
        assert!(Model::default().is(contents, later()), "after {moment} steps");
        let (mut store, mut model) = filled(&left, 0x5eed_000f);
        fill(&mut store, &mut model, &mut random, 100..110);
        drop(store);
        assert!(model.is(load(&left).expect("it is sound"), later()), "after {moment} steps, gone on");
    }
    drop(store);
}

// One process a store.

#[test]
fn a_store_that_is_open_is_refused_with_who_has_it_and_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = must_open(directory.path());
    let refused = refusal(directory.path());
    assert!(matches!(refused, OpenError::InUse(_)), "S3: {refused:?}");
    let text = refused.to_string();
    for part in [std::process::id().to_string().as_str(), "--data-dir", &directory.path().display().to_string()] {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    drop(store);
    must_open(directory.path());
}

/// As of a process that is ending, or a child that was forked and has not yet become its program.
#[test]
fn a_store_that_is_given_back_soon_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = must_open(directory.path());
    let giving_back = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(store);
    });
    must_open(directory.path());
    giving_back.join().expect("it does not panic");
}

// Files that are not as they were left.

/// A store with something in it, and its model.
fn filled(disk: &FakeDisk, seed: u64) -> (Embedded, Model) {
    let (mut random, mut model) = (Random::new(seed), Model::default());
    let mut store = on(disk).expect("a new disk");
    fill(&mut store, &mut model, &mut random, 0..80);
    (store, model)
}

fn assert_right_or_refused(disk: &FakeDisk, model: &Model, what: &str) -> bool {
    match load(disk) {
        Ok(contents) => {
            assert!(model.is(contents, later()), "S2: {what} was not noticed, and what was loaded is wrong");
            true
        }
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, OpenError::Corrupt(_) | OpenError::Newer(_)), "{what}: {error:?}");
            assert!(text.contains("--data-dir") || text.contains("move it away"), "{what}: {text}");
            false
        }
    }
}

/// S2: a bit that has flipped is noticed or does not matter, wherever it is. After a clean end and after kill -9.
#[test]
fn a_flipped_bit_is_noticed_or_does_not_matter() {
    let mut random = Random::new(0x5eed_0005);
    let disk = FakeDisk::default();
    let (store, model) = filled(&disk, 0x5eed_0006);
    let killed = disk.copy();
    drop(store);
    for (state, disk) in [("killed", killed), ("closed", disk)] {
        let mut noticed = 0;
        for name in disk.names() {
            let (used, header) = (disk.used(&name), if name == DATABASE { 320 } else { 64 });
            let near = (random.below(16)..header).step_by(16);
            let far: Vec<_> = (0..14).map(|_| random.below(used)).chain([used.saturating_sub(1), used + 9]).collect();
            for at in near.chain(far).filter(|at| *at < disk.length(&name)) {
                let (damaged, bit) = (disk.copy(), 1 << random.below(8));
                damaged.damage(&name, |bytes| bytes[at] ^= bit);
                let what = format!("bit {bit:#x} of byte {at} of {name}, {state}");
                noticed += usize::from(!assert_right_or_refused(&damaged, &model, &what));
            }
        }
        assert!(noticed > 0 || state == "killed", "some of these bytes matter");
    }
}

/// Of a server that was killed: else a store of which the only copies were lost would look like an empty one.
#[test]
fn a_journal_whose_start_was_overwritten_is_refused() {
    let disk = FakeDisk::default();
    let (_store, _) = filled(&disk, 0x5eed_000b);
    let names: Vec<_> = disk.names().into_iter().filter(|name| name != DATABASE && disk.used(name) > 0).collect();
    assert!(!names.is_empty(), "some batches are in the journal");
    for name in names {
        for length in [4_096, disk.length(&name)] {
            let damaged = disk.copy();
            damaged.damage(&name, |bytes| bytes[..length].fill(0xff));
            assert!(matches!(load(&damaged), Err(OpenError::Corrupt(_))), "{length} bytes of {name}");
        }
    }
}

#[test]
fn a_truncated_file_is_noticed_or_does_not_matter() {
    let mut random = Random::new(0x5eed_0007);
    let disk = FakeDisk::default();
    let (store, model) = filled(&disk, 0x5eed_0008);
    let killed = disk.copy();
    drop(store);
    for (state, disk) in [("killed", killed), ("closed", disk)] {
        for name in disk.names() {
            let length = disk.length(&name);
            let used = disk.used(&name);
            let cuts =
                [0, 1, 63, 64, 320, 4_096, used / 2, used.saturating_sub(1), length / 2, length - 4_096, length - 1];
            for cut in cuts.into_iter().chain((0..3).map(|_| random.below(length))) {
                let damaged = disk.copy();
                damaged.damage(&name, |bytes| bytes.truncate(cut));
                assert_right_or_refused(&damaged, &model, &format!("{name} cut to {cut} of {length} bytes, {state}"));
            }
        }
    }
}

#[test]
fn a_file_that_is_gone_is_noticed_or_does_not_matter() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut random, mut model) = (Random::new(0x5eed_0009), Model::with_ballast(30_000));
    let mut store = must_open(directory.path());
    fill(&mut store, &mut model, &mut random, 0..300);
    drop(store);
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).expect("there").map(|e| e.expect("there").file_name()).collect();
    for name in names {
        let copy = tempfile::tempdir().expect("a directory");
        for entry in std::fs::read_dir(directory.path()).expect("there").map(|entry| entry.expect("there")) {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
        }
        std::fs::remove_file(copy.path().join(&name)).expect("it was there");
        match Embedded::open(copy.path(), BOOT).and_then(|mut store| store.load(later())) {
            Ok(contents) => assert!(model.is(contents, later()), "{name:?}"),
            Err(error) => assert!(error.to_string().contains("move it away"), "{name:?}: {error}"),
        }
    }
}

#[test]
fn a_foreign_file_is_refused_with_what_to_do_and_left_as_it_was() {
    let random_bytes: Vec<u8> = (0..20_000).scan(Random::new(0x5eed_000a), |r, _| Some(r.next() as u8)).collect();
    for content in [b"SQLite format 3\0".repeat(600), b"redb".to_vec(), vec![0; 50_000], vec![7], random_bytes] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pausewatch.redb");
        std::fs::write(&path, &content).expect("written");
        let refused = refusal(directory.path());
        assert!(matches!(refused, OpenError::Corrupt(_)), "{refused:?}");
        assert!(refused.to_string().contains("move it away"), "{refused}");
        assert!(std::fs::read(&path).expect("it is there") == content, "it was written to");
    }
}

#[test]
fn a_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = redb::Database::create(directory.path().join("pausewatch.redb")).expect("created");
    let transaction = database.begin_write().expect("begun");
    let table = redb::TableDefinition::<&str, u64>::new("inventory");
    transaction.open_table(table).expect("opened").insert("spoons", 12).expect("inserted");
    transaction.commit().expect("committed");
    drop(database);
    let refused = refusal(directory.path());
    assert!(
        matches!(refused, OpenError::Corrupt(_)) && refused.to_string().contains("not of pausewatch"),
        "{refused:?}"
    );
}

#[test]
fn a_store_of_a_later_version_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(must_open(directory.path()));
    let database = redb::Database::open(directory.path().join("pausewatch.redb")).expect("it is there");
    let transaction = database.begin_write().expect("begun");
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let format = transaction
        .open_table(meta)
        .expect("there")
        .insert("pausewatch format", FORMAT + 1)
        .expect("put")
        .map(|f| f.value());
    assert_eq!(format, Some(FORMAT), "where the format is kept");
    transaction.commit().expect("committed");
    drop(database);
    let refused = refusal(directory.path());
    assert!(matches!(refused, OpenError::Newer(_)), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("later pausewatch") && text.contains("--data-dir"), "{text}");
}

// A disk that fills up, and one that breaks.

/// S1: a batch is refused whole or done whole. What lets everybody go on has room, and when there is space again the
/// store takes everything again.
#[test]
fn a_disk_that_runs_full_at_any_point_refuses_cleanly_and_recovers() {
    for space in (0..14).map(|i| 300 + 97 * i) {
        let disk = FakeDisk::default();
        let mut random = Random::new(0x5eed_000b + space);
        let mut model = Model::with_ballast(30_000);
        let mut store = on(&disk).expect("a new disk");
        fill(&mut store, &mut model, &mut random, 0..20);
        disk.leave_free(space);
        let commit = |store: &mut Embedded, model: &mut Model, batch: Vec<Change>| match store.commit(&writes(&batch)) {
            Ok(()) => {
                model.apply(&writes(&batch));
                true
            }
            Err(CommitError::Refused(_)) => false,
            Err(CommitError::Fatal(why) | CommitError::Deposed(why)) => panic!("a full disk is not the end: {why}"),
        };
        let mut step = 100;
        loop {
            store.begin();
            if store.is_full() {
                break;
            }
            let batch = model.random_batch(&mut random, at(step));
            commit(&mut store, &mut model, batch);
            step += 1;
            assert!(step < 5_000, "space for {space} blocks is enough for everything");
        }
        // As the engine does now: nothing is opened, and whatever is open is closed.
        while let Some(batch) = model.close_one(at(step)) {
            store.begin();
            assert!(store.is_full());
            assert!(commit(&mut store, &mut model, batch), "{space} blocks: a decrement has room");
            step += 1;
        }
        assert!(model.is(load(&disk.copy()).expect("it is sound"), later()), "{space} blocks, killed while it is full");
        disk.leave_free(1_000_000);
        let deadline = Instant::now() + PATIENCE;
        while store.is_full() {
            store.begin();
            store.recover();
            assert!(Instant::now() < deadline, "{space} blocks: it does not recover");
            std::thread::yield_now();
        }
        model.ballast = 0;
        fill(&mut store, &mut model, &mut random, 6_000..6_100);
        drop(store);
        assert!(model.is(load(&disk).expect("it is sound"), later()), "{space} blocks, at the end");
    }
}

/// S4: an fsync that fails is the end of this process's store; it is not tried again, and what is there afterwards is
/// all that was acknowledged, with the last batch whole or not at all.
#[test]
fn a_failed_fsync_is_fatal_and_is_not_tried_again() {
    let mut random = Random::new(0x5eed_000c);
    for syncs in [0, 1, 2, 5, 30] {
        let disk = FakeDisk::default();
        let (mut store, mut model) = filled(&disk, 0x5eed_000d);
        disk.fail_syncs_after(syncs);
        let failed = loop {
            let batch = model.random_batch(&mut random, at(1_000));
            if batch.is_empty() {
                continue;
            }
            match store.commit(&writes(&batch)) {
                Ok(()) => model.apply(&writes(&batch)),
                Err(CommitError::Fatal(why)) => {
                    assert!(why.contains("What is on the disk is unknown"), "{why}");
                    break batch;
                }
                Err(error) => panic!("{error:?}"),
            }
        };
        let asked = disk.syncs_after_failure();
        let again = model.random_batch(&mut random, at(1_001));
        assert!(matches!(store.commit(&writes(&again)), Err(CommitError::Fatal(_))), "nothing is taken any more");
        let history = disk.history();
        drop(store);
        assert_eq!((asked, disk.syncs_after_failure(), disk.history()), (1, 1, history), "the disk was left alone");
        let mut with_failed = model.clone();
        with_failed.apply(&writes(&failed));
        let left = disk.after_power_loss(disk.history(), &mut random);
        let is = |disk: &FakeDisk, model: &Model| model.is(load(disk).expect("it is sound"), later());
        assert!(is(&left.copy(), &model) || is(&left, &with_failed), "after {syncs} fsyncs");
    }
}
