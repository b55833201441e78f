//! `pausewatch askpass`: ssh, git and sudo call it to ask a person for a passphrase. The thread is paused meanwhile.
//!
//! 1. The real program inherits our standard output, and writes the answer there. This process never reads the answer.
//! 2. A problem with the pause is a warning: the person is asked anyway. The exit code is that of the real program.
//! 3. A real program that calls this one again is an error, not a loop.
//! 4. When the program that needs the answer has ended, this one and the real program end.
use super::{real_program, reason::reason, terminal};
use crate::cli::{
    connection::{Connection, Thread},
    exit,
    failure::say,
    hold,
};
use std::{env, ffi::OsString, process::ExitCode, time::Duration};

/// The variable by which a real program that calls this one is recognized.
const ACTIVE: &str = "PAUSEWATCH_ASKPASS_ACTIVE";
/// The usual programs: first the one that the distribution chose, then those of the desktops.
const NAMES: [&str; 6] = [
    "ssh-askpass",
    "ksshaskpass",
    "lxqt-openssh-askpass",
    "gnome-ssh-askpass",
    "x11-ssh-askpass",
    "seahorse-ssh-askpass",
];
/// The directories where distributions have them.
const DIRECTORIES: [&str; 6] = [
    "/usr/lib/ssh",
    "/usr/libexec",
    "/usr/lib/openssh",
    "/usr/libexec/openssh",
    "/usr/lib/seahorse",
    "/usr/libexec/seahorse",
];

/// The arguments of `askpass`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The question; it is the reason of the pause, which list, get and watch show.
    #[arg(value_name = "PROMPT", default_value = "", hide_default_value = true)]
    prompt: OsString,
    /// The lease, 1s to 24h: if pausewatch is killed, the pause ends within this time.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = crate::cli::duration::parse_ttl)]
    ttl: Duration,
    /// Ask at the terminal, without a pause.
    #[arg(long, hide = true)]
    at_terminal: bool,
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    connection: Connection,
}

const AFTER_HELP: &str = "\
A link to pausewatch named pausewatch-askpass is this command, for SSH_ASKPASS (with SSH_ASKPASS_REQUIRE=force), GIT_ASKPASS \
and SUDO_ASKPASS.

The program that PAUSEWATCH_ASKPASS names asks the person; else ssh-askpass, ksshaskpass or another usual one. Without any of them, or \
without a display, the question appears on the terminal. The output and the exit status of this command are those of the program that \
asked. If the thread cannot be paused, pausewatch prints a warning, and the person is asked anyway.";

/// Asks, and returns the exit code of the program that asked.
pub(crate) fn run(args: Args) -> ExitCode {
    if args.at_terminal {
        return terminal::ask(&args.prompt.to_string_lossy());
    }
    if env::var_os(ACTIVE).is_some() {
        say("askpass", "the program that asks calls pausewatch askpass again; name another in PAUSEWATCH_ASKPASS");
        return ExitCode::from(exit::FAILED);
    }
    let command = match command(&args.prompt) {
        Ok(command) => command,
        Err(why) => {
            say("askpass", &why);
            return ExitCode::from(exit::FAILED);
        }
    };
    let reason = reason(&args.prompt.to_string_lossy());
    let held = hold::Args::around("askpass", command, reason, args.ttl, args.thread, args.connection);
    hold::run(held.with_variable(ACTIVE, "1"))
}

fn command(prompt: &OsString) -> Result<Vec<OsString>, String> {
    let named = env::var_os("PAUSEWATCH_ASKPASS").is_some_and(|value| !value.is_empty());
    let found = real_program::find("PAUSEWATCH_ASKPASS", &NAMES, &DIRECTORIES)?;
    let has_display = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()));
    let at_terminal = || -> Result<Vec<OsString>, String> {
        let own = env::current_exe().map_err(|error| format!("the path of pausewatch: {error}"))?;
        Ok(vec![own.into(), "askpass".into(), "--at-terminal".into(), "--".into(), prompt.clone()])
    };
    match found {
        Some(program) if named || has_display || !terminal::exists() => Ok(vec![program.into(), prompt.clone()]),
        _ if terminal::exists() => at_terminal(),
        _ => Err("no program to ask with and no terminal: name one in PAUSEWATCH_ASKPASS".into()),
    }
}
