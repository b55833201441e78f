//! Damaged files of the store: the state that is loaded is the acknowledged one, or the start is refused.
//!
//! An input is a byte that selects a store that was closed or one that was killed, then damages of 6 bytes: kind, file,
//! position (two bytes), and two parameters.
//!
//! - One damage of a sector is always detected or harmless. Several damages, or one of a whole block, may hit both
//!   copies of the last entries of a journal that was not moved to the database. They look like torn writes: the state
//!   may be that of some batches earlier. It is never a mixture.
use crate::support::disk::{DATABASE, SimDisk};
use crate::support::model::{Model, writes};
use fastrand::Rng;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::store::{Embedded, OpenError, Store};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const BOOT: u64 = 7;
const NOW: Timestamp = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };
const SECTOR: usize = 512;
const BLOCK: usize = 4_096;
/// The maximum number of damages in one input.
const MOST: usize = 8;

/// A store that was closed, a store that was killed, and their states after each batch.
struct Originals {
    closed: SimDisk,
    killed: SimDisk,
    states: Vec<Model>,
}

fn open(disk: &SimDisk) -> Result<Embedded, OpenError> {
    Embedded::on(Arc::new(disk.clone()), "a disk", BOOT)
}

fn originals() -> &'static Originals {
    static ORIGINALS: OnceLock<Originals> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let (disk, mut random) = (SimDisk::default(), Rng::with_seed(0x5eed_0020));
        let (mut model, mut states) = (Model::default(), vec![Model::default()]);
        let mut store = open(&disk).expect("a new disk");
        for step in 0..80 {
            let batch = model.random_batch(&mut random, NOW.after(Duration::from_millis(step)));
            store.commit(&writes(&batch)).expect("there is room");
            model.apply(&writes(&batch));
            states.push(model.clone());
            if step == 40 {
                drop(store);
                store = open(&disk).expect("it is sound");
            }
        }
        let killed = disk.copy();
        drop(store);
        Originals { closed: disk, killed, states }
    })
}

pub(super) fn check(input: &[u8]) {
    let Some((which, damages)) = input.split_first() else { return };
    let Originals { closed, killed, states } = originals();
    let was_closed = which % 2 == 0;
    let disk = if was_closed { closed.copy() } else { killed.copy() };
    let (mut told, mut is_small) = (Vec::new(), true);
    for damage in damages.chunks_exact(6).take(MOST) {
        let files = disk.files();
        let (name, length) = &files[usize::from(damage[1]) % files.len()];
        is_small &= told.is_empty() && usize::from(damage[0]) % HOW.len() < SMALL;
        let place = u16::from_be_bytes([damage[2], damage[3]]);
        let (how, change) = HOW[usize::from(damage[0]) % HOW.len()];
        let used = disk.written(name);
        // Usually a position with data: before the end, and half of the time near the start, where the headers are.
        let most = [used.min(BLOCK), used.min(2 * SECTOR), used, *length][usize::from(place % 4)].max(1);
        let at = usize::from(place) * most / 65_536;
        disk.damage(name, |bytes| change(bytes, at, [damage[4], damage[5]]));
        told.push(format!("{how} at {at} of {name} ({used} bytes used)"));
    }
    let what = format!("{} store: {told:?}", if was_closed { "closed" } else { "killed" });
    let later = NOW.after(Duration::from_secs(3_600));
    match open(&disk).and_then(|mut store| store.load(later)) {
        Ok(contents) => {
            let is = |model: &Model| model.is(&contents, later);
            let acknowledged = states.last().expect("there is one");
            let earlier = !is_small && !was_closed && states.iter().any(is);
            assert!(is(acknowledged) || earlier, "the loaded state never existed: {what}");
        }
        Err(OpenError::Corrupt(text) | OpenError::Newer(text)) => {
            assert!(text.contains("--data-dir") || text.contains("move it away"), "{what}: {text}");
        }
        Err(error) => panic!("{what}: {error:?}"),
    }
}

type Change = fn(&mut Vec<u8>, usize, [u8; 2]);

/// The damages; the first [`SMALL`] of them change one sector at most.
const HOW: [(&str, Change); 10] = [
    ("a bit flipped", |bytes, at, [with, _]| {
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (with % 8);
        }
    }),
    ("a byte set", |bytes, at, [with, _]| {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
    }),
    ("a sector filled", |bytes, at, [with, _]| piece(bytes, at, SECTOR).fill(with)),
    ("a sector of zeros", |bytes, at, _| piece(bytes, at, SECTOR).fill(0)),
    ("a number set to its most", |bytes, at, [with, _]| {
        let sector = piece(bytes, at, SECTOR);
        let (start, most) = (at % SECTOR, sector.len());
        sector[start.min(most)..(start + usize::from(with % 9)).min(most)].fill(0xff);
    }),
    ("a sector as another", |bytes, at, with| {
        let other = bytes.len() / SECTOR * usize::from(u16::from_be_bytes(with)) / 65_536 * SECTOR;
        let copy = piece(bytes, other, SECTOR).to_vec();
        let sector = piece(bytes, at, SECTOR);
        let length = sector.len().min(copy.len());
        sector[..length].copy_from_slice(&copy[..length]);
    }),
    ("a block of zeros", |bytes, at, _| piece(bytes, at, BLOCK).fill(0)),
    ("two blocks swapped", |bytes, at, with| {
        let blocks = bytes.len() / BLOCK;
        let (one, other) = (at / BLOCK, blocks * usize::from(u16::from_be_bytes(with)) / 65_536);
        if one < blocks && other < blocks {
            for i in 0..BLOCK {
                bytes.swap(one * BLOCK + i, other * BLOCK + i);
            }
        }
    }),
    ("the end cut off", |bytes, at, _| bytes.truncate(at)),
    ("zeros at the end", |bytes, _, [with, _]| bytes.resize(bytes.len() + BLOCK * usize::from(with % 4), 0)),
];
const SMALL: usize = 6;

/// The sector or block around `at`, as far as it exists.
fn piece(bytes: &mut [u8], at: usize, size: usize) -> &mut [u8] {
    let start = (at / size * size).min(bytes.len());
    let end = (start + size).min(bytes.len());
    &mut bytes[start..end]
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let originals = originals();
    let mut seeds = vec![vec![0], vec![1]];
    for (which, disk) in [(0, &originals.closed), (1, &originals.killed)] {
        for file in 0..disk.files().len() {
            for how in 0..HOW.len() {
                let part = |number: usize| u8::try_from(number).expect("there are few");
                seeds.push(vec![which, part(how), part(file), part(40 * how % 256), part(how), 1, 9]);
            }
        }
    }
    // Changed bits in the first entries of the journal that was being written.
    seeds.extend((0..32).flat_map(|i| [1, 2].map(|file| vec![1, 0, file, 8 * i, 1, i, 0])));
    assert!(originals.closed.files().iter().any(|(name, _)| name == DATABASE));
    seeds
}
