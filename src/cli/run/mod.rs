//! `pausewatch run`: GNU `timeout`, with a clock that stands still while the command's thread is paused.
//!
//! What the command line means and what is done is GNU `timeout`'s, see [`crate::exec`]; `clock` is what pausing adds.
//!
//! 1. Options end at the first argument that is none, DURATION; what follows COMMAND belongs to it, `--help` too. One
//!    `--` may stand before DURATION and one before COMMAND.
//! 2. The command runs before anything is connected, and the time counts from then.
//! 3. Whatever goes wrong with the coordinator costs a warning; the command runs, and its limit holds.
mod duration;
mod quote;

use super::exit;
use crate::exec::{Policy, Program, Signal, Supervisor, Verdict};
use clap::{CommandFactory, error::ErrorKind};
use std::{ffi::OsString, io::Write, process::ExitCode, time::Duration};

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    infer_long_args = true,
    override_usage = "pausewatch run [OPTIONS] DURATION COMMAND [ARG]...",
    after_help = AFTER_HELP,
)]
pub struct Args {
    /// Also send KILL if COMMAND still runs this long after the first signal was sent.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse, default_value = "0", hide_default_value = true, allow_hyphen_values = true)]
    kill_after: Duration,
    /// What to send when the time is up: a name as TERM or SIGTERM, or a number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", allow_hyphen_values = true)]
    signal: Signal,
    /// Let COMMAND use the terminal and get its signals; children of COMMAND are not timed out.
    #[arg(short, long)]
    foreground: bool,
    /// Exit with the status of COMMAND even if its time was up.
    #[arg(short, long)]
    preserve_status: bool,
    /// Tell on standard error of each signal that is sent.
    #[arg(short, long)]
    verbose: bool,
    // One list, not three arguments: the first that is no option must end the options.
    #[arg(value_name = "DURATION COMMAND [ARG]", required = true, trailing_var_arg = true, hide = true)]
    operands: Vec<OsString>,
}

const AFTER_HELP: &str = "\
DURATION is a number with an optional unit: s (the default), m, h or d. 0 is no limit.
The time does not count while the thread is paused.

Exit status:
  124  the time was up, and --preserve-status is not given
  125  pausewatch itself failed
  126  COMMAND is found but cannot be invoked
  127  COMMAND cannot be found
  137  COMMAND (or pausewatch itself) was sent KILL
  else the status of COMMAND";

/// What goes before each of our messages, where `timeout` has its own name.
const NAME: &str = "pausewatch run";

/// Runs the command and returns the exit code, or dies by the signal that killed the command.
pub fn run(args: Args) -> ExitCode {
    let (limit, program) = match operands(&args.operands) {
        Ok(operands) => operands,
        Err(problem) => return exit::usage(&usage_error(&problem)),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(supervise(args, limit, program)) {
        Ok(verdict) => {
            drop(runtime);
            if let Verdict::Die { dumped_core: true, .. } = verdict {
                say("the monitored command dumped core");
            }
            verdict.carry_out()
        }
        Err(code) => code,
    }
}

async fn supervise(args: Args, limit: Duration, program: Program) -> Result<Verdict, ExitCode> {
    let policy = Policy {
        signal: args.signal,
        kill_after: args.kill_after,
        foreground: args.foreground,
        preserve_status: args.preserve_status,
    };
    let command = quote::quoted(&program.name);
    let job = Supervisor::new(policy).map_err(|error| fail(&error))?.start(&program).map_err(|error| {
        say(&format!("failed to run command {command}: {}", bare(error.cause())));
        ExitCode::from(error.exit_code())
    })?;
    let expired = async {
        match limit {
            Duration::ZERO => std::future::pending().await,
            limit => tokio::time::sleep(limit).await,
        }
    };
    let tell = |signal: Signal| {
        if args.verbose {
            say(&format!("sending signal {signal} to command {command}"));
        }
    };
    job.supervise(expired, tell).await.map_err(|error| {
        say(&format!("error waiting for command: {error}"));
        ExitCode::from(exit::OWN_FAILURE)
    })
}

/// Splits DURATION [--] COMMAND [ARG]... .
fn operands(operands: &[OsString]) -> Result<(Duration, Program), String> {
    let (limit, rest) = operands.split_first().ok_or("DURATION is missing")?;
    let limit = limit
        .to_str()
        .ok_or_else(|| duration::parse("").unwrap_err())
        .and_then(duration::parse)
        .map_err(|problem| format!("{}: {problem}", quote::quoted(limit)))?;
    let rest = match rest.split_first() {
        Some((dashes, rest)) if dashes == "--" => rest,
        _ => rest,
    };
    let (name, args) = rest.split_first().ok_or("COMMAND is missing")?;
    Ok((limit, Program { name: name.clone(), args: args.to_vec(), env: Vec::new() }))
}

fn usage_error(problem: &str) -> clap::Error {
    let mut program = super::Program::command();
    program.build();
    let run = program.find_subcommand_mut("run").map(std::mem::take).unwrap_or_default();
    run.clone().error(ErrorKind::ValueValidation, problem)
}

fn fail(error: &std::io::Error) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(exit::OWN_FAILURE)
}

/// The error's text without Rust's addition of its number.
fn bare(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().map(str::to_owned).unwrap_or(text)
}

/// One line on standard error, in one write: others write there too. There is nobody to tell if it cannot be written.
fn say(message: &str) {
    let _ = std::io::stderr().write_all(format!("{NAME}: {message}\n").as_bytes());
}
