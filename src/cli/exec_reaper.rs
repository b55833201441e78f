//! `pausewatch exec-reaper`, hidden: ends the commands of an exec server that was killed.
use super::exit;
use crate::exec::supervise::reaper::keep_watch;
use std::process::ExitCode;

/// Waits until the exec server has ended.
pub(crate) fn run() -> ExitCode {
    keep_watch().map_or(ExitCode::from(exit::FAILED), |()| ExitCode::SUCCESS)
}
