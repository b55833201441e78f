//! A simulated disk in memory whose power can fail, and that can be full or broken.
//!
//! - D1: at a power cut, data that was written but not synced is lost, kept or torn, each piece separately, in any
//!   combination; so is a change of length. A file that was being created exists by chance.
//! - D2: operations (writes, changes of length, syncs) are counted over all files and threads, so that a run can be cut
//!   at each of them.
//! - D3: after a failed sync, the disk treats the pending data as written, although it is dropped, as kernels do.
use fastrand::Rng;
use pausewatch::test_support::store::{Disk, RESERVE_BYTES};
use redb::StorageBackend;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The file name of the database.
pub(crate) const DATABASE: &str = "database";
/// The maximum duration of [`SimDisk::hang`].
const LONGEST_HANG: Duration = Duration::from_secs(60);
const SECTOR: usize = 512;
const BLOCK: u64 = 4_096;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What happens at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The power fails.
    Cut,
    /// From now on, there is no more free space.
    Full,
    /// A write or a change of length fails with EIO: the first one at or after the operation.
    WriteError,
    /// A sync fails with EIO: the first one at or after the operation.
    SyncError,
    /// A read fails with EIO; reads are the counted operations then.
    ReadError,
}

/// The unit in which a write is torn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tear {
    /// A sector of 512 bytes is old or new.
    Sectors,
    /// A sector may be old up to some byte and new from there, or the reverse.
    Bytes,
}

/// The disk. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<World>>, Arc<Condvar>);

#[derive(Default)]
struct World {
    files: BTreeMap<String, Content>,
    reserve: bool,
    operations: u64,
    reads: u64,
    fault: Option<(u64, Fault)>,
    off: bool,
    /// The maximum number of blocks.
    capacity: Option<u64>,
    low: bool,
    /// Overwriting takes new blocks.
    copies_on_write: bool,
    /// The syncs of the journal and the database after one that failed.
    syncs_after_failure: u64,
    /// Whether syncs of the database block.
    hangs: bool,
    /// Runs before the next read of the journal.
    meddle: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Default)]
struct Content {
    name_is_durable: bool,
    current: Vec<u8>,
    synced: Vec<u8>,
    pending: Vec<Pending>,
    blocks: BTreeSet<u64>,
    sync_failed: bool,
}

#[derive(Clone)]
enum Pending {
    Write(usize, Vec<u8>),
    Length(usize),
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

impl Pending {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Pending::Write(offset, data) => put(bytes, *offset, data),
            Pending::Length(length) => bytes.resize(*length, 0),
        }
    }

    /// Applies the part of the operation that reached the disk.
    fn apply_torn(&self, bytes: &mut Vec<u8>, rng: &mut Rng, tear: Tear) {
        let Pending::Write(offset, data) = self else { return self.apply(bytes) };
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at + SECTOR - (offset + at) % SECTOR);
            let (from, to) = match (rng.u8(..4), tear) {
                (0, _) => (at, at),
                (1, Tear::Bytes) => (at, rng.usize(at..end)),
                (2, Tear::Bytes) => (rng.usize(at..end), end),
                _ => (at, end),
            };
            if from < to {
                put(bytes, offset + from, &data[from..to]);
            }
            at = end;
        }
    }
}

impl World {
    fn used(&self) -> u64 {
        let reserve = if self.reserve { RESERVE_BYTES / BLOCK } else { 0 };
        reserve + self.files.values().map(|file| file.blocks.len() as u64).sum::<u64>()
    }

    /// Counts an operation, and returns the fault at it.
    fn operation(&mut self, is_sync: bool) -> io::Result<Option<Fault>> {
        if self.off {
            return Err(power_is_off());
        }
        self.operations += 1;
        let Some((_, fault)) = self.fault.filter(|(at, _)| self.operations >= *at) else { return Ok(None) };
        match fault {
            Fault::WriteError if is_sync => return Ok(None),
            Fault::SyncError if !is_sync => return Ok(None),
            Fault::ReadError => return Ok(None),
            Fault::Full => self.capacity = Some(self.used()),
            Fault::Cut => self.off = true,
            _ => {}
        }
        self.fault = None;
        Ok(Some(fault))
    }
}

impl World {
    /// Creates a file. Whether a cut comes before or after that is random, because the name is not durable yet.
    fn make(&mut self, name: &str, bytes: Vec<u8>, fault: Option<Fault>) -> io::Result<()> {
        let is_cut = fault == Some(Fault::Cut);
        self.files.insert(name.into(), Content { name_is_durable: !is_cut, ..Content::durable(bytes) });
        if is_cut { Err(power_is_off()) } else { Ok(()) }
    }
}

