//! `pausewatch exec-supervisor` (hidden): the exec server starts it; it runs a command and judges what the command executes.
use super::{
    exec_child, exit, failure,
    internal::{Arguments, Invalid},
};
use crate::exec::judge::{CommandSession, Role, Setup, begin};
use rustix::process::Pid;
use std::{io, process::ExitCode};

/// The arguments of `exec-supervisor`. Standard input is the socket to the exec server.
pub(super) struct Args {
    setup: Setup,
    command: exec_child::Command,
}

impl Args {
    /// Its options, `--`, and then those of the command.
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let (mut parent, mut terminal) = (None, false);
        let mut setup = Setup::default();
        while let Some(option) = arguments.option() {
            match option.to_str() {
                // The process id of the exec server: the command ends with it. Without this option, the command runs in
                // the caller's session and process group, outside of a sandbox.
                Some("--parent") => parent = Some(arguments.parsed()?),
                // Make the command's standard input the terminal of its session.
                Some("--terminal") => terminal = true,
                // Huge pages are off in this process, but not for the command.
                Some("--restore-huge-pages") => setup.restore_huge_pages = true,
                // Ask the exec server about programs of this name.
                Some("--name") => _ = setup.names.insert(arguments.parsed()?),
                // Also ask about programs that the line itself starts by this name.
                Some("--allowed") => _ = setup.allowed.insert(arguments.parsed()?),
                _ => return Err(Invalid),
            }
        }
        if let Some(parent) = parent {
            setup.session = CommandSession::New { parent: Pid::from_raw(parent), terminal };
        }
        let mut command = exec_child::Command::parse(arguments)?;
        command.restore_huge_pages = setup.restore_huge_pages;
        setup.open_files = command.open_files;
        Ok(Self { setup, command })
    }
}

/// Runs the command, and reports its exit status to the exec server; the exit code is that of the supervisor itself. In
/// the process that becomes the command, this returns only on failure.
pub(crate) fn run(args: Args) -> ExitCode {
    match begin(args.setup) {
        Ok(Role::Command(process)) => args.command.run_judged(process),
        Ok(Role::Supervisor(supervision)) => {
            drop(args.command);
            supervision.run().map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &io::Error) -> ExitCode {
    failure::say("exec-supervisor", &error.to_string());
    ExitCode::from(exit::OWN_FAILURE)
}
