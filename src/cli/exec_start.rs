//! `pausewatch exec-start` (hidden): the supervisor of a command starts it; it becomes an approved program.
use super::failure;
use crate::exec::{judge::become_approved, supervise::SpawnError};
use std::process::ExitCode;

/// Executes the program. Returns only on failure: 125, 126 or 127, like `run`.
pub(crate) fn run() -> ExitCode {
    let Err(error) = become_approved() else { return ExitCode::SUCCESS };
    let error = SpawnError::from(error);
    failure::say("exec-start", &error.to_string());
    ExitCode::from(error.exit_code())
}