impl SimDisk {
    fn of(world: World) -> Self {
        SimDisk(Arc::new(Mutex::new(world)), Arc::default())
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Plans a fault at the operation after `after` others.
    pub(crate) fn plan(&self, after: u64, fault: Fault) {
        let mut world = self.world();
        let from = if fault == Fault::ReadError { world.reads } else { world.operations };
        world.fault = Some((from + after, fault));
    }

    pub(crate) fn operations(&self) -> u64 {
        self.world().operations
    }

    pub(crate) fn is_off(&self) -> bool {
        self.world().off
    }

    /// Whether the planned fault has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.world().fault.is_none()
    }

    /// Makes unlimited space.
    pub(crate) fn make_space(&self) {
        self.world().capacity = None;
    }

    /// From now on, a write needs free blocks also where the file has its own, as on a copy-on-write file system.
    pub(crate) fn copy_on_write(&self) {
        self.world().copies_on_write = true;
    }

    /// Reports little space, so that the journal keeps its present files.
    pub(crate) fn say_low(&self, low: bool) {
        self.world().low = low;
    }

    pub(crate) fn syncs_after_failure(&self) -> u64 {
        self.world().syncs_after_failure
    }

    /// With `hangs`, syncs of the database hang from now on, but not those of the journal. Without it, the hang ends.
    pub(crate) fn hang(&self, hangs: bool) {
        self.world().hangs = hangs;
        self.1.notify_all();
    }

    /// Whether a hang lasts. It ends by itself, so that a test of it fails instead of hanging.
    pub(crate) fn hangs(&self) -> bool {
        self.world().hangs
    }

    /// Runs `meddle` before the next read of the journal.
    pub(crate) fn meddle(&self, meddle: impl FnOnce() + Send + 'static) {
        self.world().meddle = Some(Box::new(meddle));
    }

    /// The disk after a power cut at this moment.
    pub(crate) fn cut(&self, rng: &mut Rng, tear: Tear) -> SimDisk {
        let mut old = self.world();
        old.off = true;
        let mut world = World { low: old.low, reserve: old.reserve && rng.bool(), ..World::default() };
        // All, nothing, each operation separately, or each sector separately.
        let how = rng.u8(..6);
        for (name, file) in &old.files {
            if !file.name_is_durable && rng.bool() {
                continue;
            }
            let mut bytes = file.synced.clone();
            for pending in &file.pending {
                match how {
                    0 => pending.apply(&mut bytes),
                    1 => {}
                    2 | 3 if rng.bool() => pending.apply(&mut bytes),
                    2 | 3 => {}
                    _ if rng.u8(..4) > 0 => pending.apply_torn(&mut bytes, rng, tear),
                    _ => {}
                }
            }
            world.files.insert(name.clone(), Content::durable(bytes));
        }
        SimDisk::of(world)
    }

    /// A copy of the disk with all written data.
    pub(crate) fn copy(&self) -> SimDisk {
        let old = self.world();
        let files = old.files.iter().map(|(name, file)| (name.clone(), Content::durable(file.current.clone())));
        SimDisk::of(World { files: files.collect(), reserve: old.reserve, ..World::default() })
    }

    /// The files and their lengths.
    pub(crate) fn files(&self) -> Vec<(String, usize)> {
        self.world().files.iter().map(|(name, file)| (name.clone(), file.current.len())).collect()
    }

    /// The length of the file `name` up to its last byte that is not zero.
    pub(crate) fn written(&self, name: &str) -> usize {
        let bytes = &self.world().files[name].current;
        bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count()
    }

    /// Changes stored data without counting an operation.
    pub(crate) fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world();
        let file = world.files.get_mut(name).unwrap();
        change(&mut file.current);
        file.synced = file.current.clone();
    }

    fn open(&self, name: String) -> io::Result<Box<dyn StorageBackend>> {
        let world = self.world();
        if world.off || !world.files.contains_key(&name) {
            return Err(if world.off { power_is_off() } else { io::ErrorKind::NotFound.into() });
        }
        Ok(Box::new(SimFile { disk: self.clone(), name }))
    }
}

