//! Whether the files of an open store are still those under its name. Somebody may have deleted the data directory, or put
//! another one in its place: what is written then goes into files that nobody will ever read, and the next server starts
//! without it.
use super::file_names::DATABASE;
use std::fs::symlink_metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The database of an open store. The store has it open, so no other file gets its number meanwhile.
#[derive(Clone, Debug)]
pub struct Presence {
    database: PathBuf,
    file: (u64, u64),
}

impl Presence {
    /// Of the store in `directory`, which is open; `None`: its database cannot be found.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let database = std::path::absolute(directory.join(DATABASE)).ok()?;
        let file = identity(&database).ok()?;
        Some(Presence { database, file })
    }

    /// Checks that the store is there.
    ///
    /// # Errors
    /// It was deleted or replaced: what happened, and to which directory. Other errors of the file system show neither.
    pub fn check(&self) -> Result<(), String> {
        let what = match identity(&self.database) {
            Ok(file) if file != self.file => "replaced",
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => "deleted",
            _ => return Ok(()),
        };
        let directory = self.database.parent().unwrap_or(&self.database).display();
        Err(format!("the data directory {directory} was {what} while the server used it"))
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use crate::coordinator::store::{CommitError, Embedded, Store, Write};
    use crate::core::Timestamp;
    use std::fs;

    const NOW: Timestamp = Timestamp { boot: 1, wall: 1_800_000_000_000_000_000 };

    #[test]
    fn a_deleted_moved_or_replaced_directory_is_noticed_before_a_change_is_acknowledged() {
        let place = tempfile::tempdir().unwrap();
        let (data, aside) = (place.path().join("data"), place.path().join("aside"));
        let open = || {
            let mut store = Embedded::open(&data, 7).unwrap();
            store.load(NOW).unwrap();
            store
        };
        for (harm, what) in [
            (Box::new(|| fs::remove_dir_all(&data).unwrap()) as Box<dyn Fn()>, "deleted"),
            (Box::new(|| fs::rename(&data, &aside).unwrap()), "deleted"),
            (
                Box::new(|| {
                    fs::remove_dir_all(&aside).unwrap();
                    fs::rename(&data, &aside).unwrap();
                    drop(open());
                }),
                "replaced",
            ),
        ] {
            let mut store = open();
            let presence = store.presence().unwrap();
            let change = [Write::PutFloor(1)];
            assert!(store.commit(&change).is_ok() && presence.check().is_ok());
            harm();
            assert!(presence.check().unwrap_err().contains(what));
            let Err(CommitError::Gone(why)) = store.commit(&change) else { panic!("it is acknowledged") };
            assert!(why.contains(what) && why.contains("data"), "{why}");
            drop(store);
        }
    }

    /// People delete it, believing that an ended process left it. Nothing is lost.
    #[test]
    fn a_store_without_its_lock_file_is_still_there() {
        let place = tempfile::tempdir().unwrap();
        let mut store = Embedded::open(place.path(), 7).unwrap();
        store.load(NOW).unwrap();
        fs::remove_file(place.path().join("lock")).unwrap();
        assert_eq!(store.presence().unwrap().check(), Ok(()));
    }
}
