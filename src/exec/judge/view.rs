//! Whether an absolute path leads the processes of a command to the same file as their supervisor, which is this
//! process.
//!
//! `/proc/PID/root` is exact, but for each exec the kernel has to create the directory of the process in `/proc`, and
//! to remove it at the end of the process. So the supervisor looks up absolute paths by itself as long as this is
//! certain to make no difference:
//!
//! V1. The processes start with the supervisor's root directory and mount namespace. The filter reports all calls that
//!     change either, or the mounts of a namespace, except `clone3`. A reported call waits, so the supervisor knows
//!     that the view may differ before it does.
//! V2. `clone3`, whose flags the filter cannot see, may create a mount namespace. It begins with the supervisor's
//!     mounts. A path can lead elsewhere in it only after a reported call of one of its processes, or after a change of
//!     the supervisor's mounts, which the supervisor watches.
//! V3. No program leaves the sandbox because of this: the file of an approved program is compared with that of
//!     `/proc/PID/root`, and its root directory with the supervisor's.
//!
//! One case is not seen: a process outside the command enters a namespace of V2 and mounts something there. What other
//! processes do for a command is not seen in other ways either.
use rustix::event::{PollFd, PollFlags};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::OnceLock,
};

/// Whether the processes of a command and the supervisor see the same file system.
pub(super) struct View {
    /// The mounts of this process's namespace, whose changes `poll` reports; `None`: the view may differ from now on.
    mounts: Option<File>,
}

impl View {
    /// The view of a command whose processes have not executed anything yet.
    pub(super) fn shared() -> Self {
        Self { mounts: File::open("/proc/self/mounts").ok() }
    }

    /// Whether an absolute path leads all processes of the command to the same file as this process.
    pub(super) fn is_shared(&self) -> bool {
        self.mounts.is_some()
    }

    /// From now on, an absolute path may lead a process of the command to another file.
    pub(super) fn may_differ(&mut self) {
        self.mounts = None;
    }

    /// Becomes ready when the view may differ.
    pub(super) fn change(&self) -> Option<PollFd<'_>> {
        self.mounts.as_ref().map(|mounts| PollFd::new(mounts, PollFlags::PRI))
    }

    /// A path that leads this process to the root directory of a thread.
    pub(super) fn root_of(&self, thread: i32) -> PathBuf {
        match self.is_shared() {
            true => "/".into(),
            false => format!("/proc/{thread}/root").into(),
        }
    }

    /// Whether the root directory of a thread is ours.
    pub(super) fn has_root_of(&self, thread: i32) -> bool {
        self.is_shared() || has_other_root(thread).is_ok_and(|other| !other)
    }
}

/// The device and inode of the root directory of a process.
fn root_directory(process: &str) -> io::Result<(u64, u64)> {
    let root = fs::metadata(format!("/proc/{process}/root/"))?;
    Ok((root.dev(), root.ino()))
}

/// Whether the root directory of a thread is not ours, so that paths lead it elsewhere.
pub(super) fn has_other_root(thread: i32) -> io::Result<bool> {
    static OURS: OnceLock<(u64, u64)> = OnceLock::new();
    let ours = match OURS.get() {
        Some(ours) => *ours,
        None => *OURS.get_or_init(|| root_directory("self").unwrap_or_default()),
    };
    Ok(root_directory(&thread.to_string())? != ours)
}
