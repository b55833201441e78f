//! `pausewatch token`: creates tokens and keys, without a server.
//!
//! 1. Standard output contains the token and nothing else, for a variable or a file. A token is never part of a message.
//! 2. A file with a secret is readable by its owner only, and never replaces another file.
mod add;
mod create;
mod grants;
mod key;
mod problem;
mod signed_anew;
mod signing_key;

use super::output::check_open;
use super::{exit, failure};
use clap::Subcommand;
use problem::Problem;
pub(super) use signed_anew::signed_anew;
pub(super) use signing_key::{KEY_VARIABLE, Key, now};
use std::io::{self, Write};
use std::process::ExitCode;

/// The arguments of `token`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sign a JSON web token and print it. This needs no connection to a server.
    Create(create::Args),
    /// Create a key pair: the private key signs JSON web tokens, the public key lets servers verify them.
    Key(key::Args),
    /// Create a static token, print it, and add its digest to the token file of a server.
    Add(add::Args),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    // This is checked first: otherwise a file could be changed for a token that nobody receives.
    let open = check_open().map_err(|why| Problem::Failed(why.to_string()));
    let made = open.and_then(|()| match args.command {
        Command::Create(args) => create::run(args),
        Command::Key(args) => key::run(&args),
        Command::Add(args) => add::run(args),
    });
    let (why, code) = match made.and_then(print) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Problem::Usage(why)) => (why, exit::USAGE),
        Err(Problem::Failed(why)) => (why, exit::FAILED),
    };
    failure::say("token", &why);
    ExitCode::from(code)
}

fn print(text: String) -> Result<(), Problem> {
    let written = writeln!(io::stdout(), "{text}");
    written.map_err(|error| Problem::Failed(format!("write to standard output: {error}")))
}
