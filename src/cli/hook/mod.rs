//! `pausewatch hook`: agents call it at their events, so that the limits of their own commands wait for people.
pub(crate) mod claude;

use std::process::ExitCode;

/// The arguments of `hook`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Give the Bash commands of Claude Code a time limit that is paused while their session waits for a person.
    Claude(claude::Args),
}

pub(crate) fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Claude(args) => claude::run(args),
    }
}
