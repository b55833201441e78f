//! The commands on the store of a server: `backup`, `restore` and `check`.
pub(crate) mod backup;
pub(crate) mod check;
mod place;
pub(crate) mod restore;

use super::{exit, failure};
use crate::coordinator::store::OpenError;
use std::process::ExitCode;

/// The exit code for options that do not fit, after a report.
fn misused(command: &str, problems: &[String]) -> ExitCode {
    problems.iter().for_each(|why| failure::say(command, why));
    ExitCode::from(exit::USAGE)
}

/// Runs a future that calls etcd.
fn block_on<T>(talk: impl Future<Output = Result<T, OpenError>>) -> Result<T, OpenError> {
    let runtime = crate::cli::runtime::start();
    runtime.map_err(|error| OpenError::Io(format!("start: {error}")))?.block_on(talk)
}

/// Reports the reason, and returns the exit code.
fn failed(command: &str, why: &str) -> ExitCode {
    failure::say(command, why);
    ExitCode::from(exit::FAILED)
}

/// A number of things, in words.
fn count(number: u64, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// A moment of the wall clock, for people.
fn moment(nanos: i64) -> String {
    match jiff::Timestamp::from_nanosecond(nanos.into()) {
        Ok(moment) => format!("{:.0}", moment),
        Err(_) => "an unknown time".into(),
    }
}
