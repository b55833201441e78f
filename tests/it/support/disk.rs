//! A disk in memory that does what disks do on bad days: loses and tears what was not synced, fills up, fails an fsync.
use super::Random;
use pausewatch::test_support::store::{Disk, RESERVE_BYTES};
use redb::StorageBackend;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

const BLOCK: u64 = 4_096;
const RESERVE: u64 = RESERVE_BYTES / BLOCK;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
/// How long [`FakeDisk::hang`] lasts at most.
const LONGEST_HANG: Duration = Duration::from_secs(60);
/// The name of the database among the files.
pub(crate) const DATABASE: &str = "database";

/// The disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeDisk(Arc<Mutex<Inner>>, Arc<Condvar>);

#[derive(Debug)]
struct Inner {
    files: BTreeMap<String, Vec<u8>>,
    /// Blocks that files have; a hole has none.
    blocks: BTreeSet<(String, u64)>,
    free: u64,
    has_reserve: bool,
    log: Vec<Op>,
    syncs_left: u64,
    /// fsyncs that were asked for after one had failed.
    syncs_after_failure: u64,
    /// fsyncs of the database do not come back.
    hangs: bool,
}

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Write(String, u64, Vec<u8>),
    SetLen(String, u64),
    Sync(String),
    /// Made whole and durable, with these contents.
    Make(String, Vec<u8>),
}

impl Default for Inner {
    fn default() -> Self {
        Inner {
            files: BTreeMap::new(),
            blocks: BTreeSet::new(),
            free: u64::MAX / 2,
            has_reserve: false,
            log: Vec::new(),
            syncs_left: u64::MAX,
            syncs_after_failure: 0,
            hangs: false,
        }
    }
}

impl Inner {
    fn make(&mut self, name: String, contents: Vec<u8>) {
        self.log.push(Op::Make(name.clone(), contents.clone()));
        self.files.insert(name, contents);
    }
}

#[derive(Debug)]
struct File {
    disk: FakeDisk,
    name: String,
}

