//! A store is readable by its owner only: it contains questions to people and who asks them. A process that can open
//! its lock file can also block it.
//!
//! - P1: other users cannot open anything that the store creates, whatever the umask is.
//! - P2: when the store is opened, other users lose access to files that an earlier version left open to them. The log
//!   warns of a file whose permissions cannot be changed, and of a directory that others can list.
//! - P3: files that root restores belong to the owner of the directory: a server of that user could not open them
//!   otherwise.
//! - P4: nothing is written through a symbolic link: the owner of the directory may have put one there, and a process of
//!   root, or a server in a directory that others may write, would change its target.
use super::file_names::is_of_a_store;
use rustix::fs::{AtFlags, Dir, Gid, OFlags, Uid, chownat, fchown};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The permissions of the owner in a mode.
const OWNER: u32 = 0o700;
/// The permissions of all other users in a mode.
const OTHERS: u32 = 0o007;

/// Options that open a file of the store, and create it for its owner alone. Links are not followed (P4).
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Creates a directory for its owner alone.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(OWNER).create(path)
}

/// Gives `made`, a file or a directory with files that root has created, to the owner of `directory` (P3). If this
/// process is not root, nothing changes. Links are not followed, because the owner could have put them there.
pub(super) fn give_to_owner_of(directory: &Path, made: &Path) {
    let Ok(owner) = fs::metadata(directory) else { return };
    let (user, group) = (Some(Uid::from_raw(owner.uid())), Some(Gid::from_raw(owner.gid())));
    let Ok(made) = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(made) else {
        return;
    };
    for file in Dir::read_from(&made).into_iter().flatten().flatten() {
        if ![c".", c".."].contains(&file.file_name()) {
            let _ = chownat(&made, file.file_name(), user, group, AtFlags::SYMLINK_NOFOLLOW);
        }
    }
    let _ = fchown(&made, user, group);
}

/// Removes the access of other users to the files of the store in `directory` (P2).
pub(super) fn close_to_others(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.filter(|entry| is_of_a_store(&entry.file_name().to_string_lossy())).map(|entry| entry.path()) {
        if let Err(error) = close(&path) {
            tracing::warn!("{}: other users of this machine may open it; run chmod go=: {error}", path.display());
        }
    }
    if fs::metadata(directory).is_ok_and(|metadata| metadata.permissions().mode() & OTHERS != 0) {
        tracing::warn!(
            "the data directory {}: every user of this machine can list it; run chmod 700",
            directory.display()
        );
    }
}

fn close(path: &Path) -> io::Result<()> {
    let file = fs::symlink_metadata(path)?;
    let mode = file.permissions().mode();
    match mode & 0o777 & !OWNER {
        0 => Ok(()),
        // It would change the target (P4); opening the link as a file of the store fails.
        _ if file.is_symlink() => Ok(()),
        _ => fs::set_permissions(path, Permissions::from_mode(mode & OWNER)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::RESERVE_BYTES;
    use super::super::file_names::{DATABASE, DATABASE_DRAFT, RESERVE, SEGMENT_DRAFT};
    use super::*;
    use crate::coordinator::store::{Embedded, Store, restore};
    use crate::core::Timestamp;
    use std::path::PathBuf;

    const NOW: Timestamp = Timestamp { boot: 1, wall: 1_800_000_000_000_000_000 };

    /// Each file and directory below with its mode, except those that others cannot use.
    fn open_to_others(directory: &Path) -> Vec<(PathBuf, u32)> {
        let mut found = Vec::new();
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            found.extend((mode & !OWNER != 0).then(|| (path.clone(), mode)));
            if path.is_dir() {
                found.extend(open_to_others(&path));
            }
        }
        found
    }

    /// Makes a store, and another one over it from its backup.
    fn make(data: &Path) {
        let mut store = Embedded::open(data, 7).unwrap();
        store.load(NOW).unwrap();
        let mut backup = Vec::new();
        store.snapshots().take().unwrap().write(0, &mut backup).unwrap();
        drop(store);
        restore(&mut &backup[..], data, true, 7, NOW).unwrap();
        drop(Embedded::open(data, 7).unwrap());
    }

    #[test]
    fn files_of_a_store_are_accessible_to_their_owner_only() {
        let place = tempfile::tempdir().unwrap();
        make(&place.path().join("data"));
        assert_eq!(open_to_others(place.path()), []);
        let names: Vec<_> = fs::read_dir(place.path().join("data")).unwrap().map(|entry| entry.unwrap()).collect();
        assert!(names.len() >= 6, "database, journal, reserve, lock, what was replaced: {names:?}");
    }

    #[test]
    fn the_files_of_an_open_store_are_closed_and_its_directory_is_left() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        make(&data);
        fs::write(data.join("not of the store"), "").unwrap();
        for entry in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap()) {
            let mode = if entry.file_type().unwrap().is_dir() { 0o755 } else { 0o644 };
            fs::set_permissions(entry.path(), Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
        drop(Embedded::open(&data, 7).unwrap());
        assert_eq!(open_to_others(place.path()), [(data.clone(), 0o755), (data.join("not of the store"), 0o644)]);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        make(&data);
        for name in [RESERVE, "lock", "journal-0", DATABASE, SEGMENT_DRAFT, DATABASE_DRAFT] {
            let (target, link) = (place.path().join("target"), data.join(name));
            fs::write(&target, "of somebody else").unwrap();
            fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
            let ours = data.join("ours");
            let existed = fs::rename(&link, &ours).is_ok();
            symlink(&target, &link).unwrap();
            let _ = Embedded::open(&data, 7).map(|mut store| store.load(NOW).is_ok());
            assert_eq!(fs::read_to_string(&target).unwrap(), "of somebody else", "{name}");
            assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o644, "{name}");
            let _ = fs::remove_file(&link);
            if existed {
                fs::rename(&ours, &link).unwrap();
            }
        }
        Embedded::open(&data, 7).unwrap().load(NOW).unwrap();
        assert_eq!(fs::metadata(data.join(RESERVE)).unwrap().len(), RESERVE_BYTES, "a link there was replaced");
    }
}
