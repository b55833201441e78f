//! What the kernel says about a thread.
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{fs, io};

/// The process of a thread.
pub(super) fn process_of(thread: i32) -> io::Result<i32> {
    // Only the first thread of a process has such a descriptor, and most execs are of it: quicker than to read the status.
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
