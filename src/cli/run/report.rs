//! `run --report`: one JSON object about the end of the command, on one line.
//!
//! 1. It is written when COMMAND has ended, when it is about to be killed, and when it cannot be started: a report in the same
//!    file from an earlier run would be taken for that of this one.
//! 2. A regular file is replaced at once, so that a reader finds the old report or the whole new one. Anything else (a pipe, a
//!    socket, a device, the file of a descriptor) is written to.
//! 3. A report that cannot be written within [`WRITE_TIMEOUT`] is only a warning.
use super::pauses::Pauses;
use crate::client::stopwatch::EndedBy;
use crate::exec::supervise::Ended;
use nix::sys::socket::{MsgFlags, send};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::{fd::RawFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::timeout};

/// How long writing may take: a pipe that nobody reads must not keep `run` from ending.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The paths of open file descriptors. The process that opened one reads it, so its file is not replaced.
const DESCRIPTORS: [&str; 4] = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];

/// Where the report goes: a file, or an open file descriptor by its number.
#[derive(Clone, Debug)]
pub(super) struct Target {
    text: String,
    path: PathBuf,
    descriptor: Option<RawFd>,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let path = match text {
            "" => return Err("expected a file, or the number of a file descriptor".into()),
            _ if is_number => format!("/dev/fd/{text}").into(),
            _ => text.into(),
        };
        let descriptor = text.parse().ok().filter(|_| is_number);
        Ok(Self { text: text.into(), path, descriptor })
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
        match (write(&self.path, line), self.descriptor) {
            // A socket, such as the pipes of Node.js: it cannot be opened by its path.
            (Err(error), Some(descriptor)) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                Socket(descriptor).write_all(line)
            }
            (result, _) => result,
        }
    }
}

/// An open socket by its number.
struct Socket(RawFd);

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, MsgFlags::empty())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(path: &Path, line: &[u8]) -> io::Result<()> {
    if DESCRIPTORS.iter().any(|descriptors| path.starts_with(descriptors)) {
        return OpenOptions::new().append(true).open(path)?.write_all(line);
    }
    // A link stays, and the file that it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return OpenOptions::new().append(true).open(path)?.write_all(line);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any new file: the umask applies.
    let mode = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".pausewatch-report-").permissions(mode).tempfile_in(directory)?;
    file.write_all(line)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// The clocks of a run at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    pub(super) wall: Duration,
    /// The time that counted.
    pub(super) active: Duration,
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
    let active = clocks.active.min(clocks.wall);
    let mut report = json!({
        "exit_code": exit_code,
        "why": why,
        "wall_ms": millis(clocks.wall),
        "active_ms": millis(active),
        "paused_ms": millis(clocks.wall).saturating_sub(millis(active)),
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
