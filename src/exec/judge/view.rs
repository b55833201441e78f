//! Whether an absolute path leads the processes of a command to the same file as this process, their supervisor.
//!
//! `/proc/PID/root` is exact, but the kernel has to create the directory of the process in `/proc` for each exec, and to remove it at the end of the
//! process. So this process looks absolute paths up by itself as long as nothing can have made a difference:
//!
//! V1. The processes start with the root directory and the mount namespace of this process. The filter reports all calls that change either of
//!     them, or the mounts of a namespace, but for `clone3`. A call that is reported waits, so the view is known to differ before it does.
//! V2. `clone3`, whose flags the filter cannot see, may create a mount namespace. It has the mounts of ours. For a path to lead elsewhere in it,
//!     a process of it makes a call that is reported, or the mounts of our namespace change, which this process watches.
//! V3. No program leaves the sandbox by this: the file of one that is approved is compared with that of `/proc/PID/root`, and its root directory with
//!     ours.
//!
//! Not seen is a process outside the command that enters a namespace of V2 and mounts something there, like everything that such processes do for
//! a command.
use rustix::event::{PollFd, PollFlags};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::OnceLock,
};

/// The view of the file system that all processes of a command share.
pub(super) struct View {
    /// The mounts of this process's namespace, which `poll` reports changes of; `None`: the view may differ from now on.
    mounts: Option<File>,
}

impl View {
    /// For a command whose processes execute nothing yet.
    pub(super) fn shared() -> Self {
        Self { mounts: File::open("/proc/self/mounts").ok() }
    }

    /// Whether an absolute path leads all of them to the same file as this process.
    pub(super) fn is_shared(&self) -> bool {
        self.mounts.is_some()
    }

    /// From now on it may lead one of them to another file.
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