impl FakeDisk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic while locked")
    }

    /// A disk with these files.
    fn with(files: BTreeMap<String, Vec<u8>>) -> Self {
        let disk = FakeDisk::default();
        disk.lock().files = files;
        disk
    }

    /// What there is now, on a disk of its own: as after kill -9.
    pub(crate) fn copy(&self) -> Self {
        Self::with(self.lock().files.clone())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().files.keys().cloned().collect()
    }

    /// Changes a file behind the back of the store.
    pub(crate) fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        damage(self.lock().files.get_mut(name).expect("there is such a file"));
    }

    pub(crate) fn length(&self, name: &str) -> usize {
        self.lock().files[name].len()
    }

    /// Where a file has anything but zeros.
    pub(crate) fn used(&self, name: &str) -> usize {
        self.lock().files[name].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    /// From now on there is room for so many blocks.
    pub(crate) fn leave_free(&self, blocks: u64) {
        self.lock().free = blocks;
    }

    /// The fsync after `more` ones fails, and so do all that follow.
    pub(crate) fn fail_syncs_after(&self, more: u64) {
        self.lock().syncs_left = more;
    }

    /// fsyncs of the database hang from now on, those of the journal do not; or they come back again.
    pub(crate) fn hang(&self, hangs: bool) {
        self.lock().hangs = hangs;
        self.1.notify_all();
    }

    /// Whether a hang lasts. It ends by itself, so that a test of it fails instead of hanging too.
    pub(crate) fn hangs(&self) -> bool {
        self.lock().hangs
    }

    pub(crate) fn syncs_after_failure(&self) -> u64 {
        self.lock().syncs_after_failure
    }

    /// How much has happened: a place in the history, for [`FakeDisk::after_power_loss`].
    pub(crate) fn history(&self) -> usize {
        self.lock().log.len()
    }

    /// What a power loss at `moment` of the history leaves: all that was synced, and any part of the rest.
    pub(crate) fn after_power_loss(&self, moment: usize, random: &mut Random) -> Self {
        let inner = self.lock();
        let log = &inner.log[..moment];
        let mut files = BTreeMap::new();
        // The names of a directory are synced with it, which is when a file was made.
        let synced_names = log.iter().rposition(|op| matches!(op, Op::Make(..))).unwrap_or(0);
        for (at, op) in log.iter().enumerate() {
            match op {
                Op::Create(name) if at < synced_names || random.below(2) == 0 => {
                    files.insert(name.clone(), Vec::new());
                }
                Op::Make(name, contents) => _ = files.insert(name.clone(), contents.clone()),
                _ => {}
            }
        }
        for (name, bytes) in &mut files {
            let synced = log.iter().rposition(|op| matches!(op, Op::Sync(of) if of == name)).unwrap_or(0);
            for (at, op) in log.iter().enumerate() {
                match op {
                    Op::Write(of, offset, data) if of == name => {
                        let start = *offset as usize;
                        for (i, sector) in data.chunks(SECTOR).enumerate() {
                            if at < synced || random.below(2) == 0 {
                                put(bytes, start + i * SECTOR, sector);
                            }
                        }
                    }
                    Op::SetLen(of, length) if of == name && (at < synced || random.below(2) == 0) => {
                        bytes.resize(*length as usize, 0);
                    }
                    _ => {}
                }
            }
        }
        Self::with(files)
    }

    fn open(&self, name: String) -> Box<dyn StorageBackend> {
        let mut inner = self.lock();
        if !inner.files.contains_key(&name) {
            inner.files.insert(name.clone(), Vec::new());
            inner.log.push(Op::Create(name.clone()));
        }
        Box::new(File { disk: self.clone(), name })
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

impl Disk for FakeDisk {
    fn has_database(&self) -> io::Result<bool> {
        Ok(self.lock().files.contains_key(DATABASE))
    }

    fn draft(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.lock().files.remove("draft");
        Ok(self.open("draft".into()))
    }

    fn adopt_draft(&self) -> io::Result<()> {
        let mut inner = self.lock();
        let contents = inner.files.remove("draft").ok_or(io::ErrorKind::NotFound)?;
        inner.make(DATABASE.into(), contents);
        Ok(())
    }

    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(self.open(DATABASE.into()))
    }

    fn segment(&self, number: u64) -> io::Result<Box<dyn StorageBackend>> {
        Ok(self.open(format!("journal-{number}")))
    }

    fn make_segment(&self, number: u64, zeros: u64) -> io::Result<()> {
        let (name, mut inner) = (format!("journal-{number}"), self.lock());
        let wanted = zeros.div_ceil(BLOCK);
        inner.free = inner.free.checked_sub(wanted).ok_or(io::ErrorKind::StorageFull)?;
        inner.blocks.extend((0..wanted).map(|block| (name.clone(), block)));
        inner.make(name, vec![0; zeros as usize]);
        Ok(())
    }

    fn has_segment(&self, number: u64) -> io::Result<bool> {
        Ok(self.lock().files.contains_key(&format!("journal-{number}")))
    }

    fn is_low(&self) -> bool {
        self.lock().free < RESERVE
    }

    fn release_reserve(&self) -> bool {
        let mut inner = self.lock();
        inner.free += if inner.has_reserve { RESERVE } else { 0 };
        std::mem::take(&mut inner.has_reserve)
    }

    fn restore_reserve(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if !inner.has_reserve {
            inner.free = inner.free.checked_sub(RESERVE).ok_or(io::ErrorKind::StorageFull)?;
            inner.has_reserve = true;
        }
        Ok(())
    }
}

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[&self.name].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.disk.lock();
        let from = inner.files[&self.name].get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.lock();
        let before = inner.blocks.len();
        inner.blocks.retain(|(name, block)| *name != self.name || block * BLOCK < len);
        inner.free += (before - inner.blocks.len()) as u64;
        inner.log.push(Op::SetLen(self.name.clone(), len));
        inner.files.get_mut(&self.name).expect("it was opened").resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        if self.name == DATABASE && inner.hangs {
            let waited = self.disk.1.wait_timeout_while(inner, LONGEST_HANG, |inner| inner.hangs);
            inner = waited.expect("no panic while locked").0;
            inner.hangs = false;
        }
        match inner.syncs_left.checked_sub(1) {
            Some(left) => inner.syncs_left = left,
            None => {
                inner.syncs_after_failure += 1;
                return Err(io::Error::other("injected: the disk is broken"));
            }
        }
        inner.log.push(Op::Sync(self.name.clone()));
        Ok(())
    }

    /// A write that needs blocks which are not there fails, and writes nothing.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        let touched = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
        let wanted: Vec<_> =
            touched.map(|block| (self.name.clone(), block)).filter(|block| !inner.blocks.contains(block)).collect();
        inner.free = inner.free.checked_sub(wanted.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        inner.blocks.extend(wanted);
        inner.log.push(Op::Write(self.name.clone(), offset, data.to_vec()));
        put(inner.files.get_mut(&self.name).expect("it was opened"), offset as usize, data);
        Ok(())
    }
}
