//! `clock`: starts the processes of the clock and returns when it runs.
use super::{READY, StartArgs, argument, shell::Shell};
use crate::cli::hook::claude::report::{clock_failed, say};
use rustix::process::{Pid, getppid};
use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio},
};

/// Returns when the clock of the calling shell runs; ends the shell if there can be no clock.
pub(crate) fn run(args: &StartArgs) -> ExitCode {
    let Some(parent) = getppid() else {
        return clock_failed("the shell that called is in another process namespace: there is no clock");
    };
    match start(args, parent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let code = clock_failed(&format!("cannot start the clock, so the command is not run: {why}"));
            match Shell::of(parent) {
                Ok(shell) => shell.end(),
                Err(why) => say(&format!("cannot end the shell: {why}")),
            }
            code
        }
    }
}

fn start(args: &StartArgs, shell: Pid) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut guard = Command::new(program)
        .args(["hook", "claude", "clock-guard", "--shell", &shell.as_raw_pid().to_string()])
        .args(["--limit", &argument(args.limit), "--parent", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut line = String::new();
    let output = guard.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
    match line.trim_end() == READY {
        true => Ok(()),
        false => Err("its process ended".into()),
    }
}
