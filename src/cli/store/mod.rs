//! The commands on the store of a server: `backup`, `restore` and `check`.
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod restore;

use super::data_dir::DataDir;
use super::{exit, failure};
use std::path::PathBuf;
use std::process::ExitCode;

/// The data directory; if there is none, reports why and returns the exit code.
fn directory(meant: DataDir, serve: &clap::Command, command: &str) -> Result<PathBuf, ExitCode> {
    meant.find(serve).map_err(|problems| {
        problems.iter().for_each(|why| failure::say(command, why));
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
