//! Symbolic links to files that are replaced or written: the link stays, and its target is written.
//!
//! In a folder that others may write, such as /tmp, another user may have put a link under the name of the file, to
//! have one of our files overwritten. A link is followed only if it belongs to this user or to root. The kernel's own
//! protection (`fs.protected_symlinks`) covers only folders with the sticky bit, and no rename.
use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The links to open files of this process. The kernel follows them; their text is no path.
const DESCRIPTORS: [&str; 2] = ["/proc", "/dev/fd"];

/// The target at the end of a chain of links; it need not exist. For a circle of links, returns the path itself:
/// opening it fails.
///
/// # Errors
/// A link belongs to another user.
pub(crate) fn end_of_links(path: PathBuf) -> io::Result<PathBuf> {
    let mut end = path.clone();
    for _ in 0..40 {
        if is_descriptor(&end) {
            return Ok(end);
        }
        let Ok(target) = fs::read_link(&end) else { return Ok(end) };
        check_owner(&end, &fs::symlink_metadata(&end)?, geteuid().as_raw())?;
        end = end.parent().unwrap_or(Path::new("")).join(target);
    }
    Ok(path)
}

/// The flag with which the end of links is opened: another user may have put a link there meanwhile.
pub(crate) fn no_follow(end: &Path) -> i32 {
    if is_descriptor(end) { 0 } else { OFlags::NOFOLLOW.bits().cast_signed() }
}

fn is_descriptor(path: &Path) -> bool {
    DESCRIPTORS.iter().any(|directory| path.starts_with(directory))
}

fn check_owner(link: &Path, metadata: &fs::Metadata, user: u32) -> io::Result<()> {
    match metadata.uid() {
        owner if owner == user || owner == 0 => Ok(()),
        owner => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is a link of another user (uid {owner}): name its target instead", link.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn own_links_are_followed_and_those_of_another_user_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        symlink("second", path("first")).unwrap();
        symlink("target", path("second")).unwrap();
        symlink("circle", path("circle")).unwrap();
        assert_eq!(end_of_links(path("first")).unwrap(), path("target"));
        assert_eq!(end_of_links(path("circle")).unwrap(), path("circle"));
        assert_eq!(end_of_links(path("none")).unwrap(), path("none"));
        let metadata = fs::symlink_metadata(path("first")).unwrap();
        assert!(check_owner(&path("first"), &metadata, metadata.uid()).is_ok());
        let refused = check_owner(&path("first"), &metadata, metadata.uid() + 1);
        // Only root's own links are followed by everybody.
        assert_eq!(refused.is_err(), metadata.uid() != 0);
    }

    /// Only root can make a link of another user.
    #[test]
    fn a_planted_link_is_refused_wherever_it_is_in_the_chain() {
        if !geteuid().is_root() {
            return eprintln!("not run: only root can give a link to another user");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        symlink("planted", path("own")).unwrap();
        symlink("target", path("planted")).unwrap();
        std::os::unix::fs::lchown(path("planted"), Some(65_534), None).unwrap();
        for name in ["own", "planted"] {
            let refused = end_of_links(path(name)).unwrap_err().to_string();
            assert!(refused.contains("planted is a link of another user (uid 65534)"), "{refused}");
        }
    }
}
