//! Commands that run a program which asks a person for a passphrase, and pause the thread meanwhile.
pub(super) mod askpass;
pub(crate) mod pinentry;
mod real_program;
mod reason;
mod terminal;

use std::{ffi::OsString, path::Path};

/// Adds the command to the arguments if this process was started by the name of a link: `pausewatch-askpass PROMPT`
/// becomes `pausewatch askpass -- PROMPT`. The links exist because ssh, sudo and gpg-agent start a path without further
/// arguments.
pub(super) fn with_command_of_link(arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let command = match name {
        Some("pausewatch-askpass") => "askpass",
        Some("pausewatch-pinentry") => "pinentry",
        _ => return arguments,
    };
    let mut rest = arguments.into_iter();
    rest.next().into_iter().chain([command.into(), "--".into()]).chain(rest).collect()
}
