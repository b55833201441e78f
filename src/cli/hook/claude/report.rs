//! Messages of `hook claude` on standard error.
use crate::cli::{exit, failure};
use std::process::ExitCode;

pub(super) fn say(message: &str) {
    failure::say("hook claude", message);
}

/// Reports why a command failed, and returns its exit code.
pub(super) fn failed(why: &str) -> ExitCode {
    say(why);
    ExitCode::from(exit::FAILED)
}

/// Like [`failed`], for the processes of a clock: returns the exit code that `run` uses for its own failures.
pub(super) fn clock_failed(why: &str) -> ExitCode {
    say(why);
    ExitCode::from(exit::OWN_FAILURE)
}
