//! One process a directory (S3).
use super::file_names::LOCK;
use super::permissions;
use crate::coordinator::store::OpenError;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// A lock that is about to be given back is waited for: of a process that is ending, or of a child of this one that was
/// forked while the directory was open and has not yet become its program (flock(2): a lock is shared across fork).
const TRIES: u32 = 50;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// Locks the directory for this process. The lock ends with the returned file, however the process ends.
pub(super) fn take(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let failed = |error: io::Error| OpenError::Io(format!("lock {}: {error}", path.display()));
    let mut file =
        permissions::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    let mut locked = file.try_lock();
    for _ in 0..TRIES {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        sleep(TRY_EVERY);
        locked = file.try_lock();
    }
    match locked {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut file)),
    }
    // Only for the message above: a full disk must not keep the server from starting.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// Keeps others from opening the directory for as long as the file lives, without a change there. `None`: no process ever
/// had it open.
pub(super) fn look(directory: &Path) -> Result<Option<File>, OpenError> {
    let path = directory.join(LOCK);
    let failed = |error: io::Error| OpenError::Io(format!("lock {}: {error}", path.display()));
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
        Err(TryLockError::WouldBlock) => Err(in_use(directory, &mut file)),
    }
}

fn in_use(directory: &Path, lock: &mut File) -> OpenError {
    let mut holder = String::new();
    let _ = lock.read_to_string(&mut holder);
    OpenError::InUse(format!(
        "{}: another pausewatch has this data directory open (process {}). Stop it, or give another --data-dir",
        directory.display(),
        holder.trim()
    ))
}
