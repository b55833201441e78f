//! `pausewatch exec-child` (hidden): the exec server starts it; it sets up session and sandbox, then executes the command.
use super::{exit, failure};
use crate::{
    exec::judge,
    exec::sandbox::{self, Sandbox},
    exec::supervise::{Signal, SpawnError, die_with_parent, session},
};
use rustix::{
    fs::{Access, access},
    process::Pid,
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::PathBuf,
    process::{Command, ExitCode},
};

/// The arguments of `exec-child`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The process id of the exec server, or of the supervisor: the command ends with it.
    #[arg(long)]
    parent: i32,
    /// Standard input is the socket to the supervisor, which leads the session and judges what the command executes.
    #[arg(long, conflicts_with = "terminal")]
    judged: bool,
    /// Make standard input the terminal of the new session.
    #[arg(long)]
    terminal: bool,
    /// Allow huge pages, which are off in this process, for the command.
    #[arg(long)]
    restore_huge_pages: bool,
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
    let in_session = match args.judged {
        true => die_with_parent(Signal::KILL, args.parent),
        false => session::lead(Pid::from_raw(args.parent), args.terminal),
    };
    if let Err(error) = in_session {
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
    let mut command = Command::new(program);
    if args.judged {
        // The first attempt to execute a program is not judged, so it must be the one that succeeds.
        command = Command::new(look_up(program));
        command.arg0(program);
        if let Err(error) = judge::restrict_to_judged() {
            failure::say("exec-child", &format!("the programs of the command cannot be judged: {error}"));
            return ExitCode::from(exit::OWN_FAILURE);
        }
    }
    if args.restore_huge_pages {
        judge::restore_huge_pages(&mut command);
    }
    let error = SpawnError::from(command.args(arguments).exec());
    failure::say("exec-child", &format!("{}: {error}", program.to_string_lossy()));
    ExitCode::from(error.exit_code())
}

/// The first file of this name in the directories of PATH, as `execvp` finds it; the name itself if there is none.
fn look_up(name: &OsStr) -> PathBuf {
    let path = std::env::var_os("PATH").filter(|_| !name.as_bytes().contains(&b'/')).unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found.find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok()).unwrap_or_else(|| name.into())
}
