//! The warnings of the client library about certificate files that became invalid, for a command that has no log.
use super::failure::say;
use crate::client::Settings;
use std::io;
use tracing_subscriber::{filter::Targets, prelude::*};

/// Prints these warnings for a command. Call it before the client of that command connects.
pub(crate) fn report(command: &'static str, settings: &Settings) {
    if [&settings.tls_ca, &settings.tls_cert, &settings.tls_key].iter().all(|file| file.is_none()) {
        return;
    }
    let lines = tracing_subscriber::fmt::layer().without_time().with_level(false).with_target(false).with_ansi(false);
    let lines = lines.with_writer(move || Warnings(command));
    let targets = Targets::new().with_target("pausewatch::client::tls", tracing::Level::WARN);
    // Fails only if there is a log already.
    let _ = tracing_subscriber::registry().with(targets).with(lines).try_init();
}

/// Prints each line as a warning of a command.
struct Warnings(&'static str);

impl io::Write for Warnings {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        say(self.0, &format!("warning: {}", String::from_utf8_lossy(line).trim()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
