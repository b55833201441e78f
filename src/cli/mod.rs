//! The program: one file per command, and what they share.
//!
//! A command is an `Args` (what clap parses) and a function that runs it and returns the exit code. `run` and `hold`
//! promise 125 for bad usage (as GNU `timeout` does), all others 2.
pub mod duration;
pub mod exit;
pub mod run;
pub mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Freezes the timeouts of an agent's commands while a person is being asked something.
#[derive(Debug, Parser)]
#[command(name = "pausewatch", version)]
pub struct Program {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command with a time limit that stands still while its thread is paused.
    Run(run::Args),
    /// Serve the pause state of threads to tools and exec servers.
    Serve(serve::Args),
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => return exit::usage(&error),
    };
    match program.command {
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::run(args),
    }
}
