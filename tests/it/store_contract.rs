//! The guarantees of a store (S1 to S4 in `src/coordinator/store/mod.rs`), checked for every store with random batches
//! and a model; and how the embedded store handles files that have changed.
use crate::support::disk::{DATABASE, SimDisk};
use crate::support::model::{Model, writes};
use fastrand::Rng;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::store::{Embedded, FORMAT, Memory, OpenError, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BOOT: u64 = 7;
const NOW: Timestamp = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };

fn at(step: usize) -> Timestamp {
    NOW.after(Duration::from_millis(step as u64))
}

/// A time after every step of a test.
fn later() -> Timestamp {
    NOW.after(Duration::from_secs(3_600))
}

fn on(disk: &SimDisk) -> Result<Embedded, OpenError> {
    Embedded::on(Arc::new(disk.clone()), "a disk", BOOT)
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

/// Commits `steps` batches that an engine could make.
fn fill(store: &mut impl Store, model: &mut Model, random: &mut Rng, steps: std::ops::Range<usize>) {
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
    let disk = SimDisk::default();
    type Reopen<'a> = Box<dyn Fn() -> Box<dyn Store> + 'a>;
    let stores: [(&str, Reopen<'_>); 3] = [
        ("memory", Box::new(|| Box::new(Memory))),
        ("embedded in a directory", Box::new(|| Box::new(must_open(directory.path())))),
        ("embedded on a disk of the test", Box::new(|| Box::new(on(&disk).expect("the store is sound")))),
    ];
    for (name, reopen) in stores {
        let (mut random, mut model) = (Rng::with_seed(0x5eed_0003), Model::default());
        for round in 0..8 {
            let mut store = reopen();
            let loaded = store.load(later()).expect("it is sound");
            match store.keeps() {
                true => assert!(model.is(&loaded, later()), "S2: {name}, round {round}"),
                false => assert!(loaded.records.is_empty() && loaded.next_row == 0, "{name} must not keep anything"),
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

/// Such as a process that is ending, or a forked child that has not yet executed its program.
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

/// The server was killed. Otherwise a store that lost its only copies would look like an empty one.
#[test]
fn a_journal_whose_start_was_overwritten_is_refused() {
    let disk = SimDisk::default();
    let mut store = on(&disk).expect("a new disk");
    fill(&mut store, &mut Model::default(), &mut Rng::with_seed(0x5eed_000b), 0..80);
    let (killed, mut files) = (disk.copy(), disk.files());
    files.retain(|(name, _)| name != DATABASE && killed.written(name) > 0);
    assert!(!files.is_empty(), "some batches are in the journal");
    for (name, length) in files {
        for length in [4_096, length] {
            let damaged = killed.copy();
            damaged.damage(&name, |bytes| bytes[..length].fill(0xff));
            let loaded = on(&damaged).and_then(|mut store| store.load(later()));
            assert!(matches!(loaded, Err(OpenError::Corrupt(_))), "{length} bytes of {name}");
        }
    }
}

#[test]
fn a_file_that_is_gone_is_noticed_or_does_not_matter() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut random, mut model) = (Rng::with_seed(0x5eed_0009), Model::with_ballast(30_000));
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
            Ok(contents) => assert!(model.is(&contents, later()), "{name:?}"),
            Err(error) => assert!(error.to_string().contains("move it away"), "{name:?}: {error}"),
        }
    }
}

#[test]
fn a_foreign_file_is_refused_with_what_to_do_and_left_as_it_was() {
    let random_bytes: Vec<u8> = (0..20_000).scan(Rng::with_seed(0x5eed_000a), |r, _| Some(r.u8(..))).collect();
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
    assert_eq!(format, Some(FORMAT), "this test must read the place of the format");
    transaction.commit().expect("committed");
    drop(database);
    let refused = refusal(directory.path());
    assert!(matches!(refused, OpenError::Newer(_)), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("later pausewatch") && text.contains("--data-dir"), "{text}");
}
