//! The commands on the store of a server: `backup`, `restore` and `check`.
pub mod backup;
pub mod check;
pub mod restore;

use super::data_dir::DataDir;
use super::{exit, failure};
use std::path::PathBuf;
use std::process::ExitCode;

/// The data directory that is meant; else says why there is none, and returns the exit code.
fn directory(meant: DataDir, command: &str) -> Result<PathBuf, ExitCode> {
    meant.find().map_err(|why| {
        failure::say(command, &why);
        ExitCode::from(exit::USAGE)
    })
}

/// Says why, and returns the exit code.
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
