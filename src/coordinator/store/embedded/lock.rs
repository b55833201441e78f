//! One process a directory (S3).
//!
//! The file `lock` is locked, and says which process has the store. The directory is locked too, because people delete the file, as if an ended
//! process had left it: two servers would write to one store.
use super::file_names::LOCK;
use super::permissions;
use crate::coordinator::store::OpenError;
use rustix::fs::OFlags;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// A lock that is about to be given back is waited for: of a process that is ending, or of a child of this one that was
/// forked while the directory was open and has not yet become its program (flock(2): a lock is shared across fork).
const TRIES: u32 = 50;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A locked directory, until this is dropped or the process ends.
pub(super) struct Lock {
    _files: (Option<File>, File),
}

/// Locks the directory for this process.
pub(super) fn take(directory: &Path) -> Result<Lock, OpenError> {
    let path = directory.join(LOCK);
    let failed = |error: io::Error| OpenError::Io(format!("lock {}: {error}", path.display()));
    let mut options = permissions::options();
    // Root may be here, in a directory of another user: a link in place of the file would have it write elsewhere.
    options.read(true).write(true).create(true).truncate(false).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(&path).map_err(failed)?;
    let of_directory = File::open(directory).map_err(failed)?;
    let try_both = || file.try_lock().and_then(|()| lock_directory(&of_directory, File::try_lock));
    let mut locked = try_both();
    for _ in 0..TRIES {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        sleep(TRY_EVERY);
        locked = try_both();
    }
    locked.map_err(|error| refused(error, directory))?;
    // Only for the message: a full disk must not keep the server from starting.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock { _files: (Some(file), of_directory) })
}

/// Keeps others from opening the directory for as long as the lock lives, without a change there.
pub(super) fn look(directory: &Path) -> Result<Lock, OpenError> {
    let open =
        |path: &Path| File::open(path).map_err(|error| OpenError::Io(format!("lock {}: {error}", path.display())));
    let of_directory = open(directory)?;
    // No process ever had the store open, if there is no such file, or somebody has deleted it.
    let path = directory.join(LOCK);
    let file = if path.exists() { Some(open(&path)?) } else { None };
    let locked = file.as_ref().map_or(Ok(()), File::try_lock_shared);
    let locked = locked.and_then(|()| lock_directory(&of_directory, File::try_lock_shared));
    locked.map_err(|error| refused(error, directory))?;
    Ok(Lock { _files: (file, of_directory) })
}

/// Not every file system can lock a directory, such as NFS.
fn lock_directory(directory: &File, lock: fn(&File) -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    match lock(directory) {
        Err(TryLockError::Error(_)) => Ok(()),
        locked => locked,
    }
}

fn refused(error: TryLockError, directory: &Path) -> OpenError {
    let path = directory.join(LOCK);
    match error {
        TryLockError::Error(error) => OpenError::Io(format!("lock {}: {error}", path.display())),
        TryLockError::WouldBlock => OpenError::InUse(format!(
            "{}: another pausewatch has this data directory open (process {}). Stop it, or give another --data-dir",
            directory.display(),
            fs::read_to_string(path).ok().filter(|holder| !holder.is_empty()).as_deref().unwrap_or("unknown").trim()
        )),
    }
}
