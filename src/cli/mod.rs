//! The program: one file per command, and what they share.
//!
//! A command is an `Args` (what clap parses) and a function that runs it and returns the exit code. `run` and `hold`
//! promise 125 for bad usage (as GNU `timeout` does), all others 2.
mod call;
pub mod config;
mod config_file;
mod connection;
mod coordinator;
mod data_dir;
pub mod decrement;
pub mod duration;
mod escape;
#[cfg(feature = "exec-server")]
pub mod exec_child;
#[cfg(feature = "exec-server")]
pub mod exec_server;
#[cfg(feature = "exec-server")]
pub mod exec_warden;
pub mod exit;
mod failure;
pub mod get;
pub mod health;
pub mod hold;
pub mod increment;
mod layers;
pub mod list;
pub mod manual;
mod output;
pub mod renew;
pub mod run;
pub mod sandbox_exec;
pub mod serve;
pub mod store;
mod table;
pub mod token;
mod traces;
pub mod watch;
mod wire;

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
    Serve(Box<serve::Args>),
    /// Serve MCP tools that run commands under such limits.
    #[cfg(feature = "exec-server")]
    ExecServer(Box<exec_server::Args>),
    /// Become a command of the exec server.
    #[cfg(feature = "exec-server")]
    #[command(hide = true)]
    ExecChild(exec_child::Args),
    /// End the commands of an exec server that was killed.
    #[cfg(feature = "exec-server")]
    #[command(hide = true)]
    ExecWarden,
    /// Run a command, and pause its thread until the command has ended.
    Hold(hold::Args),
    /// Open an elicitation: its thread is paused until it is closed.
    Increment(increment::Args),
    /// Close an elicitation.
    Decrement(decrement::Args),
    /// Extend the lease of an elicitation.
    Renew(renew::Args),
    /// Show one thread.
    Get(get::Args),
    /// Show who waits for whom, for what, and since when.
    List(list::Args),
    /// Show the states of threads as they change.
    Watch(watch::Args),
    /// Restrict what a command can write, and become it.
    #[command(hide = true)]
    SandboxExec(sandbox_exec::Args),
    /// Make tokens, and the keys that sign them.
    Token(token::Args),
    /// Ask whether the coordinator serves.
    Health(health::Args),
    /// Copy the store of a server into a file, while it runs.
    Backup(store::backup::Args),
    /// Make a store of a backup.
    Restore(store::restore::Args),
    /// Check a store, or a backup, without a change to it.
    Check(store::check::Args),
    /// Check the config file.
    Config(config::Args),
    /// Print the completions of a shell.
    Completions(manual::CompletionsArgs),
    /// Print or write the manual pages.
    Man(manual::ManArgs),
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    let program = match layers::parse(std::env::args_os().collect()) {
        Ok(program) => program,
        Err(code) => return code,
    };
    match program.command {
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::run(*args),
        #[cfg(feature = "exec-server")]
        Command::ExecServer(args) => exec_server::run(*args),
        #[cfg(feature = "exec-server")]
        Command::ExecChild(args) => exec_child::run(args),
        #[cfg(feature = "exec-server")]
        Command::ExecWarden => exec_warden::run(),
        Command::Hold(args) => hold::run(args),
        Command::Increment(args) => increment::run(args),
        Command::Decrement(args) => decrement::run(args),
        Command::Renew(args) => renew::run(args),
        Command::Get(args) => get::run(args),
        Command::List(args) => list::run(args),
        Command::Watch(args) => watch::run(args),
        Command::SandboxExec(args) => sandbox_exec::run(args),
        Command::Token(args) => token::run(args),
        Command::Health(args) => health::run(args),
        Command::Backup(args) => store::backup::run(args),
        Command::Restore(args) => store::restore::run(args),
        Command::Check(args) => store::check::run(args),
        Command::Config(args) => config::run(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    }
}
