//! The arguments of the hidden commands, which only this program starts: `--name VALUE` or `--name`, up to `--` or the first operand.
//!
//! There are many of these short processes, so they do not use clap: it would take most of the time of their start, and
//! much of the memory of a supervisor.
use super::{exit, failure};
use std::{ffi::OsString, process::ExitCode, str::FromStr};

/// The arguments of a hidden command that are left to read.
pub(super) struct Arguments(std::iter::Peekable<std::vec::IntoIter<OsString>>);

/// Invalid arguments, which this program never passes.
#[derive(Debug, thiserror::Error)]
#[error("invalid arguments: pausewatch itself starts this command, with others")]
pub(super) struct Invalid;

impl Arguments {
    /// `arguments`: those after the name of the command.
    pub(super) fn new(arguments: Vec<OsString>) -> Self {
        Self(arguments.into_iter().peekable())
    }

    /// The next option; `None`: only operands are left.
    pub(super) fn option(&mut self) -> Option<OsString> {
        let option = self.0.next_if(|argument| argument.as_encoded_bytes().starts_with(b"--"))?;
        (option != "--").then_some(option)
    }

    /// The value of the option.
    pub(super) fn value(&mut self) -> Result<OsString, Invalid> {
        self.0.next().ok_or(Invalid)
    }

    /// The value of the option, parsed.
    pub(super) fn parsed<T: FromStr>(&mut self) -> Result<T, Invalid> {
        self.value()?.to_str().and_then(|text| text.parse().ok()).ok_or(Invalid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The operands, of which there is at least one.
    pub(super) fn operands(self) -> Result<Vec<OsString>, Invalid> {
        let operands: Vec<_> = self.0.collect();
        if operands.is_empty() { Err(Invalid) } else { Ok(operands) }
    }
}

/// Runs a hidden command with its arguments.
pub(super) fn run<A>(
    command: &str,
    arguments: &[OsString],
    parse: impl FnOnce(Arguments) -> Result<A, Invalid>,
    run: impl FnOnce(A) -> ExitCode,
) -> ExitCode {
    match parse(Arguments::new(arguments.to_vec())) {
        Ok(parsed) => run(parsed),
        Err(invalid) => {
            failure::say(command, &invalid.to_string());
            ExitCode::from(exit::USAGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(all: &[&str]) -> Arguments {
        Arguments::new(all.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_end_at_two_dashes_or_at_an_operand() {
        let mut read = arguments(&["--parent", "7", "--terminal", "--", "--x", "y"]);
        assert_eq!(read.option().unwrap(), "--parent");
        assert_eq!(read.parsed::<i32>().unwrap(), 7);
        assert_eq!((read.option().unwrap(), read.option()), ("--terminal".into(), None));
        assert_eq!(read.operands().unwrap(), ["--x", "y"]);
        let mut read = arguments(&["7", "--terminal"]);
        assert_eq!(read.option(), None);
        assert_eq!(read.operands().unwrap(), ["7", "--terminal"]);
    }

    #[test]
    fn what_is_missing_or_no_number_is_invalid() {
        assert!(arguments(&[]).value().is_err());
        assert!(arguments(&[]).operands().is_err());
        assert!(arguments(&["x"]).parsed::<i32>().is_err());
    }
}
