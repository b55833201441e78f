//! Standard error, written by a separate thread: a pipe that nobody reads, or a stopped terminal, must not stop a
//! clock.
//!
//! 1. The writer of a line waits at most [`WRITE_TIMEOUT`], so that messages and the output of a command keep their
//!    order. If earlier lines are not written yet, it does not wait.
//! 2. Lines that exceed the buffer are dropped.
use crate::coordinator::metrics::LOG_LINES_LOST;
use crate::escape::escaped_json;
use crate::server::background_writer::{BackgroundWriter, Sink};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, io, io::IsTerminal, io::Write};
use tracing_subscriber::{filter::Targets, fmt::MakeWriter};

/// The size of the buffer, in bytes.
const BUFFER: usize = 1 << 20;
/// How long a message waits until it is written.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the end of the process waits until everything is written.
const WRITE_TIMEOUT_AT_END: Duration = Duration::from_secs(2);

/// `None`: the system has no thread for it.
static WRITER: OnceLock<Option<BackgroundWriter>> = OnceLock::new();

/// Writes a line, including its newline.
pub(crate) fn write_line(line: &[u8]) {
    match writer() {
        Some(writer) => {
            if writer.is_empty() && writer.push(line) {
                writer.wait_until_written(WRITE_TIMEOUT);
            } else {
                writer.push(line);
            }
        }
        None => _ = io::stderr().write_all(line),
    }
}

/// Waits until everything is written, at most for [`WRITE_TIMEOUT_AT_END`].
pub(crate) fn flush() {
    flush_within(WRITE_TIMEOUT_AT_END);
}

/// Waits until everything is written, at most for `timeout`.
pub(crate) fn flush_within(timeout: Duration) {
    if let Some(Some(writer)) = WRITER.get() {
        writer.wait_until_written(timeout);
    }
}

fn writer() -> Option<&'static BackgroundWriter> {
    WRITER.get_or_init(|| BackgroundWriter::start("stderr", BUFFER, Stderr).ok()).as_ref()
}

struct Stderr;

impl Sink for Stderr {
    fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        io::stderr().write_all(lines)
    }

    fn retries_failed_writes(&self) -> bool {
        false
    }
}

/// Whether a log has colors.
pub(crate) fn has_colors() -> bool {
    io::stderr().is_terminal() && are_colors_wanted()
}

/// <https://no-color.org>
pub(crate) fn are_colors_wanted() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The targets and levels of a log: those of `RUST_LOG`, such as `info,pausewatch::pauses=off`, else `default`.
pub(crate) fn targets(default: &'static str) -> Targets {
    let default = || default.parse().expect("tested: every default can be read");
    match env::var("RUST_LOG") {
        Ok(set) if !set.is_empty() => set.parse().unwrap_or_else(|error| {
            write_line(format!("RUST_LOG is ignored: {error}: write TARGET=LEVEL, separated by commas\n").as_bytes());
            default()
        }),
        _ => default(),
    }
}

/// The writer of a log: a write is a whole line, and waits for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let safe = escaped_json(&text);
        match writer() {
            Some(writer) if writer.push(safe.as_bytes()) => {}
            Some(_) => LOG_LINES_LOST.add_one(),
            None => _ = io::stderr().write(safe.as_bytes()),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}
