//! `pausewatch exec-warden`, hidden: ends the commands of an exec server that was killed.
use super::exit;
use crate::exec::warden::keep_watch;
use std::process::ExitCode;

/// Waits until the exec server has ended.
pub fn run() -> ExitCode {
    keep_watch().map_or(ExitCode::from(exit::FAILED), |()| ExitCode::SUCCESS)
}
