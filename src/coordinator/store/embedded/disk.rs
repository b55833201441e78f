//! The file of the database, and a reserve of disk space.
//!
//! The reserve is a file with unused blocks. When a write finds no space, the reserve is freed and the write is
//! repeated: the current commit succeeds, and from then on the store reports that it is full. Increments are refused,
//! and decrements, which let commands continue, still have space. When there is space for a reserve again, the store is
//! no longer full.
use super::file_names::{DATABASE, DATABASE_DRAFT, RESERVE, SEGMENT, SEGMENT_DRAFT};
use super::permissions;
use redb::{StorageBackend, backends::FileBackend};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The size of the reserve: what the database needs to apply a journal full of increments (4 MiB without the second
/// copies, twice that in pages), so that there is still space for decrements afterwards.
pub const RESERVE_BYTES: u64 = 8 << 20;
/// A disk with less free space than this, in bytes, counts as full.
const LOW_BYTES: u64 = 1 << 20;

/// The state of the disk, shared by all its users.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) full: AtomicBool,
    /// The disk has failed: the store writes nothing to it any more.
    pub(super) broken: AtomicBool,
    /// The first error of the database's file that is not about its content. Because of this error, later errors of the
    /// database may look like damage.
    pub(super) failure: OnceLock<String>,
}

/// The storage under the store: files, or in tests a disk that loses, tears and refuses writes.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Whether there is a database.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn has_database(&self) -> io::Result<bool>;
    /// The file of the database. Errors of kind `StorageFull` and similar ones mean that there is no space.
    ///
    /// # Errors
    /// It cannot be opened.
    fn database(&self) -> io::Result<Box<dyn StorageBackend>>;
    /// An empty file for a new database.
    ///
    /// # Errors
    /// It cannot be created.
    fn draft(&self) -> io::Result<Box<dyn StorageBackend>>;
    /// Makes the draft the database, atomically and durably.
    ///
    /// # Errors
    /// The draft may not be the database.
    fn adopt_draft(&self) -> io::Result<()>;
    /// File `number` of the journal.
    ///
    /// # Errors
    /// It cannot be opened.
    fn segment(&self, number: u64) -> io::Result<Box<dyn StorageBackend>>;
    /// Creates file `number` of the journal with `zeros` zeros, atomically and durably.
    ///
    /// # Errors
    /// It cannot be created.
    fn make_segment(&self, number: u64, zeros: u64) -> io::Result<()>;
    /// Whether there is such a file.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn has_segment(&self, number: u64) -> io::Result<bool>;
    /// Whether the disk is nearly full.
    fn is_low(&self) -> bool;
    /// Frees the reserve. `false`: there was none.
    fn release_reserve(&self) -> bool;
    /// Creates the reserve, if it does not exist.
    ///
    /// # Errors
    /// There is no space for it.
    fn restore_reserve(&self) -> io::Result<()>;
}

/// Creates the directory `path`, which only its owner can access, and its missing parents. This is durable, because a
/// store without its directory is lost.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    create(path, permissions::make_directory)
}

fn create(path: &Path, make: fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        // A process that ended early may have created the directory without this fsync. A process that cannot open the
        // parent has not created the directory, so an error does not matter.
        let _ = File::open(parent).and_then(|parent| parent.sync_all());
        return Ok(());
    }
    create(parent, |path| std::fs::create_dir(path))?;
    match make(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) if !path.is_dir() => {
            return Err(io::Error::other(format!("{} is not a directory; name another one", path.display())));
        }
        _ => {}
    }
    File::open(parent)?.sync_all()
}

