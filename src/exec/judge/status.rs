//! The state of a thread, as the kernel reports it.
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The fields of `/proc/PID/status` that say what a thread may do.
const PRIVILEGES: [&str; 8] = ["Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"];
/// As in `/proc/PID/ns`.
const NAMESPACES: [&str; 10] =
    ["user", "mnt", "net", "pid", "pid_for_children", "ipc", "uts", "cgroup", "time", "time_for_children"];

/// The process of a thread.
pub(super) fn process_of(thread: i32) -> io::Result<i32> {
    // Only the first thread of a process has a pidfd, and it makes most execs. This is faster than reading the status.
    if Pid::from_raw(thread).is_some_and(|thread| pidfd_open(thread, PidfdFlags::empty()).is_ok()) {
        return Ok(thread);
    }
    status_field(thread, "Tgid:").and_then(|text| text.parse().ok()).ok_or_else(|| Errno::SRCH.into())
}

/// A field of `/proc/PID/status`.
pub(super) fn status_field(thread: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// A property of a thread that its program would not have if this process started it; `None`: there is none that matters. These properties
/// do not change while the thread waits in a call.
///
/// # Errors
/// It cannot be determined.
pub(super) fn difference(thread: i32) -> io::Result<Option<String>> {
    let privileges = |process: &str| -> io::Result<Vec<String>> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let is_privilege = |line: &&str| PRIVILEGES.iter().any(|name| line.starts_with(name));
        Ok(status.lines().filter(is_privilege).map(str::to_owned).collect())
    };
    if privileges(&thread.to_string())? != privileges("self")? {
        return Ok(Some("another user, group or capabilities".to_owned()));
    }
    for name in NAMESPACES {
        if namespace(&format!("/proc/{thread}/ns"), name)? != namespace("/proc/self/ns", name)? {
            return Ok(Some(format!("another namespace ({name})")));
        }
    }
    Ok(None)
}

/// `None`: this kernel has no such namespaces, or the one for child processes has no process yet.
fn namespace(directory: &str, name: &str) -> io::Result<Option<PathBuf>> {
    match fs::read_link(Path::new(directory).join(name)) {
        Ok(namespace) => Ok(Some(namespace)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
