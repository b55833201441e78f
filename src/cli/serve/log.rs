//! The log of `serve`: to standard error, as text or as JSON, by a thread of its own, so that a terminal that was stopped or a
//! pipe that nobody reads holds up no call. What has no room is dropped and counted.
use crate::coordinator::metrics::LOG_LINES_LOST;
use crate::server::background_writer::{BackgroundWriter, Sink};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that may wait.
const MOST: usize = 1 << 20;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// Writes what is left when it is dropped.
pub(super) struct Log(
    #[expect(dead_code, reason = "it is written to until it is dropped")] Option<Arc<BackgroundWriter>>,
);

/// Starts the log, as RUST_LOG says (`info` if it says nothing); standard output is for the addresses.
///
/// # Errors
/// The system has no thread for it.
pub(super) fn start(format: Format) -> io::Result<Log> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let background_writer = Arc::new(BackgroundWriter::start("log", MOST, Stderr)?);
    let writer = Writer(Arc::downgrade(&background_writer));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // Already set by another part of the process.
    let started = match format {
        Format::Text => subscriber.with_ansi(io::stderr().is_terminal()).try_init(),
        Format::Json => subscriber.json().flatten_event(true).try_init(),
    };
    Ok(Log(started.is_ok().then_some(background_writer)))
}

struct Stderr;

impl Sink for Stderr {
    fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        io::stderr().write_all(lines)
    }

    fn is_patient(&self) -> bool {
        false
    }
}

/// Hands each line over whole.
#[derive(Clone)]
struct Writer(std::sync::Weak<BackgroundWriter>);

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.0.upgrade() {
            Some(background_writer) if background_writer.push(line) => {}
            Some(_) => LOG_LINES_LOST.add_one(),
            // The process is about to end.
            None => _ = io::stderr().write(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
