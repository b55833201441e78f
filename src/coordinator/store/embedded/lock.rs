//! Only one process uses a directory at a time (S3).
//!
//! The file `lock` is locked, and names the process that has the store open. The database is locked too, because people
//! delete the file `lock`, believing that an ended process left it: then two servers would write to one store.
use super::file_names::{DATABASE, LOCK};
use super::permissions;
use crate::coordinator::store::OpenError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The maximum number of further attempts to get a lock that may be about to be released: by a process that is ending,
/// or by a child process that was forked while the directory was open and has not executed its program yet (flock(2): a
/// lock is shared across fork).
const TRIES: u32 = 50;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A locked directory, until this is dropped or the process ends.
pub(super) struct Lock {
    file: Option<File>,
    database: Option<File>,
}

impl Lock {
    fn try_each(&self, lock: fn(&File) -> Result<(), TryLockError>) -> Result<(), TryLockError> {
        [&self.file, &self.database].into_iter().flatten().try_for_each(lock)
    }

    /// Locks the database too, if it was created after the directory was locked.
    pub(super) fn cover_database(&mut self, directory: &Path) {
        if self.database.is_none() {
            self.database = database(directory).filter(|file| file.try_lock().is_ok());
        }
    }
}

/// The database file. If it cannot be opened, opening the store reports it.
fn database(directory: &Path) -> Option<File> {
    permissions::options().read(true).write(true).open(directory.join(DATABASE)).ok()
}

/// Locks the directory for this process.
pub(super) fn take(directory: &Path) -> Result<Lock, OpenError> {
    let path = directory.join(LOCK);
    let failed = |error: io::Error| OpenError::Io(format!("lock {}: {error}", path.display()));
    let opened = permissions::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(failed)?;
    let mut lock = Lock { file: Some(file), database: database(directory) };
    let mut locked = lock.try_each(File::try_lock);
    for _ in 0..TRIES {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        sleep(TRY_EVERY);
        locked = lock.try_each(File::try_lock);
    }
    locked.map_err(|error| refused(error, directory))?;
    // The content is only for the message: a full disk must not keep the server from starting.
    if let Some(file) = &mut lock.file {
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    }
    Ok(lock)
}

/// Keeps others from opening the directory while the lock exists, without changing anything there.
pub(super) fn take_shared(directory: &Path) -> Result<Lock, OpenError> {
    let open = |name: &str| match File::open(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    };
    // If there is no such file, no process ever had the store open, or somebody has deleted the file.
    let file = open(LOCK).map_err(|error| refused(TryLockError::Error(error), directory))?;
    let lock = Lock { file, database: open(DATABASE).ok().flatten() };
    lock.try_each(File::try_lock_shared).map_err(|error| refused(error, directory))?;
    Ok(lock)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Others may be able to open the directory: they must not keep a server from starting.
    #[test]
    fn a_directory_that_another_process_has_locked_can_be_taken() {
        let place = tempfile::tempdir().unwrap();
        let of_directory = File::open(place.path()).unwrap();
        of_directory.try_lock().unwrap();
        assert!(take(place.path()).is_ok());
    }
}
