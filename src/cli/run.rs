//! `pausewatch run`.
use std::process::ExitCode;

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> ExitCode {
    ExitCode::from(super::exit::OWN_FAILURE)
}
