//! `pausewatch exec-supervisor` (hidden): the exec server starts it; it runs a command and judges what the command executes.
use super::{exit, failure};
use crate::exec::judge::{Setup, supervise};
use rustix::process::Pid;
use std::{ffi::OsString, process::ExitCode};

/// The arguments of `exec-supervisor`. Standard input is the socket to the exec server.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process id of the exec server: the command ends with it.
    #[arg(long)]
    parent: i32,
    /// Make the command's standard input the terminal of its session.
    #[arg(long)]
    terminal: bool,
    /// Ask the exec server about programs of this name.
    #[arg(long = "name")]
    names: Vec<String>,
    /// More arguments of `exec-child`.
    #[arg(required = true, trailing_var_arg = true)]
    child: Vec<OsString>,
}

/// Runs the command. The exec server learns its exit status; the exit code is that of the supervisor.
pub(crate) fn run(args: Args) -> ExitCode {
    let Args { parent, terminal, names, child } = args;
    let setup = Setup { parent: Pid::from_raw(parent), terminal, names: names.into_iter().collect(), child };
    match supervise(setup) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            failure::say("exec-supervisor", &error.to_string());
            ExitCode::from(exit::OWN_FAILURE)
        }
    }
}
