//! `run --report`: one JSON object about the end of the command, on one line.
//!
//! 1. It is written when COMMAND has ended, when it is about to be killed, and when it cannot be started: otherwise a
//!    report of an earlier run in the same file would look like that of this one.
//! 2. A regular file is replaced atomically, and its permissions stay: a reader finds the old report or the whole new
//!    one. Anything else (a pipe, a socket, a device, an open file descriptor) is written to.
//! 3. A report that cannot be written within [`WRITE_TIMEOUT`] is only a warning.
use super::pauses::Pauses;
use crate::client::stopwatch::{EndedBy, Times};
use crate::exec::supervise::Ended;
use crate::server::links::end_of_links;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_getfl},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use serde_json::{Value, json};
use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, RawFd},
        unix::{fs::PermissionsExt, net::UnixDatagram},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{task::spawn_blocking, time::timeout};

/// How long writing may take: a pipe that nobody reads must not keep `run` from ending.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The paths of open file descriptors. The process that opened one reads it, so its file is not replaced.
const DESCRIPTORS: [&str; 4] = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];

/// Where the report goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    text: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Path(PathBuf),
    /// A duplicate of the open file descriptor that was named by its number.
    Descriptor(Arc<File>),
}

impl Target {
    /// Call it before this process opens anything: a number names a descriptor of the caller of `run`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let place = match text {
            "" => return Err("expected a file, or the number of a file descriptor".into()),
            "-" => return Err("standard output is 1; a file of this name is ./-".into()),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => Place::Descriptor(Arc::new(descriptor(text)?)),
            _ => Place::Path(text.into()),
        };
        Ok(Self { text: text.into(), place })
    }

    /// Writes the report.
    ///
    /// # Errors
    /// The text says why it was not written, or not in time.
    pub(super) async fn write(&self, report: &Value) -> Result<(), String> {
        let (target, line) = (self.clone(), format!("{report}\n"));
        let written = timeout(WRITE_TIMEOUT, spawn_blocking(move || target.write_line(line.as_bytes()))).await;
        let result = written.unwrap_or_else(|_| Ok(Err(io::Error::other("nobody reads it"))));
        let result = result.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        result.map_err(|error| format!("{}: {error}", self.text))
    }

    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        match &self.place {
            Place::Path(path) => write(path, line),
            Place::Descriptor(file) => write_to(file, line),
        }
    }
}

fn descriptor(number: &str) -> Result<File, String> {
    let file = match number.parse().map_or(Err(Errno::BADF.into()), duplicate) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => {
            return Err("no file descriptor with this number is open".into());
        }
        duplicate => duplicate.map_err(|error| error.to_string())?,
    };
    match fcntl_getfl(&file) {
        Ok(flags) if flags & OFlags::RWMODE == OFlags::RDONLY => {
            Err("this file descriptor is not open for writing".into())
        }
        flags => flags.map(|_| file).map_err(|error| error.to_string()),
    }
}

/// A duplicate of an open file descriptor, without unsafe code: it is sent to ourselves.
fn duplicate(number: RawFd) -> io::Result<File> {
    let (ours, theirs) = UnixDatagram::pair()?;
    if [ours.as_raw_fd(), theirs.as_raw_fd()].contains(&number) {
        return Err(Errno::BADF.into());
    }
    let rights = [ControlMessage::ScmRights(&[number])];
    sendmsg::<()>(ours.as_raw_fd(), &[IoSlice::new(b"1")], &rights, MsgFlags::empty(), None)?;
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&theirs, &mut [IoSliceMut::new(&mut [0])], &mut control, flags)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    let received = received.ok_or(io::ErrorKind::UnexpectedEof)?;
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&received, rustix::io::FdFlags::CLOEXEC)?;
    Ok(received.into())
}

/// The descriptor may be non-blocking, because it is shared with the process that opened it.
fn write_to(mut file: &File, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match file.write(line) {
            Ok(written) => line = line.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(file, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write(path: &Path, line: &[u8]) -> io::Result<()> {
    if DESCRIPTORS.iter().any(|descriptors| path.starts_with(descriptors)) {
        return OpenOptions::new().append(true).open(path)?.write_all(line);
    }
    // A link stays; its target is replaced.
    let target = end_of_links(path.to_owned())?;
    let replaced = path.metadata().ok();
    if replaced.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return OpenOptions::new().append(true).open(path)?.write_all(line);
    }
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As for any new file, the umask applies.
    let mode = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".pausewatch-report-").permissions(mode).tempfile_in(directory)?;
    if let Some(replaced) = replaced {
        file.as_file().set_permissions(replaced.permissions())?;
    }
    file.write_all(line)?;
    file.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

/// The clocks of a run at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    pub(super) times: Times,
    pub(super) ended_by: Option<EndedBy>,
}

/// The report.
pub(super) fn report(ended: &Ended, clocks: Clocks, pauses: &Pauses) -> Value {
    let (exit_code, signal) = ended.action.status();
    let why = match (ended.timed_out, clocks.ended_by, signal) {
        (true, Some(EndedBy::MaxWall), _) => "max_wall",
        (true, ..) => "timed_out",
        (false, _, Some(_)) => "signal",
        (false, _, None) => "exited",
    };
    let (wall_ms, active_ms, paused_ms) = clocks.times.milliseconds();
    let mut report = json!({
        "exit_code": exit_code,
        "why": why,
        "wall_ms": wall_ms,
        "active_ms": active_ms,
        "paused_ms": paused_ms,
        "pauses": pauses.shown(),
    });
    if let (Some(signal), "signal") = (signal, why) {
        report["signal"] = signal.to_string().into();
    }
    if pauses.omitted() > 0 {
        report["pauses_omitted"] = pauses.omitted().into();
    }
    report
}
