//! The embedded store on a disk that loses power, is damaged, is full, or fails: G5, and S1, S2 and S4 of the store.
//!
//! Random choices come from a seed, which a failure prints. `PAUSEWATCH_POWER_LOSS_SEED=N` runs only that seed,
//! `PAUSEWATCH_POWER_LOSS_ROUNDS=N` runs N others. The store has its own thread, so a seed determines the requests to
//! the store and where the disk fails, but not how the two threads interleave.
use crate::support::PATIENCE;
use crate::support::disk::{Fault, SimDisk, Tear};
use crate::support::model::{Change, Model, writes};
use fastrand::Rng;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::store::{CommitError, Contents, Embedded, OpenError, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time at which the store is loaded.
const NOW: Timestamp = Timestamp { boot: 1 << 50, wall: 1 << 60 };
/// The time at which it is written.
const BEFORE: Timestamp = Timestamp { boot: 1 << 40, wall: 1 << 50 };

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs `test` with `rounds` seeds.
fn with_seeds(rounds: u64, test: impl Fn(&mut Rng)) {
    struct Replay(u64);
    impl Drop for Replay {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("again: PAUSEWATCH_POWER_LOSS_SEED={}", self.0);
            }
        }
    }
    let seeds = match env("PAUSEWATCH_POWER_LOSS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("PAUSEWATCH_POWER_LOSS_ROUNDS").unwrap_or(rounds),
    };
    for seed in seeds {
        let _replay = Replay(seed);
        test(&mut Rng::with_seed(seed));
    }
}

fn open(disk: &SimDisk) -> Result<(Embedded, Contents), OpenError> {
    let mut store = Embedded::on(Arc::new(disk.clone()), "DIRECTORY", 1)?;
    let contents = store.load(NOW)?;
    Ok((store, contents))
}

/// The acknowledged state, and that state plus the batch that was in flight when the power failed.
struct Expected {
    acknowledged: Model,
    in_flight: Option<Model>,
}

impl Default for Expected {
    fn default() -> Self {
        // Batches of many sectors, so that the journal wraps around.
        Expected { acknowledged: Model::with_ballast(20_000), in_flight: None }
    }
}

impl Expected {
    /// Asserts that the store holds everything acknowledged, and the batch in flight either completely or not at all.
    fn settle(&mut self, found: &Contents) {
        if let Err(why) = self.acknowledged.compare(found, NOW) {
            let in_flight = self
                .in_flight
                .take()
                .unwrap_or_else(|| panic!("the store does not hold the acknowledged state: {why}"));
            let with_it = in_flight.compare(found, NOW);
            assert!(
                with_it.is_ok(),
                "the store holds neither the acknowledged state: {why}\nnor that plus the last batch: {with_it:?}"
            );
            self.acknowledged = in_flight;
        }
        self.in_flight = None;
    }

    fn try_commit(&mut self, store: &mut Embedded, batch: &[Change]) -> Result<(), CommitError> {
        store.begin();
        let done = store.commit(&writes(batch));
        let mut after = self.acknowledged.clone();
        after.apply(&writes(batch));
        match done {
            Ok(()) => self.acknowledged = after,
            Err(CommitError::Fatal(_)) => self.in_flight = Some(after),
            Err(_) => {}
        }
        done
    }

    /// Commits `batch`. `false`: the disk has failed.
    fn commit(&mut self, store: &mut Embedded, batch: &[Change]) -> bool {
        match self.try_commit(store, batch) {
            Ok(()) => true,
            Err(CommitError::Fatal(_)) => false,
            Err(error) => panic!("on a disk with space and without another process: {error}"),
        }
    }

    fn commit_some(&mut self, store: &mut Embedded, rng: &mut Rng) -> bool {
        let batch = self.acknowledged.random_batch(rng, BEFORE);
        self.commit(store, &batch)
    }

    fn commit_increments(&mut self, store: &mut Embedded, bytes: usize) -> bool {
        let batch = self.acknowledged.increments(bytes, BEFORE);
        self.commit(store, &batch)
    }

