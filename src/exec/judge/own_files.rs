//! Paths that lead each process to its own files: those through `/proc/self` and `/proc/thread-self`, and through links
//! to them such as `/dev/fd`.
//!
//! The kernel resolves such a link for the process that looks it up. So where a thread would find its own file, the
//! supervisor finds a file of the supervisor. It first looks a path up as if there were no such link, because hardly
//! any path has one. Then it looks closer ([`leads_to`]), unless it [is certain](is_certain) that this made no
//! difference:
//!
//! O1. Executable files below `/proc/self` are reached only through the magic links there (`exe`, `fd/N`, `cwd`), not
//!     by a name.
//! O2. The supervisor's own magic links lead to nothing that can be executed except its program, because `setup` closes
//!     the inherited descriptors and changes the working directory. So if the lookup finds another program, no magic
//!     link was on the way. Two exceptions need a link to such a link, and harm only the process that makes it: `root`,
//!     if the thread has another root directory; and the number of a directory that the supervisor has opened for an
//!     open question.
use super::{executable::Executable, status::process_of};
use rustix::{
    fs::{PROC_SUPER_MAGIC, statfs},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Component, Path, PathBuf},
    rc::Rc,
};

/// The maximum of links that the kernel follows in one path.
const MAX_LINKS: u32 = 40;
/// The inode of the root directory of each file system of processes.
const PROC_ROOT_INODE: u64 = 1;

/// Whether the thread would certainly have found the same file. `given`: the path that the thread executes.
/// `looked_up`: the path by which this process has `found` the file.
pub(super) fn is_certain(given: &Path, looked_up: &Path, found: &Result<Option<Rc<Executable>>, Errno>) -> bool {
    let names_own = |part: &[u8]| matches!(part, b"self" | b"thread-self" | b"fd");
    if given.as_os_str().as_bytes().split(|byte| *byte == b'/').any(names_own) {
        return false;
    }
    match found {
        Ok(Some(program)) => !program.is_this_program,
        // The most frequent case: `execvp` tries each directory of PATH. The directory exists, and has neither a
        // program nor a link of this name.
        Err(Errno::NOENT) => {
            let directory = looked_up.parent().and_then(|directory| statfs(directory).ok());
            directory.is_some_and(|data| data.f_type != PROC_SUPER_MAGIC) && fs::symlink_metadata(looked_up).is_err()
        }
        _ => false,
    }
}

/// Where the path that a thread executes leads, as a path that leads this process there too; `None`: no link to files of its own is on the way.
///
/// `root`: its root directory. `start`: `/proc/THREAD/cwd` or another directory, for a relative path.
pub(super) fn leads_to(thread: i32, root: &Path, start: &Path, given: &Path) -> Option<PathBuf> {
    let mut at = start.to_owned();
    // From the last to the first.
    let mut left: Vec<OsString> = Vec::new();
    let (mut links, mut is_own) = (0, false);
    prepend(&mut left, given);
    while let Some(name) = left.pop() {
        if name == "/" {
            root.clone_into(&mut at);
            continue;
        }
        if name == ".." && at == root {
            continue;
        }
        let below = at.join(&name);
        if (name == "self" || name == "thread-self") && is_proc_root(&at) {
            let process = process_of(thread).ok()?;
            // In the `/proc` of this process: another `/proc` may have other numbers.
            at = match name == "self" {
                true => format!("/proc/{process}").into(),
                false => format!("/proc/{process}/task/{thread}").into(),
            };
            is_own = true;
            continue;
        }
        match fs::read_link(&below) {
            // The kernel does not follow these links by their text.
            Ok(_) if is_proc(&at) && !is_proc_root(&at) => at = below,
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                prepend(&mut left, &target);
            }
            // Not a link, or no such file.
            Err(_) => at = below,
        }
    }
    is_own.then_some(at)
}

fn prepend(left: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    left.extend(parts.rev().map(|part| part.as_os_str().to_owned()));
}

fn is_proc(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|data| data.f_type == PROC_SUPER_MAGIC)
}

fn is_proc_root(directory: &Path) -> bool {
    is_proc(directory) && fs::metadata(directory).is_ok_and(|data| data.ino() == PROC_ROOT_INODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::os::unix::fs::symlink;

    fn lead(start: &Path, given: &str) -> Option<String> {
        let led = leads_to(gettid().as_raw_pid(), Path::new("/"), start, Path::new(given));
        led.map(|path| path.into_os_string().into_string().unwrap())
    }

    #[test]
    fn a_path_leads_to_the_files_of_the_process_of_the_thread() {
        let (process, thread) = (std::process::id(), gettid());
        let directory = tempfile::tempdir().unwrap();
        for (name, target) in
            [("exe", "/proc/self/exe"), ("of", "/dev/fd"), ("up", "../../../../../../../proc/self"), ("loop", "loop")]
        {
            symlink(target, directory.path().join(name)).unwrap();
        }
        let of_thread = format!("/proc/{process}/task/{thread}/fd/9");
        for (given, below) in [
            ("/proc/self/exe", "exe"),
            ("//proc/./self/fd/9", "fd/9"),
            ("/../proc/net/../self/fd/9", "net/../self/fd/9"),
            ("/dev/fd/9", "fd/9"),
            ("exe", "exe"),
            ("./of/9", "fd/9"),
            ("up/cwd/x", "cwd/x"),
            ("up/root/no/such/file", "root/no/such/file"),
        ] {
            assert_eq!(lead(directory.path(), given), Some(format!("/proc/{process}/{below}")), "{given}");
        }
        assert_eq!(lead(Path::new("/proc"), "thread-self/fd/9"), Some(of_thread.clone()));
        assert_eq!(lead(directory.path(), "/proc/thread-self/fd/9"), Some(of_thread));
        for given in ["/bin/sh", "/proc/1/exe", "loop", "loop/x", "no", "self", "/self/exe", &format!("/proc/{process}/fd/9")] {
            assert_eq!(lead(directory.path(), given), None, "{given}");
        }
    }
}
