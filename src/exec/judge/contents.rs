//! What an answer about a program is about, besides its name: the contents of its file and of its interpreters. After a change, the person is asked
//! again.
use super::waiting::{Details, Waiting};
use std::{
    fs::{self, Metadata},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

/// The times of a file are too coarse to show a second change within this time: a tick of the kernel (10 ms at most), or on a file system that
/// keeps whole seconds up to 2 s (FAT).
const JUST_CHANGED: Duration = Duration::from_millis(50);
const JUST_CHANGED_COARSE: Duration = Duration::from_secs(3);

/// Device, inode, size, and the times of the last changes; of a file that has just been changed or cannot be examined, a number that no other question
/// has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Contents {
    Known([u64; 3], [i64; 4]),
    Unknown(u64),
}

impl Contents {
    /// Of the file of a program, and of its interpreters.
    pub(super) fn of_program(waiting: &Waiting, details: &Details) -> Vec<Self> {
        let process = format!("/proc/{}", details.process);
        let seen = |path: &Path| match path.strip_prefix("/") {
            Ok(below) => Path::new(&process).join("root").join(below),
            Err(_) => Path::new(&process).join("cwd").join(path),
        };
        let interpreters = waiting.interpreters.iter().filter_map(|command| command.first());
        let files = interpreters.map(|path| seen(Path::new(path)));
        [waiting.file()].into_iter().chain(files).map(|file: PathBuf| Self::of(fs::metadata(file).ok())).collect()
    }

    /// The device and the inode of a directory; `None`: it cannot be examined.
    pub(super) fn directory(directory: &OwnedFd) -> Option<[u64; 2]> {
        let data = rustix::fs::fstat(directory).ok()?;
        Some([data.st_dev, data.st_ino])
    }

    fn of(data: Option<Metadata>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unchanged = data.filter(|data| {
            let nanoseconds = u32::try_from(data.ctime_nsec()).unwrap_or_default();
            let since_epoch = u64::try_from(data.ctime()).ok().map(|seconds| Duration::new(seconds, nanoseconds));
            let age = since_epoch.and_then(|changed| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed).ok());
            age.is_some_and(|age| would_show_a_change(nanoseconds, age))
        });
        unchanged.map_or_else(
            || Self::Unknown(NEXT.fetch_add(1, Relaxed)),
            |data| {
                let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
                Self::Known([data.dev(), data.ino(), data.size()], times)
            },
        )
    }
}

/// Whether a change of a file now would give it another time than the last one, which has these nanoseconds and is this old.
fn would_show_a_change(nanoseconds: u32, age: Duration) -> bool {
    age >= if nanoseconds == 0 { JUST_CHANGED_COARSE } else { JUST_CHANGED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_has_not_just_changed_has_the_same_contents_twice() {
        let known = || Contents::of(fs::metadata("/proc/self/exe").ok());
        // The program that runs this test was linked long ago.
        assert_eq!(known(), known());
        assert_ne!(Contents::of(None), Contents::of(None));
        for (nanoseconds, milliseconds, shows) in [(1, 49, false), (1, 50, true), (0, 2_999, false), (0, 3_000, true)] {
            assert_eq!(would_show_a_change(nanoseconds, Duration::from_millis(milliseconds)), shows, "{milliseconds}");
        }
    }
}