    /// A small batch: it fits into one sector with all its copies.
    fn commit_a_decrement(&mut self, store: &mut Embedded) -> bool {
        let batch = self.acknowledged.close_one(BEFORE).expect("something is open");
        self.commit(store, &batch)
    }

    /// Opens the store and changes it until the power fails.
    fn until_the_power_goes(&mut self, disk: &SimDisk, rng: &mut Rng) {
        let (mut store, found) = match open(disk) {
            Ok(opened) => opened,
            Err(error) => return assert!(disk.is_off(), "not opened after a power cut: {error}"),
        };
        self.settle(&found);
        while self.commit_some(&mut store, rng) {}
        assert!(disk.is_off(), "a commit has failed, with the power on");
    }
}

#[test]
fn g5_power_loss_keeps_what_was_acknowledged_and_no_half_batch() {
    with_seeds(12, |rng| {
        let mut disk = SimDisk::default();
        let mut expected = Expected::default();
        for _ in 0..10 {
            disk.say_low(rng.u8(..3) > 0);
            // Most power cuts come late in a run, some while the store is being opened.
            let after = if rng.u8(..4) == 0 { rng.u64(1..60) } else { rng.u64(60..700) };
            disk.plan(after, Fault::Cut);
            expected.until_the_power_goes(&disk, rng);
            let tear = if rng.bool() { Tear::Sectors } else { Tear::Bytes };
            disk = disk.cut(rng, tear);
        }
        let (_, found) = open(&disk).unwrap_or_else(|error| panic!("not opened after a power cut: {error}"));
        expected.settle(&found);
    });
}

#[test]
fn g5_power_loss_at_each_step_of_making_the_store_leaves_one_that_opens() {
    let whole = SimDisk::default();
    drop(open(&whole).unwrap());
    with_seeds(3, |rng| {
        for at in 1..=whole.operations() {
            // Twice: what was created before the first cut, and partly lost, is created again.
            let disk = SimDisk::default();
            disk.plan(at, Fault::Cut);
            assert!(open(&disk).is_err() || disk.is_off() || at == whole.operations());
            let disk = disk.cut(rng, Tear::Bytes);
            disk.plan(rng.u64(1..=whole.operations()), Fault::Cut);
            let _ = open(&disk);
            let disk = disk.cut(rng, Tear::Sectors);
            let (mut store, found) = open(&disk).unwrap_or_else(|error| panic!("cut at {at}: {error}"));
            let mut expected = Expected::default();
            expected.settle(&found);
            assert!(expected.commit_some(&mut store, rng));
            drop(store);
            expected.settle(&open(&disk).unwrap().1);
        }
    });
}

/// A store with some history, and its state: after a clean end, or after a power cut.
fn with_history(rng: &mut Rng, clean_end: bool) -> (SimDisk, Expected) {
    let disk = SimDisk::default();
    disk.say_low(true);
    let mut expected = Expected::default();
    let (mut store, _) = open(&disk).unwrap();
    for _ in 0..rng.usize(60..120) {
        assert!(expected.commit_some(&mut store, rng));
    }
    assert!(expected.commit_increments(&mut store, 1_000) && expected.commit_a_decrement(&mut store));
    let disk = match clean_end {
        true => {
            drop(store);
            disk.copy()
        }
        false => {
            if rng.bool() {
                disk.plan(1, Fault::Cut);
                assert!(!expected.commit_increments(&mut store, 3_000));
            }
            disk.cut(rng, Tear::Sectors)
        }
    };
    (disk, expected)
}

/// A position in a file of `length` bytes: half of them near its start, where the headers are.
fn place(rng: &mut Rng, length: usize) -> usize {
    let most = if rng.bool() { length.min(8_192) } else { length };
    rng.usize(..most)
}

