//! `pausewatch exec-reaper` (hidden): kills the remaining commands of an exec server that was killed.
use super::exit;
use crate::exec::supervise::reaper::run_reaper;
use std::process::ExitCode;

/// Waits until the exec server has ended.
pub(crate) fn run() -> ExitCode {
    run_reaper().map_or(ExitCode::from(exit::FAILED), |()| ExitCode::SUCCESS)
}
