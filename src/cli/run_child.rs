//! `pausewatch run-child` (hidden): `run` and `hold` start it; it prepares what only the process of the command can, then
//! executes the command.
//!
//! 1. With `--death-signal`, the command gets that signal when its parent ends, however it ends.
//! 2. With `--ignore-pipe`, the command starts with SIGPIPE ignored. Rust's runtime ignores it before `main`; `execvp` keeps
//!    that, whereas the standard library's `exec` resets it to the default.
use super::{exit, failure};
use crate::exec::supervise::{Signal, SpawnError, die_with_parent};
use nix::{
    sys::signal::{SigSet, Signal as Blockable},
    unistd::execvp,
};
use std::{
    ffi::{CString, OsString},
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::{Command, ExitCode},
};

/// The arguments of `run-child`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The command that starts it, for messages.
    #[arg(long, value_name = "NAME")]
    caller: String,
    /// The process id of the caller.
    #[arg(long)]
    parent: i32,
    /// The signal for the command when the caller ends.
    #[arg(long)]
    death_signal: Option<Signal>,
    /// Start the command with SIGPIPE ignored.
    #[arg(long)]
    ignore_pipe: bool,
    #[arg(required = true, trailing_var_arg = true)]
    operands: Vec<OsString>,
}

/// Executes the command. Returns only on failure: 125, 126 or 127, with a message as of the caller.
pub(crate) fn run(args: Args) -> ExitCode {
    if let Some(signal) = args.death_signal
        && let Err(error) = die_with_parent(signal, args.parent)
    {
        failure::say(&args.caller, &format!("cannot set the signal for its end: {error}"));
        return ExitCode::from(exit::OWN_FAILURE);
    }
    let error =
        SpawnError::from(if args.ignore_pipe { exec_ignoring_pipe(&args.operands) } else { exec(&args.operands) });
    // In a background group, a terminal with `tostop` would stop this process at the message.
    let _ = SigSet::from(Blockable::SIGTTOU).thread_block();
    failure::cannot_run(&args.caller, &args.operands[0], &error)
}

fn exec(operands: &[OsString]) -> io::Error {
    Command::new(&operands[0]).args(&operands[1..]).exec()
}

fn exec_ignoring_pipe(operands: &[OsString]) -> io::Error {
    let operands: Result<Vec<_>, _> = operands.iter().map(|operand| CString::new(operand.as_bytes())).collect();
    match operands {
        Ok(operands) => match execvp(&operands[0], &operands) {
            Ok(never) => match never {},
            Err(error) => error.into(),
        },
        Err(error) => error.into(),
    }
}
