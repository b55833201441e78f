//! `pausewatch exec-child` (hidden): the exec server starts it; it sets up session and sandbox, then executes the command.
use super::{exit, failure};
use crate::{
    exec::sandbox::{self, Sandbox},
    exec::supervise::{SpawnError, session},
};
use rustix::process::Pid;
use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

/// The arguments of `exec-child`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process id of the exec server: the command ends with it.
    #[arg(long)]
    parent: i32,
    /// Make standard input the terminal of the new session.
    #[arg(long)]
    terminal: bool,
    /// The directory to execute the command in, without symbolic links.
    #[arg(long)]
    workdir: Option<PathBuf>,
    /// Allow the command to change only the writable files.
    #[arg(long)]
    sandbox: bool,
    /// A file or directory that the command may change.
    #[arg(long)]
    writable: Vec<PathBuf>,
    #[arg(required = true, trailing_var_arg = true)]
    operands: Vec<OsString>,
}

/// Executes the command. Returns only on failure: 125, 126 or 127, like `run`.
pub(crate) fn run(args: Args) -> ExitCode {
    if let Err(error) = session::lead(Pid::from_raw(args.parent), args.terminal) {
        failure::say("exec-child", &format!("cannot start a session: {error}"));
        return ExitCode::from(exit::OWN_FAILURE);
    }
    if let Some(directory) = &args.workdir
        && let Err(error) = sandbox::enter(directory)
    {
        failure::say("exec-child", &format!("cannot enter the working directory {}: {error}", directory.display()));
        return ExitCode::from(exit::OWN_FAILURE);
    }
    if args.sandbox
        && let Err(error) = Sandbox::new(args.writable).enforce()
    {
        failure::say("exec-child", &error.to_string());
        return ExitCode::from(exit::OWN_FAILURE);
    }
    let (program, arguments) = args.operands.split_first().expect("clap requires one");
    let error = SpawnError::from(Command::new(program).args(arguments).exec());
    failure::say("exec-child", &format!("{}: {error}", program.to_string_lossy()));
    ExitCode::from(error.exit_code())
}
