//! Creates a store from a backup.
//!
//! - R1: the backup is read to its end, and the new store is checked, before the existing files are touched. They are
//!   moved aside, never deleted.
//! - R2: the directory has the new store, or shows that a restore is unfinished: a server does not start on a
//!   half-restored store.
//! - R3 and R4: the store begins a new epoch, with revisions above all earlier ones (`restored_rows.rs`).
use super::database::{Database, damaged};
use super::disk::{Directory, Disk, Health, create_directory};
use super::file_names::{DATABASE, LOCK, REPLACED, STAGING};
use super::segments::MAX_SEGMENTS;
use super::{Summary, lock, permissions};
use crate::coordinator::store::OpenError;
use crate::coordinator::store::backup_content::{BackupContent, invalid};
use crate::coordinator::store::ops::Changes;
use crate::coordinator::store::restored_rows::RestoredRows;
use crate::coordinator::store::rows::RowCodec;
use crate::core::Timestamp;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NANOS_A_SECOND: i64 = 1_000_000_000;

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The content of the backup.
    pub summary: Summary,
    /// The revision that every thread has now.
    pub revision: u64,
    /// Where the files of the replaced store are.
    pub replaced: Option<PathBuf>,
}

/// An error if a restore of this directory is unfinished.
pub(super) fn none_unfinished(directory: &Path) -> Result<(), OpenError> {
    let staging = directory.join(STAGING);
    match staging.try_exists() {
        Ok(true) => Err(OpenError::Io(format!(
            "{}: a restore was not finished. Run `pausewatch restore --force` again; what was there before it is still there, \
             or in a directory replaced-... beside it",
            directory.display()
        ))),
        _ => Ok(()),
    }
}

/// Creates the store in `directory` from `backup`. `replace`: replaces an existing store.
///
/// # Errors
/// The backup is incomplete (nothing was changed); a store exists and `replace` is false; a server has the store open;
/// or the file system returns an error.
pub fn restore(
    backup: &mut dyn Read,
    directory: &Path,
    replace: bool,
    boot_id: u64,
    now: Timestamp,
) -> Result<Restored, OpenError> {
    let name = directory.display().to_string();
    let content = BackupContent::read(backup)?;
    let mut changes = content.rows()?;
    let restored = RestoredRows::of(&changes, now).ok_or_else(|| invalid("a row cannot be read"))?;
    restored.put(&mut changes);
    let codec = RowCodec { boot_id, now };
    content.check(&changes, codec)?;

    let failed = |error: io::Error| OpenError::Io(format!("restore to {name}: {error}"));
    create_directory(directory).map_err(failed)?;
    let _lock = lock::take(directory)?;
    let before = store_files(directory);
    if !before.is_empty() && !replace {
        return Err(OpenError::Io(format!(
            "{name}: there is a store already. Give an empty directory, or --force to move the existing store aside"
        )));
    }
    let staging = directory.join(STAGING);
    if staging.is_dir() {
        fs::remove_dir_all(&staging).map_err(failed)?;
    }
    create_directory(&staging).map_err(failed)?;
    make(&staging, &changes, codec, &name).inspect_err(|_| _ = fs::remove_dir_all(&staging))?;
    for made in [&staging, &directory.join(LOCK)] {
        permissions::give_to_owner_of(directory, made);
    }

    let replaced = match before.is_empty() {
        true => None,
        false => Some(move_aside(directory, &before, now).map_err(failed)?),
    };
    let moved = || {
        // The database is moved last, so a directory with a database also has its journal.
        let mut files = store_files(&staging);
        files.sort_by_key(|file| file == DATABASE);
        for file in files {
            fs::rename(staging.join(&file), directory.join(&file))?;
        }
        File::open(directory)?.sync_all()?;
        fs::remove_dir_all(&staging)?;
        File::open(directory)?.sync_all()
    };
    moved().map_err(failed)?;
    Ok(Restored { summary: content.summary, revision: restored.revision, replaced })
}

/// Creates a store with the rows `changes`, and reads it as a server would.
fn make(staging: &Path, changes: &Changes<'_>, codec: RowCodec, name: &str) -> Result<(), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(Directory::new(staging));
    let database = Database::open(&disk, &Arc::<Health>::default(), name).map_err(|unopened| unopened.error)?;
    database.apply(changes, 0).map_err(|error| match error {
        super::database::ApplyError::NoSpace => OpenError::Io(format!("restore to {name}: no space left")),
        super::database::ApplyError::Broken(why) => damaged(name, &why),
    })?;
    database.read(codec, name)?;
    drop(database);
    Ok(())
}

/// The files of a store in `directory`, without the reserve, which is created when a server starts.
fn store_files(directory: &Path) -> Vec<String> {
    let journal = (0..MAX_SEGMENTS).map(|number| format!("journal-{number}"));
    journal.chain([DATABASE.to_owned()]).filter(|file| directory.join(file).exists()).collect()
}

fn move_aside(directory: &Path, files: &[String], now: Timestamp) -> io::Result<PathBuf> {
    let second = now.wall / NANOS_A_SECOND;
    let mut names = (0..).map(|again| directory.join(format!("{REPLACED}{second}-{again}")));
    let aside = names.find(|name| !name.exists()).expect("there are more names than directories");
    create_directory(&aside)?;
    permissions::give_to_owner_of(directory, &aside);
    for file in files {
        fs::rename(directory.join(file), aside.join(file))?;
    }
    File::open(&aside)?.sync_all()?;
    Ok(aside)
}
