//! Exit codes, and what a bad command line gets.
use std::process::ExitCode;

/// A refusal by the server, or no connection.
pub const FAILED: u8 = 1;
/// Bad usage, for all commands but `run` and `hold`.
pub const USAGE: u8 = 2;
/// `run` and `hold`: bad usage, or they themselves failed.
pub const OWN_FAILURE: u8 = 125;

/// Prints what clap has to say and returns the code that goes with it: 0 for `--help` and `--version`.
pub fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let wraps_a_command =
        matches!(std::env::args_os().nth(1).as_deref().and_then(|a| a.to_str()), Some("run" | "hold" | "sandbox-exec"));
    match error.use_stderr() {
        false => ExitCode::SUCCESS,
        true if wraps_a_command => ExitCode::from(OWN_FAILURE),
        true => ExitCode::from(USAGE),
    }
}
