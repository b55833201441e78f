//! The file under the database, with a reserve for the day the disk is full.
//!
//! A reserve file beside it holds blocks that nothing uses. When a write finds no space, the reserve is given up and
//! the write tried again: so the commit at hand succeeds, and from then on the store says that it is full. Increments
//! are refused, and the decrements that let everybody go on have room. When there is space for a reserve again, the
//! store is no longer full.
use redb::{StorageBackend, backends::FileBackend};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Size of the reserve. A decrement takes less than 1 KiB for good and a few pages for a moment.
pub const RESERVE_BYTES: u64 = 8 << 20;

/// Whether the disk is full, and whether an fsync has failed; shared with the store above the database.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) full: AtomicBool,
    pub(super) sync_failed: AtomicBool,
}

/// What the database reads and writes through: a file, or in tests one that loses, tears and refuses writes.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// The file, whose errors of kind `StorageFull` (and its like) say that there is no space.
    fn file(&self) -> &dyn StorageBackend;
    /// Frees the reserve. `false`: there was none.
    fn release_reserve(&self) -> bool;
    /// Makes the reserve, if it is not there.
    ///
    /// # Errors
    /// There is no space for it.
    fn restore_reserve(&self) -> io::Result<()>;
}

/// A file on a file system, and its reserve.
#[derive(Debug)]
pub(super) struct FileDisk {
    file: FileBackend,
    reserve: PathBuf,
}

impl FileDisk {
    pub(super) fn open(path: &Path, reserve: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(FileDisk { file, reserve })
    }
}

impl Disk for FileDisk {
    fn file(&self) -> &dyn StorageBackend {
        &self.file
    }

    fn release_reserve(&self) -> bool {
        std::fs::remove_file(&self.reserve).is_ok()
    }

    fn restore_reserve(&self) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.reserve)?;
        if file.metadata()?.len() == RESERVE_BYTES {
            return Ok(());
        }
        allocate(&file).inspect_err(|_| _ = std::fs::remove_file(&self.reserve))
    }
}

/// Gives `file` its blocks. Where the file system cannot set them aside, zeros are written.
fn allocate(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        done => return Ok(done?),
    }
    let mut file = file;
    io::copy(&mut io::Read::take(io::repeat(0), RESERVE_BYTES), &mut file).map(|_| ())
}

/// Whether `error` says that there is no space: on the disk, in the quota, or under the limit of a file's size.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A [`Disk`] as the database sees it: one on which a write does not fail for want of space while the reserve lasts.
pub(super) struct Guarded {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) health: Arc<Health>,
}

impl Guarded {
    fn with_reserve(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match write() {
            Err(error) if is_no_space(&error) => {
                self.health.full.store(true, Relaxed);
                match self.disk.release_reserve() {
                    true => write(),
                    false => Err(error),
                }
            }
            done => done,
        }
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarded").field(&self.disk).finish()
    }
}

impl StorageBackend for Guarded {
    fn len(&self) -> io::Result<u64> {
        self.disk.file().len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.file().read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(|| self.disk.file().set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.file().sync_data().inspect_err(|_| self.health.sync_failed.store(true, Relaxed))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(|| self.disk.file().write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.disk.file().close()
    }
}
