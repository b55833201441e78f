//! What commands in the sandbox can change, and so must not decide what runs outside.
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// The maximum of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// What a path through one of these leads to depends on the process that uses it.
const OF_EACH_PROCESS: [&str; 2] = ["/proc/self", "/proc/thread-self"];
/// The directories of programs if all of PATH is in reach.
const SYSTEM: &str = "/usr/bin:/bin";
/// The maximum of bytes of paths in one message.
const MAX_MESSAGE: usize = 64 << 10;

/// The files and directories that commands can write, or could write before. Their paths have no symbolic links.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Reach(Vec<PathBuf>);

impl Reach {
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self(roots)
    }

    /// The same or more, in a form that fits in a message: everything, if these paths are too long or not text.
    pub(crate) fn for_message(self) -> Self {
        let lengths = self.0.iter().map(|path| path.to_str().map(|text| text.len() + 3)).sum::<Option<usize>>();
        if lengths.is_some_and(|length| length <= MAX_MESSAGE) { self } else { Self(vec!["/".into()]) }
    }

    /// Whether a path without symbolic links is one of them, or below one.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    /// Whether commands can write the file or directory at this path, or make the path lead to another: each link on the way counts.
    pub(crate) fn leads_into(&self, path: &Path) -> bool {
        // A relative path starts at the working directory, which commands can write.
        if !path.is_absolute() {
            return true;
        }
        let (mut at, mut left, mut links) = (PathBuf::from("/"), Vec::new(), 0);
        prepend(&mut left, path);
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            at.push(name);
            if self.holds(&at) || OF_EACH_PROCESS.iter().any(|link| at == Path::new(link)) {
                return true;
            }
            if let Ok(target) = fs::read_link(&at) {
                links += 1;
                if links > MAX_LINKS {
                    return true;
                }
                at.pop();
                if target.is_absolute() {
                    at = "/".into();
                }
                prepend(&mut left, &target);
            }
        }
        self.holds(&at)
    }

    /// Whether commands can change this program. One with several names may have one of them in reach.
    pub(crate) fn has_program(&self, file: &Path) -> bool {
        let has_other_name =
            || fs::metadata(file).is_ok_and(|data| data.nlink() > 1 && (is_owner(&data) || can_write(file)));
        self.leads_into(file) || has_other_name()
    }

    /// A list of directories, as PATH, without those in reach.
    pub(crate) fn without_reach(&self, search: &OsStr) -> OsString {
        let kept = env::split_paths(search).filter(|directory| !self.leads_into(directory));
        let kept = env::join_paths(kept).unwrap_or_default();
        if kept.is_empty() { SYSTEM.into() } else { kept }
    }
}

/// Puts the parts of a path before those that are left; the next one is the last of the list.
fn prepend(left: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    left.extend(parts.map(|part| part.as_os_str().to_owned()));
}

/// Whether this user owns the file. An owner who cannot write it can let himself.
pub(crate) fn is_owner(data: &fs::Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Whether this user can write the file.
pub(crate) fn can_write(file: &Path) -> bool {
    access(file, Access::WRITE_OK).is_ok()
}

/// Whether the lookup of a program in PATH ends at this file.
pub(crate) fn is_executable_file(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// The file of a program in these directories, as a path with links. Relative directories are skipped.
pub(crate) fn find_program(name: &str, search: &OsStr) -> Option<PathBuf> {
    let directories = env::split_paths(search).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(|file| is_executable_file(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_counts() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["lib", "work"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("lib/tool"), "").unwrap();
        symlink("../work/later", root.join("lib/dangling")).unwrap();
        symlink("../lib", root.join("work/link")).unwrap();
        symlink(root.join("work/link/tool"), root.join("lib/through")).unwrap();
        symlink("loop", root.join("lib/loop")).unwrap();
        symlink("/proc/self/cwd/lib", root.join("lib/process")).unwrap();
        symlink("tool", root.join("lib/plain")).unwrap();
        let reach = Reach::new(vec![root.join("work")]);
        for (path, leads) in [
            ("lib/tool", false),
            ("lib/plain", false),
            ("lib/none/such", false),
            ("lib/../lib/tool", false),
            ("lib/through", true),
            ("lib/dangling", true),
            ("lib/loop", true),
            ("lib/../work", true),
            ("lib/process", true),
            ("work", true),
            ("work/none/such", true),
            ("work/link", true),
        ] {
            assert_eq!(reach.leads_into(&root.join(path)), leads, "{path}");
        }
        assert!(reach.leads_into(Path::new("lib")) && reach.leads_into(Path::new("")));
        assert!(Reach::new(vec!["/".into()]).leads_into(Path::new("/")));
        let list = env::join_paths([root.join("work"), root.join("lib"), "".into(), "lib".into()]).unwrap();
        assert_eq!(reach.without_reach(&list), root.join("lib").into_os_string());
        assert_eq!(reach.without_reach(OsStr::new("")), SYSTEM);
    }

    #[test]
    fn a_program_with_several_names_counts_as_in_reach_if_its_user_can_write_it() {
        let directory = tempfile::tempdir().unwrap();
        let (file, reach) = (directory.path().join("tool"), Reach::new(vec!["/none".into()]));
        fs::write(&file, "").unwrap();
        assert!(!reach.has_program(&file));
        fs::hard_link(&file, directory.path().join("other")).unwrap();
        assert!(reach.has_program(&file));
    }
}