/// The files in a directory.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn new(path: &Path) -> Self {
        let directory = Directory { path: path.to_owned() };
        // Drafts were left by a process that ended while it created a file.
        for draft in [DATABASE_DRAFT, SEGMENT_DRAFT] {
            let _ = std::fs::remove_file(directory.path.join(draft));
        }
        directory
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        let file = permissions::options().read(true).write(true).open(self.path.join(name))?;
        Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
    }

    fn empty(&self, name: &str) -> io::Result<File> {
        permissions::options().write(true).create(true).truncate(true).open(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl Disk for Directory {
    fn has_database(&self) -> io::Result<bool> {
        self.path.join(DATABASE).try_exists()
    }

    fn database(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.open(DATABASE)
    }

    fn draft(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.empty(DATABASE_DRAFT)?;
        self.open(DATABASE_DRAFT)
    }

    fn adopt_draft(&self) -> io::Result<()> {
        let draft = self.path.join(DATABASE_DRAFT);
        File::open(&draft)?.sync_all()?;
        std::fs::rename(&draft, self.path.join(DATABASE))?;
        self.sync()
    }

    fn segment(&self, number: u64) -> io::Result<Box<dyn StorageBackend>> {
        self.open(&format!("{SEGMENT}{number}"))
    }

    fn has_segment(&self, number: u64) -> io::Result<bool> {
        self.path.join(format!("{SEGMENT}{number}")).try_exists()
    }

    fn make_segment(&self, number: u64, zeros: u64) -> io::Result<()> {
        let draft = self.path.join(SEGMENT_DRAFT);
        let make = || {
            let mut file = self.empty(SEGMENT_DRAFT)?;
            io::copy(&mut io::Read::take(io::repeat(0), zeros), &mut file)?;
            file.sync_all()?;
            std::fs::rename(&draft, self.path.join(format!("{SEGMENT}{number}")))?;
            self.sync()
        };
        make().inspect_err(|_| _ = std::fs::remove_file(&draft))
    }

    fn is_low(&self) -> bool {
        let space = rustix::fs::statvfs(&self.path);
        space.is_ok_and(|space| space.f_blocks > 0 && space.f_bavail.saturating_mul(space.f_frsize) < LOW_BYTES)
    }

    fn release_reserve(&self) -> bool {
        std::fs::remove_file(self.path.join(RESERVE)).is_ok()
    }

    fn restore_reserve(&self) -> io::Result<()> {
        let path = self.path.join(RESERVE);
        // Nothing of the store is one. If it stayed, the disk would count as full.
        if path.is_symlink() {
            std::fs::remove_file(&path)?;
        }
        let file = permissions::options().write(true).create(true).truncate(false).open(&path)?;
        if file.metadata()?.len() == RESERVE_BYTES {
            return Ok(());
        }
        allocate(&file).inspect_err(|_| _ = std::fs::remove_file(&path))
    }
}

/// Allocates the blocks of `file`. If the file system cannot allocate them, zeros are written.
fn allocate(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        done => return Ok(done?),
    }
    let mut file = file;
    io::copy(&mut io::Read::take(io::repeat(0), RESERVE_BYTES), &mut file).map(|_| ())
}

/// Whether `error` means that the process, or the system, cannot open more files.
pub(super) fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether `error` means that there is no space: on the disk, in the quota, or below the maximum file size.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Makes the writes to `file` durable. An error is never reported as a lack of space: the written data is lost then,
/// and a retry would only seem to succeed (S4).
pub(super) fn durable(file: &dyn StorageBackend) -> io::Result<()> {
    file.sync_data().map_err(|error| io::Error::other(format!("fsync: {error}")))
}

/// The file of the database: a write does not fail for lack of space while the reserve lasts.
pub(super) struct ReservedSpaceFile {
    pub(super) file: Box<dyn StorageBackend>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) health: Arc<Health>,
}

impl ReservedSpaceFile {
    fn alive(&self) -> io::Result<()> {
        match self.health.broken.load(Relaxed) {
            true => Err(io::Error::other("the disk has failed before")),
            false => Ok(()),
        }
    }

    /// Records the error, if it means that the disk has failed.
    fn noted<T>(&self, done: io::Result<T>) -> io::Result<T> {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        done.inspect_err(|error| {
            if !is_no_space(error) && !matches!(error.kind(), InvalidData | UnexpectedEof) {
                let _ = self.health.failure.set(error.to_string());
            }
        })
    }

    fn with_reserve(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        self.alive()?;
        match write() {
            Err(error) if is_no_space(&error) => {
                self.health.full.store(true, Relaxed);
                match self.disk.release_reserve() {
                    true => self.noted(write()),
                    false => Err(error),
                }
            }
            done => self.noted(done),
        }
    }
}

impl fmt::Debug for ReservedSpaceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReservedSpaceFile").field(&self.file).finish()
    }
}

impl StorageBackend for ReservedSpaceFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.noted(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.alive()?;
        self.noted(durable(&*self.file))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
