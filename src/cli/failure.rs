//! What a command can fail with, and how it says so: `pausewatch COMMAND: message (CODE REASON)`.
use super::{escape::escaped, exit};
use crate::client::{Address, Error};
use std::{fmt, io, io::Write, process::ExitCode};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line, the environment or the config file is wrong.
    Usage(String),
    /// The coordinator refused, or did not answer.
    Call(Error),
    /// The system refused something.
    System(&'static str, io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl Failure {
    /// Says it on standard error and returns the exit code.
    pub(crate) fn report(&self, command: &str, address: &Address) -> ExitCode {
        say(
            command,
            &match self {
                Self::Usage(why) => why.clone(),
                Self::Call(error) => Called { error, address }.to_string(),
                Self::System(what, error) => format!("{what}: {error}"),
            },
        );
        ExitCode::from(if matches!(self, Self::Usage(_)) { exit::USAGE } else { exit::FAILED })
    }
}

/// One line on standard error; there is nobody to tell if it cannot be written. What comes from others is escaped.
pub(crate) fn say(command: &str, message: &str) {
    let _ = writeln!(io::stderr(), "pausewatch {command}: {}", escaped(message));
}

/// A call's error for people: with what to do when nobody answered, and the code and reason that scripts look for.
pub(crate) struct Called<'a> {
    pub(crate) error: &'a Error,
    pub(crate) address: &'a Address,
}

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, address } = self;
        match error {
            Error::Unavailable(_) | Error::DeadlineExceeded(_) => write!(
                f,
                "no answer from a coordinator at {address}: {}; start one with `pausewatch serve`, or say where it is \
                 with --address or PAUSEWATCH_ADDRESS",
                cause(error)
            )?,
            // Of a field out of its limits the error itself says all but the field's name.
            _ => f.write_str(error.status().message())?,
        }
        let code = code_name(error.code());
        match error.reason() {
            Some(reason) => write!(f, " ({code} {reason})"),
            None => write!(f, " ({code})"),
        }
    }
}

/// The innermost cause says most: "Connection refused", not "transport error".
pub(crate) fn cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error.status());
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    without_number(&text).to_owned()
}

/// A system error's text without Rust's addition of its number.
pub(crate) fn without_number(text: &str) -> &str {
    text.split_once(" (os error").map_or(text, |(text, _)| text)
}

/// As the gRPC documentation spells it: `FAILED_PRECONDITION`.
fn code_name(code: tonic::Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spelled_as_grpc_spells_it() {
        for (code, name) in [
            (tonic::Code::FailedPrecondition, "FAILED_PRECONDITION"),
            (tonic::Code::NotFound, "NOT_FOUND"),
            (tonic::Code::Unavailable, "UNAVAILABLE"),
        ] {
            assert_eq!(code_name(code), name);
        }
    }
}
