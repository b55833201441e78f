//! `pausewatch exec-supervisor` (hidden): the exec server starts it; it runs a command and judges what the command executes.
use super::{exit, failure};
use crate::exec::judge::{CommandSession, Setup, supervise};
use rustix::process::Pid;
use std::{ffi::OsString, process::ExitCode};

/// The arguments of `exec-supervisor`. Standard input is the socket to the exec server.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The process id of the exec server: the command ends with it. Without it, the command runs in the caller's session and process group,
    /// outside of a sandbox.
    #[arg(long)]
    parent: Option<i32>,
    /// Make the command's standard input the terminal of its session.
    #[arg(long)]
    terminal: bool,
    /// Allow huge pages, which are off in this process, for the command.
    #[arg(long)]
    restore_huge_pages: bool,
    /// Ask the exec server about programs of this name.
    #[arg(long = "name")]
    names: Vec<String>,
    /// Also ask about programs that the line itself starts by this name.
    #[arg(long)]
    allowed: Vec<String>,
    /// More arguments of `exec-child`.
    #[arg(required = true, trailing_var_arg = true)]
    child: Vec<OsString>,
}

/// Runs the command. The exec server learns its exit status; the exit code is that of the supervisor.
pub(crate) fn run(args: Args) -> ExitCode {
    let Args { parent, terminal, restore_huge_pages, names, allowed, child } = args;
    let session = match parent {
        Some(parent) => CommandSession::New { parent: Pid::from_raw(parent), terminal },
        None => CommandSession::Inherited,
    };
    let (names, allowed) = (names.into_iter().collect(), allowed.into_iter().collect());
    let setup = Setup { session, restore_huge_pages, names, allowed, child };
    match supervise(setup) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            failure::say("exec-supervisor", &error.to_string());
            ExitCode::from(exit::OWN_FAILURE)
        }
    }
}
