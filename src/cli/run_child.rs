//! `pausewatch run-child` (hidden): the first program of a judged command, which its supervisor does not judge. It executes COMMAND of
//! `run --rules`, which is judged.
//!
//! With `--ignore-pipe`, COMMAND starts with SIGPIPE ignored. Rust's runtime ignores it before `main`; `execvp` keeps
//! that, but the standard library's `exec` resets it to the default. With `--close-input`, COMMAND starts without standard
//! input: ours is a copy of that of `run`, which is /dev/null if it was closed.
use super::{
    failure,
    internal::{Arguments, Invalid},
};
use crate::exec::supervise::{SpawnError, close_on_exec};
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
    /// Start the command with SIGPIPE ignored.
    ignore_pipe: bool,
    /// Start the command without standard input.
    close_input: bool,
    operands: Vec<OsString>,
}

impl Args {
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let mut args = Self::default();
        while let Some(option) = arguments.option() {
            match option.to_str() {
                Some("--ignore-pipe") => args.ignore_pipe = true,
                Some("--close-input") => args.close_input = true,
                _ => return Err(Invalid),
            }
        }
        Ok(Self { operands: arguments.operands()?, ..args })
    }
}

/// Executes the command. Returns only on failure: 125, 126 or 127, with a message as of `run`.
pub(crate) fn run(args: Args) -> ExitCode {
    if args.close_input {
        close_on_exec(rustix::stdio::stdin());
    }
    let error =
        SpawnError::from(if args.ignore_pipe { exec_ignoring_pipe(&args.operands) } else { exec(&args.operands) });
    // In a background group, a terminal with `tostop` would stop this process at the message.
    let _ = SigSet::from(Blockable::SIGTTOU).thread_block();
    failure::cannot_run("run", &args.operands[0], &error)
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
