//! `pausewatch bridge`: agents that have a clock of their own follow the coordinator.
//!
//! `follow.rs` is the bridge to Codex, `reconcile.rs` its pure core. An app-server is reached in one of two ways: `wrapper.rs`
//! runs it, `socket.rs` connects to one that listens.
mod codex;
mod connection;
mod follow;
mod guard;
mod initialize;
mod lines;
mod message;
mod publish;
mod reconcile;
mod report;
mod socket;
mod wrapper;

use clap::Subcommand;
pub use initialize::{Line as ClientLine, complete as complete_initialize};
pub use message::is_for_client;
use std::process::ExitCode;

/// The arguments of `bridge`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stop the clocks of Codex's commands while their thread is paused.
    Codex(Box<codex::Args>),
    /// Undo the counts of a bridge that was killed.
    #[command(hide = true)]
    CodexGuard(guard::Args),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Codex(args) => codex::run(*args),
        Command::CodexGuard(args) => guard::run(&args),
    }
}