impl Content {
    fn durable(bytes: Vec<u8>) -> Self {
        let blocks = (0..(bytes.len() as u64).div_ceil(BLOCK)).collect();
        Content { name_is_durable: true, current: bytes.clone(), synced: bytes, blocks, ..Content::default() }
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl Disk for SimDisk {
    fn has_database(&self) -> io::Result<bool> {
        Ok(self.world().files.contains_key(DATABASE))
    }

    fn draft(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.world().files.insert("draft".into(), Content::default());
        self.open("draft".into())
    }

    fn adopt_draft(&self) -> io::Result<()> {
        let mut world = self.world();
        let fault = world.operation(true)?;
        if fault == Some(Fault::SyncError) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let bytes = world.files.remove("draft").unwrap().current;
        world.make(DATABASE, bytes, fault)
    }

    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.open(DATABASE.into())
    }

    fn segment(&self, number: u64) -> io::Result<Box<dyn StorageBackend>> {
        self.open(format!("journal-{number}"))
    }

    fn has_segment(&self, number: u64) -> io::Result<bool> {
        let meddle = self.world().meddle.take();
        meddle.into_iter().for_each(|meddle| meddle());
        Ok(self.world().files.contains_key(&format!("journal-{number}")))
    }

    fn make_segment(&self, number: u64, zeros: u64) -> io::Result<()> {
        let mut world = self.world();
        let blocks = zeros / BLOCK;
        let fault = world.operation(true)?;
        if world.capacity.is_some_and(|capacity| world.used() + blocks > capacity) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if fault == Some(Fault::SyncError) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        world.make(&format!("journal-{number}"), vec![0; usize::try_from(zeros).unwrap()], fault)
    }

    fn is_low(&self) -> bool {
        let world = self.world();
        world.low || world.capacity.is_some_and(|capacity| (capacity.saturating_sub(world.used())) * BLOCK < 1 << 20)
    }

    fn release_reserve(&self) -> bool {
        std::mem::take(&mut self.world().reserve)
    }

    fn restore_reserve(&self) -> io::Result<()> {
        let mut world = self.world();
        let needed = world.used() + RESERVE_BYTES / BLOCK;
        if !world.reserve && world.capacity.is_some_and(|capacity| needed > capacity) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        world.reserve = true;
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    name: String,
}

impl SimFile {
    /// Writes or changes the length, as far as there is space.
    fn change(&self, change: Pending) -> io::Result<()> {
        let mut world = self.disk.world();
        let fault = world.operation(false)?;
        let (used, capacity) = (world.used(), world.capacity.unwrap_or(u64::MAX));
        let copies_on_write = world.copies_on_write;
        let file = world.files.get_mut(&self.name).unwrap();
        let mut done = Ok(());
        let change = match change {
            Pending::Write(offset, mut data) => {
                let mut left = capacity.saturating_sub(used);
                let end = offset + data.len();
                for block in offset as u64 / BLOCK..(end as u64).div_ceil(BLOCK) {
                    if file.blocks.contains(&block) && !copies_on_write {
                        continue;
                    }
                    if left == 0 {
                        data.truncate(usize::try_from(block * BLOCK).unwrap().saturating_sub(offset));
                        done = Err(io::Error::from_raw_os_error(ENOSPC));
                        break;
                    }
                    left -= 1;
                    file.blocks.insert(block);
                }
                Pending::Write(offset, data)
            }
            Pending::Length(length) => {
                file.blocks.retain(|block| *block < (length as u64).div_ceil(BLOCK));
                Pending::Length(length)
            }
        };
        if fault != Some(Fault::WriteError) {
            change.apply(&mut file.current);
            file.pending.push(change);
        }
        match fault {
            Some(Fault::Cut) => Err(power_is_off()),
            Some(Fault::WriteError) => Err(io::Error::from_raw_os_error(EIO)),
            _ => done,
        }
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl StorageBackend for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.world().files[&self.name].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut world = self.disk.world();
        if world.off {
            return Err(power_is_off());
        }
        world.reads += 1;
        if world.fault.is_some_and(|(at, fault)| fault == Fault::ReadError && world.reads >= at) {
            world.fault = None;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let from = usize::try_from(offset).unwrap();
        let bytes = world.files[&self.name].current.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Pending::Length(usize::try_from(length).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        if self.name == DATABASE && world.hangs {
            let waited = self.disk.1.wait_timeout_while(world, LONGEST_HANG, |world| world.hangs);
            world = waited.unwrap().0;
            world.hangs = false;
        }
        let fault = world.operation(true)?;
        let file = world.files.get_mut(&self.name).unwrap();
        if file.sync_failed {
            world.syncs_after_failure += 1;
            return Ok(());
        }
        match fault {
            Some(Fault::Cut) => Err(power_is_off()),
            Some(Fault::SyncError) => {
                file.sync_failed = true;
                file.pending.clear();
                Err(io::Error::from_raw_os_error(EIO))
            }
            _ => {
                let pending = std::mem::take(&mut file.pending);
                pending.iter().for_each(|change| change.apply(&mut file.synced));
                Ok(())
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Pending::Write(usize::try_from(offset).unwrap(), data.to_vec()))
    }
}
