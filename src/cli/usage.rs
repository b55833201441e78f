//! The messages of clap: wrong usage, `--help` and `--version`.
use super::exit::FAILED;
use super::failure::{Failure, say};
use super::output::check_open;
use clap::error::ErrorKind as Kind;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Adds the name of the option to an error about text that is not UTF-8, which clap does not name.
pub(crate) fn explained(error: clap::Error, program: &clap::Command, arguments: &[OsString]) -> clap::Error {
    if error.kind() != Kind::InvalidUtf8 {
        return error;
    }
    // Paths and the words of a command may contain any bytes. The invalid argument is the one whose conversion to UTF-8
    // removes the error.
    let mut rest = arguments.to_vec();
    let is_meant = |index: &usize| {
        rest[*index] = arguments[*index].to_string_lossy().into_owned().into();
        let parsed = program.clone().try_get_matches_from(&rest);
        !parsed.is_err_and(|error| error.kind() == Kind::InvalidUtf8)
    };
    let mut not_utf8 = (1..arguments.len()).filter(|index| arguments[*index].to_str().is_none());
    let Some(index) = not_utf8.find(is_meant) else { return error };
    let (text, before) = (arguments[index].to_string_lossy(), arguments[index - 1].to_string_lossy());
    // Without the value, which may be a secret.
    let name: &str = match text.split_once('=') {
        Some((option, _)) if option.starts_with("--") => option,
        _ if before.starts_with('-') && before != "--" => &before,
        _ => &text,
    };
    let mut full = program.clone();
    full.build();
    let commands = arguments[1..].iter().scan(&full, |command, name| {
        *command = command.find_subcommand(name)?;
        Some(*command)
    });
    let mut command = commands.last().unwrap_or(&full).clone();
    command.error(
        Kind::InvalidUtf8,
        format!("{name}: not UTF-8; write it in UTF-8, or convert it, as with `iconv -f LATIN1 -t UTF-8`"),
    )
}

/// Prints a message of clap and returns `code`, or 0 if the message is the output of `--help` or `--version`.
pub(crate) fn exit_code(error: &clap::Error, code: u8) -> ExitCode {
    if error.use_stderr() {
        let _ = error.print();
        return ExitCode::from(code);
    }
    let printed = check_open()
        .and_then(|()| error.print().map_err(|why| Failure::System("write to standard output".into(), why)));
    match printed {
        Err(Failure::System(_, why)) if why.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say("help", &why.to_string());
            ExitCode::from(FAILED)
        }
    }
}
