//! `pausewatch run-child` (hidden): `run` and `hold` start it; it prepares what only the process of the command can, then
//! executes the command.
//!
//! 1. With `--death-signal`, the command gets that signal when its parent ends, however it ends.
//! 2. With `--ignore-pipe`, the command starts with SIGPIPE ignored. Rust's runtime ignores it before `main`; `execvp` keeps
//!    that, whereas the standard library's `exec` resets it to the default.
use super::{
    exit, failure,
    internal::{Arguments, Invalid},
};
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
#[derive(Default)]
pub(super) struct Args {
    /// The command that starts it, for messages.
    caller: String,
    /// The process id of the caller.
    parent: i32,
    /// The signal for the command when the caller ends.
    death_signal: Option<Signal>,
    /// Start the command with SIGPIPE ignored.
    ignore_pipe: bool,
    operands: Vec<OsString>,
}

impl Args {
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let mut args = Self::default();
        while let Some(option) = arguments.option() {
            match option.to_str() {
                Some("--caller") => args.caller = arguments.parsed()?,
                Some("--parent") => args.parent = arguments.parsed()?,
                Some("--death-signal") => args.death_signal = Some(arguments.parsed()?),
                Some("--ignore-pipe") => args.ignore_pipe = true,
                _ => return Err(Invalid),
            }
        }
        Ok(Self { operands: arguments.operands()?, ..args })
    }
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
