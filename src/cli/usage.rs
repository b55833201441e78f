//! The messages of clap: wrong usage, `--help` and `--version`.
//!
//! Clap quotes arguments as they are, and an argument may come from another program, such as the name of a branch. What
//! is printed is therefore the error about the same arguments in their escaped form.
use super::exit::FAILED;
use super::failure::{Failure, say};
use super::output::check_open;
use crate::escape::escaped;
use clap::error::ErrorKind as Kind;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

/// The arguments with hostile characters escaped. Bytes that are not UTF-8 stay: clap shows them as U+FFFD.
pub(crate) fn harmless(arguments: &[OsString]) -> Vec<OsString> {
    let escape = |argument: &OsString| {
        let mut safe = Vec::with_capacity(argument.len());
        for chunk in argument.as_bytes().utf8_chunks() {
            safe.extend_from_slice(escaped(chunk.valid()).as_bytes());
            safe.extend_from_slice(chunk.invalid());
        }
        OsString::from_vec(safe)
    };
    arguments.iter().map(escape).collect()
}

/// The error that is printed: about `harmless` arguments, and with the name of the option if the text is not UTF-8,
/// which clap does not name. `error` is about the arguments as they are.
pub(crate) fn explained(error: clap::Error, program: &clap::Command, harmless: &[OsString]) -> clap::Error {
    match program.clone().try_get_matches_from(harmless) {
        Err(same) if same.kind() == error.kind() => with_option(same, program, harmless),
        // A value that is wrong only because of the characters themselves: the text, without colors, which clap sets by
        // the same characters.
        _ => program.clone().error(error.kind(), body(&error)),
    }
}

/// The text of an error on one line, without what [`clap::Command::error`] adds.
fn body(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    escaped(text.split("\n\n").next().unwrap_or_default().trim_end())
}

fn with_option(error: clap::Error, program: &clap::Command, arguments: &[OsString]) -> clap::Error {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Program;
    use clap::CommandFactory;

    #[test]
    fn clap_shows_no_hostile_character_of_an_argument() {
        let program = Program::command();
        for arguments in [
            &["get", "--\u{202e}txt.exe"][..],
            &["get", "t", "\u{1b}]0;title\u{7}"],
            &["\u{1b}[8mhidden"],
            &["serve", "--store", "x\u{9b}2J"],
            &["serve", "--audit-max-size", "1\u{200b}MiB"],
            &["get", "--thread", "\u{1b}[2J", "--output", "x"],
        ] {
            let arguments: Vec<OsString> = ["pausewatch"].iter().chain(arguments).map(OsString::from).collect();
            let error = program.clone().try_get_matches_from(&arguments).expect_err("it is wrong usage");
            let kind = error.kind();
            let shown = explained(error, &program, &harmless(&arguments));
            // The styles of clap are escape sequences too.
            let text = shown.render().ansi().to_string().replace("\u{1b}[", "");
            assert!(text.chars().all(|c| c == '\n' || escaped(&c.to_string()) == c.to_string()), "{text:?}");
            assert_eq!(shown.kind(), kind, "{text}");
        }
    }
}
