//! Files with settings and secrets, which may be pipes or devices: `<(print-the-token)`, `/dev/stdin`.
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long opening a pipe waits for a program that opens it for writing. Reading it has no time limit.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of bytes that are read from a pipe or a device, which may have no end.
const MAX_SIZE: u64 = 1 << 20;

/// Whether the file can be read only once.
pub(crate) fn is_pipe_or_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Reads a file to its end.
///
/// # Errors
/// It cannot be read, nobody writes to the pipe, or the device has no end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !is_pipe_or_device(path) {
        return fs::read(path);
    }
    let mut content = Vec::new();
    open(path)?.take(MAX_SIZE + 1).read_to_end(&mut content)?;
    match content.len() as u64 > MAX_SIZE {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {MAX_SIZE} bytes"))),
        false => Ok(content),
    }
}

/// As [`read`], for text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Opens a pipe or a device on a separate thread: opening a pipe waits for its writer, possibly forever.
fn open(path: &Path) -> io::Result<File> {
    let (sender, opened) = mpsc::channel();
    let path = path.to_owned();
    thread::Builder::new().spawn(move || sender.send(File::open(path)))?;
    let nobody =
        || io::Error::new(ErrorKind::TimedOut, format!("nobody writes to this pipe: waited {WRITER_TIMEOUT:?}"));
    opened.recv_timeout(WRITER_TIMEOUT).unwrap_or_else(|_| Err(nobody()))
}