#[test]
fn g5_damage_is_repaired_or_refused_and_never_accepted() {
    with_seeds(6, |rng| {
        let clean_end = rng.bool();
        let (intact, expected) = with_history(rng, clean_end);
        let mut in_use = intact.files();
        // After the entries there are only zeros or older entries: damage there rarely matters.
        in_use.iter_mut().for_each(|(name, length)| *length = intact.written(name).min(*length));
        for i in 0..36 {
            let (name, length) = &in_use[i % in_use.len()];
            if *length == 0 {
                continue;
            }
            let disk = intact.copy();
            let at = place(rng, *length);
            let how = rng.u8(..2);
            disk.damage(name, |bytes| match how {
                0 => bytes[at] ^= 1 << rng.u8(..8),
                _ => {
                    let sector = at / 512 * 512;
                    let end = bytes.len().min(sector + 512);
                    bytes[sector..end].fill(0);
                }
            });
            let what = format!("{name} of {length} bytes, damage {how} at {at}");
            match open(&disk) {
                Ok((_, found)) => {
                    let as_acknowledged = expected.acknowledged.compare(&found, NOW);
                    let with_the_last = expected.in_flight.as_ref().map(|model| model.compare(&found, NOW));
                    assert!(as_acknowledged.is_ok() || with_the_last == Some(Ok(())), "{what}: {as_acknowledged:?}");
                }
                Err(OpenError::Corrupt(text)) => assert!(text.contains("DIRECTORY"), "{what}: {text}"),
                Err(other) => panic!("{what}: {other:?}"),
            }
        }
    });
}

#[test]
fn g5_a_zeroed_sector_in_the_last_entry_loses_nothing() {
    with_seeds(3, |rng| {
        let disk = SimDisk::default();
        let (mut store, _) = open(&disk).unwrap();
        let mut expected = Expected::default();
        assert!(expected.commit_increments(&mut store, 3_000));
        assert!(expected.commit_a_decrement(&mut store));
        let crashed = disk.cut(rng, Tear::Sectors);
        for (name, _) in crashed.files().into_iter().filter(|(name, _)| name.starts_with("journal")) {
            for sector in 0..crashed.written(&name).div_ceil(512) {
                let disk = crashed.copy();
                disk.damage(&name, |bytes| bytes[512 * sector..512 * (sector + 1)].fill(0));
                let (_, found) = open(&disk).unwrap_or_else(|error| panic!("{name}, sector {sector}: {error}"));
                let whole = expected.acknowledged.compare(&found, NOW);
                assert!(whole.is_ok(), "{name}, sector {sector}: {whole:?}");
            }
        }
    });
}

#[test]
fn g5_a_lost_block_at_the_start_of_a_journal_file_is_noticed() {
    with_seeds(2, |rng| {
        let disk = SimDisk::default();
        // The journal keeps its first two files.
        disk.say_low(true);
        let starts = || {
            let (copy, mut starts) = (disk.copy(), Vec::new());
            for (name, _) in copy.files().into_iter().filter(|(name, _)| name.starts_with("journal-")) {
                copy.damage(&name, |bytes| starts.push((name.clone(), bytes[..512].to_vec())));
            }
            starts
        };
        let (mut store, _) = open(&disk).unwrap();
        let mut expected = Expected::default();
        // Both files begin with a large entry. Its second copy is beyond what the next entries overwrite.
        while starts().iter().any(|(_, start)| start.iter().all(|byte| *byte == 0)) {
            assert!(expected.commit_increments(&mut store, 60_000));
        }
        let before = starts();
        let reused = loop {
            assert!(expected.commit_increments(&mut store, 2_000));
            if let Some(changed) = starts().into_iter().find(|start| !before.contains(start)) {
                break changed.0;
            }
        };
        for _ in 0..3 {
            assert!(expected.commit_increments(&mut store, 2_000));
        }
        let crashed = disk.cut(rng, Tear::Sectors);
        expected.settle(&open(&crashed.copy()).unwrap().1);
        crashed.damage(&reused, |bytes| bytes[..8_192].fill(0));
        let opened = open(&crashed);
        assert!(
            matches!(opened, Err(OpenError::Corrupt(_))),
            "{reused} lost its first block, and the store was opened"
        );
    });
}

