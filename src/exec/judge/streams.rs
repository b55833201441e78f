//! The standard streams of a program, as facts for its judgement.
use crate::exec::policy::{Stream, StreamKind, can_write, is_owner};
use nix::libc::{O_ACCMODE, O_PATH, O_RDONLY, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK};
use std::{
    fs,
    io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

/// `/dev/null`, `zero`, `full`, `random` and `urandom`.
const NULL_DEVICES: [u32; 5] = [3, 5, 7, 8, 9];

/// Those of a thread of another process. What cannot be read counts as closed.
pub(super) fn streams_of(thread: i32) -> Vec<Stream> {
    (0..3).map(|number| read(&format!("/proc/{thread}"), number).unwrap_or_default()).collect()
}

/// Whether these file descriptors, with their numbers, are the streams of a program as it was judged.
pub(super) fn are_streams(descriptors: &[(RawFd, OwnedFd)], judged: &[Stream]) -> bool {
    let is_judged = |number: usize, judged: &Stream| {
        let found = descriptors.iter().find(|(given, _)| usize::try_from(*given) == Ok(number));
        found.and_then(|(_, fd)| read("/proc/self", fd.as_raw_fd()).ok()).is_some_and(|stream| stream.is_same(judged))
    };
    judged.len() == 3 && judged.iter().enumerate().all(|(number, judged)| is_judged(number, judged))
}

fn read(process: &str, number: RawFd) -> io::Result<Stream> {
    let (link, info) = (format!("{process}/fd/{number}"), format!("{process}/fdinfo/{number}"));
    let (path, data, info) = (fs::read_link(&link)?, fs::metadata(&link)?, fs::read_to_string(info)?);
    let flags = info.lines().find_map(|line| i32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    let flags = flags.ok_or(io::ErrorKind::InvalidData)?;
    let has_path = path.is_absolute();
    let (major, minor) = (rustix::fs::major(data.rdev()), rustix::fs::minor(data.rdev()));
    let kind = match data.mode() & S_IFMT {
        _ if flags & O_PATH != 0 => StreamKind::Other,
        S_IFDIR => StreamKind::Other,
        S_IFIFO | S_IFSOCK if !has_path => StreamKind::Pipe,
        S_IFCHR if is_terminal(major) => StreamKind::Terminal,
        S_IFCHR if major == 1 && NULL_DEVICES.contains(&minor) => StreamKind::Null,
        S_IFREG | S_IFCHR | S_IFBLK | S_IFIFO if has_path => StreamKind::File,
        _ => StreamKind::Other,
    };
    Ok(Stream {
        kind,
        path,
        is_writable: flags & O_ACCMODE != O_RDONLY,
        user_can_write: is_owner(&data) || can_write(Path::new(&link)),
        identity: (data.dev(), data.ino()),
    })
}

/// Whether character devices with this number are terminals: virtual consoles, `/dev/tty` and `/dev/ptmx`, those of Unix98, serial lines.
fn is_terminal(major: u32) -> bool {
    matches!(major, 2..=5 | 128..=143 | 166 | 188 | 204 | 229)
}
