//! The control socket: the owner of the data directory requests a copy of the store from the server that has it open.
//!
//! The socket is a Unix socket in the directory, and only the owner can use it. A request is one line, and so is the
//! answer: `ok`, followed by the copy, or `error` and the reason. This protocol is not part of the API: the program and
//! the server must have the same version, and a difference is reported.
//!
//! 1. There is one copy at a time, made on a separate thread: callers do not wait for it.
//! 2. A client that does not read its copy is dropped, because a copy keeps the database from reusing space.
use super::listen::{SocketFile, open_unix};
use crate::clock::Clock;
use crate::coordinator::store::Snapshots;
#[cfg(target_os = "linux")]
use crate::coordinator::store::lower_priority;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The name of the socket.
const SOCKET: &str = "control";
/// The request for a copy of the store.
const BACKUP: &str = "backup 1";
/// The maximum of a line in bytes.
const LINE: u64 = 64;
/// The timeout for receiving a request.
const QUESTION_WITHIN: Duration = Duration::from_secs(5);
/// The timeout for a client that does not read.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// The maximum length of a socket path that fits into sun_path on every system.
const LONGEST_PATH: usize = 100;

/// A short path of the socket, which fits into sun_path: if necessary through the open directory, which has to stay
/// open.
fn socket(directory: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((path, None));
    }
    let open = File::open(directory)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd())), Some(open)))
}

/// An open socket. When it is dropped, its file is removed.
pub(super) struct Control {
    listener: UnixListener,
    snapshots: Snapshots,
    _file: SocketFile,
    _directory: Option<File>,
}

impl Control {
    /// Opens the socket of a directory that no other process has open.
    pub(super) async fn open(directory: &Path, snapshots: Snapshots) -> Result<Self, String> {
        let (path, directory) = socket(directory).map_err(|error| error.to_string())?;
        let (listener, file) = open_unix(&path).await?;
        Ok(Control { listener, snapshots, _file: file, _directory: directory })
    }

    /// Answers requests until the future is dropped.
    pub(super) async fn answer(self, clock: Arc<dyn Clock>) {
        let one = Arc::new(Semaphore::new(1));
        loop {
            let connection = match self.listener.accept().await {
                Ok((connection, _)) => connection,
                Err(error) => {
                    tracing::warn!(%error, "accept a connection of the control socket");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            let (one, snapshots, clock) = (one.clone(), self.snapshots.clone(), clock.clone());
            tokio::spawn(async move {
                let mut connection = BufReader::new(connection);
                let mut line = String::new();
                let asked = timeout(QUESTION_WITHIN, (&mut connection).take(LINE).read_line(&mut line)).await;
                let mut connection = connection.into_inner();
                let refusal = match (asked.is_ok_and(|read| read.is_ok()), line.trim_end()) {
                    (true, BACKUP) => match one.try_acquire_owned() {
                        Ok(turn) => {
                            let Ok(connection) = connection.into_std() else { return };
                            let work = move || {
                                back_up(connection, &snapshots, &*clock);
                                drop(turn);
                            };
                            if let Err(error) = thread::Builder::new().name("backup".into()).spawn(work) {
                                tracing::warn!(%error, "start a thread for a backup");
                            }
                            return;
                        }
                        Err(_) => "a backup is being made already",
                    },
                    _ => "the server is of another version: use the program that it was started with",
                };
                let _ = connection.write_all(format!("error {refusal}\n").as_bytes()).await;
            });
        }
    }
}

/// Writes a copy of the store to `connection`.
fn back_up(connection: UnixStream, snapshots: &Snapshots, clock: &dyn Clock) {
    let write = |mut connection: UnixStream| -> io::Result<_> {
        connection.set_nonblocking(false)?;
        connection.set_write_timeout(Some(READ_WITHIN))?;
        let taken = clock.now().wall;
        match snapshots.take() {
            Err(why) => writeln!(connection, "error {}", why.to_string().replace('\n', " ")).map(|()| None),
            Ok(snapshot) => {
                // From here on nobody waits for this thread.
                #[cfg(target_os = "linux")]
                lower_priority();
                writeln!(connection, "ok")?;
                snapshot.write(taken, &mut BufWriter::with_capacity(64 << 10, connection)).map(Some)
            }
        }
    };
    match write(connection) {
        Ok(Some(summary)) => tracing::info!(threads = summary.threads, bytes = summary.bytes, "a backup was made"),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "a backup was not finished"),
    }
}

/// Requests a copy of the store from the server that has `directory` open, and returns a reader for it.
///
/// # Errors
/// There was no answer, or a refusal.
pub(crate) fn ask_for_backup(directory: &Path) -> io::Result<impl io::Read + use<>> {
    use std::io::{BufRead, Read};
    let (path, _directory) = socket(directory)?;
    let mut connection = UnixStream::connect(path)?;
    connection.set_read_timeout(Some(READ_WITHIN * 2))?;
    connection.write_all(format!("{BACKUP}\n").as_bytes())?;
    let mut connection = std::io::BufReader::new(connection);
    let mut line = String::new();
    (&mut connection).take(4_096).read_line(&mut line).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "no answer within 60 s: it hangs; see its log")
        }
        _ => error,
    })?;
    match line.trim_end() {
        "ok" => Ok(connection),
        "" => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server ended")),
        refused => Err(io::Error::other(refused.strip_prefix("error ").unwrap_or(refused).to_owned())),
    }
}
