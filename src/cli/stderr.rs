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
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;

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

/// The targets and levels of a log: those of `RUST_LOG`, such as `info,pausewatch::pauses=off`, else `default`. Libraries
/// log errors only ([`capped`]).
pub(crate) fn targets(default: &'static str) -> Targets {
    let default = || default.parse().expect("tested: every default can be read");
    let targets = match env::var("RUST_LOG") {
        Ok(set) if !set.is_empty() => set.parse().unwrap_or_else(|error| {
            write_line(format!("RUST_LOG is ignored: {error}: write TARGET=LEVEL, separated by commas\n").as_bytes());
            default()
        }),
        _ => default(),
    };
    capped(&targets)
}

/// The same levels, but at most errors of everything that a peer reaches without our limits: a warning of a library for
/// each frame of a client would let it fill the disk. OpenTelemetry's reports are about the collector, and few.
fn capped(targets: &Targets) -> Targets {
    const NOT_CAPPED: [&str; 2] = ["pausewatch", "opentelemetry"];
    let is_capped = |target: &str| !NOT_CAPPED.iter().any(|name| target.starts_with(name));
    let level = |target: &str| {
        let mut levels = [LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN].into_iter();
        let enabled = levels.find(|level| level.into_level().is_some_and(|level| targets.would_enable(target, &level)));
        enabled.or_else(|| targets.would_enable(target, &Level::ERROR).then_some(LevelFilter::ERROR))
    };
    let own = NOT_CAPPED.map(|name| (name, level(name).unwrap_or(LevelFilter::OFF)));
    let named = targets.iter().map(|(target, level)| match is_capped(target) {
        true => (target, level.min(LevelFilter::ERROR)),
        false => (target, level),
    });
    let default = targets.default_level().unwrap_or(LevelFilter::OFF).min(LevelFilter::ERROR);
    Targets::new().with_default(default).with_targets(own).with_targets(named)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_log_errors_at_most_whatever_the_user_sets() {
        for (set, ours, theirs) in [
            ("info", Some(Level::INFO), Some(Level::ERROR)),
            ("trace", Some(Level::TRACE), Some(Level::ERROR)),
            ("warn,h2=trace,h2::codec=debug,hyper_util=info", Some(Level::WARN), Some(Level::ERROR)),
            ("h=debug,pausewatch=debug", Some(Level::DEBUG), Some(Level::ERROR)),
            ("info,h2=off", Some(Level::INFO), None),
            ("off,pausewatch::server=info", None, None),
            ("pausewatch=info", Some(Level::INFO), None),
        ] {
            let capped = capped(&set.parse().unwrap());
            let most = |target: &str| {
                let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
                levels.into_iter().find(|level| capped.would_enable(target, level))
            };
            assert_eq!(most("pausewatch::cli"), ours, "{set}");
            assert_eq!(most("h2::codec::framed_read"), theirs, "{set}");
        }
        let capped = capped(&"info,pausewatch::pauses=off,opentelemetry=warn".parse().unwrap());
        assert!(!capped.would_enable("pausewatch::pauses", &Level::ERROR));
        assert!(capped.would_enable("opentelemetry_sdk", &Level::WARN));
        assert!(!capped.would_enable("opentelemetry_sdk", &Level::INFO));
        assert!(!capped.would_enable("tokio_rustls", &Level::WARN));
    }
}
