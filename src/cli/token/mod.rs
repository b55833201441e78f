//! `pausewatch token`: makes what a server takes as proof, without a server.
//!
//! 1. Standard output has the token and nothing else, for a variable or a file. A token is never in a message.
//! 2. A file with a secret is made so that nobody else can read it, and never over another one.
mod add;
mod create;
mod grants;
mod key;
mod problem;
mod signing_key;

use super::{exit, failure};
use clap::Subcommand;
use problem::Problem;
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
    /// Print a JSON web token, signed with a key: no server is asked, and none has to be told.
    Create(create::Args),
    /// Make a key pair: one that signs JSON web tokens, and one by which servers know them.
    Key(key::Args),
    /// Print a new token, and add its digest to a server's file of tokens.
    Add(add::Args),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let made = match args.command {
        Command::Create(args) => create::run(args),
        Command::Key(args) => key::run(&args),
        Command::Add(args) => add::run(args),
    };
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
