//! `pausewatch exec-reaper` (hidden): kills the remaining commands of an exec server that was killed.
use super::{
    exit,
    internal::{Arguments, Invalid},
};
use crate::exec::supervise::reaper::run_reaper;
use std::process::ExitCode;

/// The arguments of `exec-reaper`.
pub(super) struct Args {
    /// The sessions that run at its start.
    sessions: Vec<i32>,
}

impl Args {
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let mut sessions = Vec::new();
        while !arguments.is_empty() {
            sessions.push(arguments.parsed()?);
        }
        Ok(Self { sessions })
    }
}

/// Waits until the exec server has ended.
pub(crate) fn run(args: Args) -> ExitCode {
    run_reaper(args.sessions).map_or(ExitCode::from(exit::FAILED), |()| ExitCode::SUCCESS)
}
