//! Paths that were checked once and must still lead to the same place when they are used.
//!
//! A command in the sandbox can replace a directory that it may change by a link to another place. So a path is resolved before
//! it is checked, and opened without following links: if a part of it has become a link since, that is an error.
use std::{io, os::fd::OwnedFd, path::Path};

/// Opens a path that has no symbolic links, only to refer to it.
///
/// # Errors
/// ELOOP: a part of it is a link. Others as of `open`.
#[cfg(target_os = "linux")]
pub(super) fn open_resolved(path: &Path) -> io::Result<OwnedFd> {
    use rustix::{
        fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2},
        io::Errno,
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A kernel before 5.6, which has no sandbox; or a container that does not let the call through.
        Err(Errno::NOSYS | Errno::PERM) => Ok(open(path, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}

/// Makes a directory, whose path has no symbolic links, the working directory of this process.
///
/// # Errors
/// As of `open` and `fchdir`; the working directory is unchanged.
pub(crate) fn enter(directory: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::process::fchdir(open_resolved(directory)?)?);
    #[cfg(not(target_os = "linux"))]
    std::env::set_current_dir(directory)
}
