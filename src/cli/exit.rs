//! Exit codes of the program itself.
use std::process::ExitCode;

/// The coordinator refused the call or did not respond, or the system refused something.
pub(crate) const FAILED: u8 = 1;
/// Bad usage, for all commands except `run` and `hold`.
pub const USAGE: u8 = 2;
/// Bad usage or a failure of our own, for `run` and `hold`: other codes are those of the command that they run.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Prints a message of clap and returns `code`, or 0 if the message is the output of `--help` or `--version`.
pub(crate) fn usage(error: &clap::Error, code: u8) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(code) } else { ExitCode::SUCCESS }
}