/// Commits small batches on a full disk, enough to fill the journal several times. Returns when all were accepted.
fn decrement_for_long(store: &mut Embedded, expected: &mut Expected, at: u64) {
    for i in 0..1_200 {
        let Some(batch) = expected.acknowledged.close_one(BEFORE) else { return };
        // The thread of checkpoints frees the space that decrements take up; on a busy machine, it may be late.
        let deadline = Instant::now() + PATIENCE;
        while let Err(refused) = expected.try_commit(store, &batch) {
            let is_late = Instant::now() >= deadline || matches!(refused, CommitError::Fatal(_));
            assert!(!is_late, "full from operation {at}, decrement {i}: {refused:?}");
            store.recover();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn g5_a_full_disk_takes_batches_whole_or_refuses_them_and_takes_decrements() {
    with_seeds(5, |rng| fill(rng, &SimDisk::default()));
}

#[test]
fn g5_so_does_a_full_disk_that_copies_what_is_overwritten() {
    with_seeds(5, |rng| {
        let disk = SimDisk::default();
        disk.copy_on_write();
        fill(rng, &disk);
    });
}

/// Fills the disk, continues on it, and makes space.
fn fill(rng: &mut Rng, disk: &SimDisk) {
    let (mut store, _) = open(disk).unwrap();
    let mut expected = Expected::default();
    let at = rng.u64(1..300);
    disk.plan(at, Fault::Full);
    let deadline = Instant::now() + PATIENCE;
    // Increments until the store has noticed the full disk; some are larger than a file of the journal.
    while !store.is_full() {
        let size = if rng.u8(..8) == 0 { 700_000 } else { 30_000 };
        let batch = expected.acknowledged.increments(size, BEFORE);
        let done = expected.try_commit(&mut store, &batch);
        assert!(matches!(done, Ok(()) | Err(CommitError::Refused(_))), "full from operation {at}: {done:?}");
        assert!(Instant::now() < deadline, "full from operation {at}, but the store has not noticed");
    }
    decrement_for_long(&mut store, &mut expected, at);
    expected.settle(&open(&disk.copy()).unwrap_or_else(|error| panic!("killed while full: {error}")).1);
    disk.make_space();
    while store.is_full() {
        store.recover();
        assert!(Instant::now() < deadline, "there is space again, and the store is still full");
        std::thread::yield_now();
    }
    for _ in 0..20 {
        assert!(expected.commit_increments(&mut store, 300_000));
    }
    drop(store);
    expected.settle(&open(disk).unwrap().1);
}

#[test]
fn g5_a_store_that_was_refused_everything_recovers_when_there_is_space() {
    let disk = SimDisk::default();
    let (mut store, _) = open(&disk).unwrap();
    let mut expected = Expected::default();
    // Without a reserve, the database takes up nothing more, and the journal fills up.
    disk.plan(1, Fault::Full);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let batch = expected.acknowledged.increments(60_000, BEFORE);
        match expected.try_commit(&mut store, &batch) {
            Ok(()) => {}
            Err(CommitError::Refused(_)) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < deadline, "the full disk still accepts all writes");
    }
    disk.make_space();
    while store.is_full() {
        store.recover();
        assert!(Instant::now() < deadline, "there is space again, and the store is still full");
        std::thread::yield_now();
    }
    assert!(expected.commit_increments(&mut store, 60_000));
    drop(store);
    expected.settle(&open(&disk).unwrap().1);
}

/// Commits until the disk fails at some operation. Returns the error of the store.
fn until_it_fails(disk: &SimDisk, expected: &mut Expected, rng: &mut Rng, fault: Fault) -> String {
    let (mut store, _) = open(disk).unwrap();
    disk.plan(rng.u64(1..600), fault);
    loop {
        let batch = expected.acknowledged.random_batch(rng, BEFORE);
        match expected.try_commit(&mut store, &batch) {
            Ok(()) => {}
            Err(CommitError::Fatal(why)) => {
                let again = store.commit(&writes(&expected.acknowledged.increments(1_000, BEFORE)));
                assert!(matches!(again, Err(CommitError::Fatal(_))), "{fault:?}: {why}, and then {again:?}");
                return why;
            }
            Err(error) => panic!("{fault:?}: {error}"),
        }
    }
}

#[test]
fn g5_an_io_error_is_fatal_and_a_failed_fsync_is_never_tried_again() {
    with_seeds(10, |rng| {
        let fault = if rng.bool() { Fault::WriteError } else { Fault::SyncError };
        let disk = SimDisk::default();
        disk.say_low(true);
        let mut expected = Expected::default();
        let why = until_it_fails(&disk, &mut expected, rng, fault);
        assert!(disk.has_failed(), "{why}");
        assert!(why.contains("DIRECTORY"), "{why}");
        assert_eq!(disk.syncs_after_failure(), 0, "{why}");
        let next = disk.cut(rng, Tear::Sectors);
        expected.settle(&open(&next).unwrap_or_else(|error| panic!("after {why}: {error}")).1);
    });
}

/// A run of a few batches in which the disk fails at each operation in turn. The journal is small, so that some of the
/// operations are those of the database.
#[test]
fn g5_an_io_error_at_each_operation_of_a_run_loses_nothing() {
    for fault in [Fault::WriteError, Fault::SyncError] {
        let mut failures = 0;
        for at in 1..=32 {
            let mut rng = Rng::with_seed(at);
            let disk = SimDisk::default();
            disk.say_low(true);
            let (mut store, _) = open(&disk).unwrap();
            disk.plan(at, fault);
            let mut expected = Expected::default();
            let mut step = 0;
            while step < 40 && expected.commit_increments(&mut store, 200_000) {
                step += 1;
            }
            failures += usize::from(expected.in_flight.is_some());
            assert_eq!(disk.syncs_after_failure(), 0, "{fault:?} at {at}");
            drop(store);
            let next = disk.cut(&mut rng, Tear::Sectors);
            expected.settle(&open(&next).unwrap_or_else(|error| panic!("{fault:?} at {at}: {error}")).1);
        }
        assert!(failures > 28, "{fault:?}: only {failures} of 32 runs reached the fault");
    }
}

/// A disk that fails while a store is opened does not mean a damaged store: the message must not advise to move it
/// away.
#[test]
fn g5_an_io_error_at_each_operation_of_opening_is_distinguished_from_damage() {
    with_seeds(4, |rng| {
        let clean_end = rng.bool();
        let (left, expected) = with_history(rng, clean_end);
        for fault in [Fault::ReadError, Fault::WriteError, Fault::SyncError] {
            for at in 1.. {
                let disk = left.copy();
                disk.plan(at, fault);
                let opened = open(&disk);
                if !disk.has_failed() {
                    assert!(at > 3 || fault != Fault::ReadError, "opening the store must read");
                    break;
                }
                if let Err(error) = opened {
                    assert!(matches!(error, OpenError::Io(_)), "{fault:?} at {at}: {error:?}");
                }
                let next = disk.cut(rng, Tear::Sectors);
                let (_, found) = open(&next).unwrap_or_else(|error| panic!("after {fault:?} at {at}: {error}"));
                let right = |model: &Model| model.compare(&found, NOW).is_ok();
                assert!(
                    right(&expected.acknowledged) || expected.in_flight.as_ref().is_some_and(right),
                    "{fault:?} at {at}"
                );
            }
        }
    });
}

/// S4: a store that has failed closes without further disk operations.
#[test]
fn g5_a_store_whose_fsync_has_failed_leaves_its_disk_alone() {
    for after in [1, 2, 3, 8, 60] {
        let (disk, mut expected, mut rng) = (SimDisk::default(), Expected::default(), Rng::with_seed(after));
        expected.acknowledged.ballast = 0;
        let (mut store, _) = open(&disk).unwrap();
        disk.plan(after, Fault::SyncError);
        while expected.commit_some(&mut store, &mut rng) {}
        let operations = disk.operations();
        drop(store);
        assert_eq!(disk.operations(), operations, "after {after} operations");
    }
}
