//! Failures of commands, and their messages: `pausewatch COMMAND: message (CODE REASON)`.
use super::{connection::NO_THREAD, exit, quote::quoted, stderr};
use crate::causes::causes;
use crate::client::error::hint;
use crate::client::not_grpc::NO_COORDINATOR;
use crate::client::{Address, ConfigError, Error};
use crate::coordinator::metrics::CODES;
use crate::escape::escaped;
use crate::exec::supervise::{ExitAction, Signal, SpawnError};
use std::{ffi::OsStr, io, process::ExitCode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{NO_THREAD}")]
    NoThread,
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The coordinator refused the call, or did not respond.
    #[error(transparent)]
    Call(#[from] Error),
    /// The coordinator did not respond. The text has further findings.
    #[error("{0}; {1}")]
    Unanswered(Error, String),
    /// A signal came before the call had its effect: this process ends by it.
    #[error("interrupted by {0}")]
    Interrupted(Signal),
    /// The system refused an action.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// The next step if no coordinator listens at the address.
pub(crate) const START_ONE: &str =
    "start one with `pausewatch serve`, or set its address with --address or PAUSEWATCH_ADDRESS";

/// The exit code of a command. A failure is reported on standard error. Dies by the signal that interrupted the command.
pub(crate) fn exit_code(command: &str, address: &Address, result: Result<(), Failure>) -> ExitCode {
    let (message, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Interrupted(signal)) => return ExitAction::Die { signal, dumped_core: false }.carry_out(),
        Err(Failure::Call(error)) => (call_error(&error, address), exit::FAILED),
        Err(Failure::Unanswered(error, known)) => (unanswered(&error, address, &known), exit::FAILED),
        Err(failure @ Failure::System(..)) => (failure.to_string(), exit::FAILED),
        Err(failure) => (failure.to_string(), exit::USAGE),
    };
    say(command, &message);
    ExitCode::from(code)
}

/// Prints one line on standard error, in one write: a command that we run writes there too. A failed write is ignored.
pub(crate) fn say(command: &str, message: &str) {
    stderr::write_line(format!("pausewatch {command}: {}\n", escaped(message)).as_bytes());
}

/// Reports that a command was not started, in the words of GNU `timeout`, and returns the exit code for that.
pub(crate) fn cannot_run(caller: &str, program: &OsStr, error: &SpawnError) -> ExitCode {
    let cause = error.cause().to_string();
    say(caller, &format!("failed to run command {}: {}", quoted(program), without_number(&cause)));
    ExitCode::from(error.exit_code())
}

/// The message for a failed call of the coordinator at `address`, with the code and the reason that scripts look for.
pub(crate) fn call_error(error: &Error, address: &Address) -> String {
    match error {
        Error::Unavailable(_) | Error::DeadlineExceeded(_) => unanswered(error, address, advice(error, address)),
        // A web server, or a proxy that has no coordinator behind it.
        _ if error.status().message().starts_with(NO_COORDINATOR) => {
            unanswered(error, address, "what answers there is no coordinator; correct --address or PAUSEWATCH_ADDRESS")
        }
        _ => with_code(error.status().message(), error),
    }
}

/// The next step for a caller who knows only the error. A broken or refused connection has a cause; a timeout, or a
/// refusal by a replica that knows no leader, has none.
fn advice(error: &Error, address: &Address) -> &'static str {
    match std::error::Error::source(error.status()) {
        _ if hint(&cause(error)).is_some() => "",
        Some(_) => START_ONE,
        None if address.each().len() > 1 => "`pausewatch health --fleet` shows which replicas can be used",
        None => "`pausewatch health` shows whether it serves",
    }
}

/// The message for a call that was not answered, with the findings in `known`.
fn unanswered(error: &Error, address: &Address, known: &str) -> String {
    let separator = if known.is_empty() { "" } else { "; " };
    with_code(&format!("no response from a coordinator at {address}: {}{separator}{known}", cause(error)), error)
}

fn with_code(message: &str, error: &Error) -> String {
    let code = CODES[error.code() as usize];
    match error.reason() {
        Some(reason) => format!("{message} ({code} {reason})"),
        None => format!("{message} ({code})"),
    }
}

/// The innermost cause, which is the most specific: "Connection refused" instead of "transport error". A hint is
/// appended if there is one.
pub(crate) fn cause(error: &Error) -> String {
    let text = causes(error.status()).last().map_or_else(|| error.to_string(), ToString::to_string);
    let text = without_number(&text);
    let hint = hint(text).filter(|hint| !text.ends_with(hint)).unwrap_or_default();
    format!("{text}{hint}")
}

/// The text of a system error without the number that Rust appends.
pub(crate) fn without_number(text: &str) -> &str {
    text.split_once(" (os error").map_or(text, |(text, _)| text)
}
