//! `pausewatch sandbox-exec`: restricts this process to a sandbox, then becomes the command. Hidden: programs start it.
use super::exit;
use crate::{exec::sandbox::Sandbox, exec::supervise::SpawnError};
use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

/// The arguments of `sandbox-exec`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "pausewatch sandbox-exec [--writable PATH]... -- PROGRAM [ARG]...")]
pub struct Args {
    /// A file or directory that PROGRAM may change; it reads all others.
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
    #[arg(
        value_name = "PROGRAM [ARG]",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        hide = true
    )]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only if that fails: 125, 126 or 127, as `run` does.
pub(crate) fn run(args: Args) -> ExitCode {
    if let Err(error) = Sandbox::new(args.writable).enforce() {
        eprintln!("pausewatch: {error}");
        return ExitCode::from(exit::OWN_FAILURE);
    }
    let (program, args) = args.command.split_first().expect("clap asks for one");
    let error = SpawnError::from(Command::new(program).args(args).exec());
    eprintln!("pausewatch: {}: {error}", program.display());
    ExitCode::from(error.exit_code())
}
