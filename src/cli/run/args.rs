//! The command line of `run`: that of GNU `timeout`, and our options.
use super::super::{
    connection::{Connection, Thread},
    quote,
    token::Key,
};
use super::{duration, report::Target};
use crate::exec::supervise::{Program, Signal};
use clap::{Args as _, error::ErrorKind};
#[cfg(feature = "exec-server")]
use std::path::PathBuf;
use std::{ffi::OsString, time::Duration};

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    infer_long_args = true,
    override_usage = "pausewatch run [OPTIONS] DURATION COMMAND [ARG]...",
    after_help = AFTER_HELP,
    mut_arg("address", |arg| arg.help(ADDRESS_HELP)),
    mut_arg("thread_id", |arg| arg.help(THREAD_HELP)),
    mut_arg("token_key", |arg| arg.help(KEY_HELP)),
)]
pub struct Args {
    /// Also send KILL if COMMAND still runs this long after the first signal was sent.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse, default_value = "0", hide_default_value = true, allow_hyphen_values = true)]
    pub(super) kill_after: Duration,
    /// The signal to send at the time limit: a name such as TERM or SIGTERM, or a number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", allow_hyphen_values = true)]
    pub(super) signal: Signal,
    /// Let COMMAND use the terminal and get its signals; children of COMMAND are not timed out.
    #[arg(short, long)]
    pub(super) foreground: bool,
    /// Exit with the status of COMMAND even if it timed out.
    // GNU timeout has no other option with `p`.
    #[arg(short, long, aliases = ["p", "pr"])]
    pub(super) preserve_status: bool,
    /// Print on standard error each signal that is sent, and the thread and the coordinator if one of them is named.
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Maximum extra time, in all, while the coordinator is unreachable. A lost connection is noticed
    /// within 30s.
    #[arg(long, value_name = "DURATION", value_parser = super::super::duration::parse, default_value = "30s")]
    pub(super) disconnect_grace: Duration,
    /// Also stop the clock while this thread is paused, such as that of a sub-agent that COMMAND waits for. Repeatable.
    #[arg(long, value_name = "THREAD")]
    pub(super) also: Vec<String>,
    /// The limit on wall time, which no pause extends; 0: none. The earlier limit ends COMMAND.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0", hide_default_value = true)]
    pub(super) max_wall: Duration,
    /// When COMMAND has ended, write one JSON object to this file, or to the open file descriptor with this number: exit code,
    /// times, the reason of the end, and the pauses.
    #[arg(long, value_name = "FILE|FD", value_parser = Target::parse)]
    pub(super) report: Option<Target>,
    /// Judge every program that COMMAND executes, nested ones too, by these rules, in the Starlark format of Codex. Linux only. Repeatable.
    #[cfg(feature = "exec-server")]
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Vec<PathBuf>,
    /// Ask about a program by this command for /bin/sh: exit code 0 is a yes, 1 is a no. PAUSEWATCH_QUESTION is the question,
    /// PAUSEWATCH_PROGRAM the program with its arguments [default: ask on the terminal].
    #[cfg(feature = "exec-server")]
    #[arg(long, value_name = "COMMAND", requires = "rules")]
    pub(super) ask: Option<String>,
    /// Use a private coordinator, even if an address is configured or a coordinator answers at the default address.
    #[arg(long, conflicts_with = "address")]
    pub(super) private: bool,
    #[command(flatten)]
    pub(super) thread: Thread,
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(flatten)]
    pub(super) key: Key,
    // One list, so that the first argument that is not an option ends the options.
    #[arg(value_name = "DURATION COMMAND [ARG]", required = true, trailing_var_arg = true, hide = true)]
    pub(super) operands: Vec<OsString>,
}

const ADDRESS_HELP: &str = "\
Where the coordinator listens: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH; of several replicas, their addresses with commas between them [env: PAUSEWATCH_ADDRESS] [default: with a \
thread id or --also 127.0.0.1:7420, if a coordinator answers there; else a private one, while COMMAND runs]";
const THREAD_HELP: &str = "\
The thread whose pauses count [env: PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else CLAUDE_CODE_SESSION_ID] [default: a new one]";

const KEY_HELP: &str = "\
Give COMMAND a token that opens its thread and those of --also only, signed with the private key in this PEM file, instead of your \
own token [env: PAUSEWATCH_TOKEN_KEY]";

const AFTER_HELP: &str = "\
DURATION is a number with an optional unit: s (the default), m, h or d. 0 means no limit.
Time in which the thread is paused does not count, except for --max-wall. The environment of COMMAND names its thread and coordinator.
In a script, COMMAND can use the terminal while its thread is paused. At other times this stops COMMAND until its limit, as with GNU timeout; \
--foreground permits it.

Exit status:
  124  COMMAND timed out, and --preserve-status is not given
  125  pausewatch itself failed
  126  COMMAND is found but cannot be executed
  127  COMMAND cannot be found
  137  COMMAND (or pausewatch itself) was sent KILL
  else the status of COMMAND";

/// Splits DURATION [--] COMMAND [ARG]... .
pub(super) fn operands(operands: &[OsString]) -> Result<(Duration, Program), String> {
    let (limit, rest) = operands.split_first().ok_or("DURATION is missing")?;
    let limit = duration::parse(limit.to_str().unwrap_or_default())
        .map_err(|problem| format!("{}: {problem}", quote::quoted(limit)))?;
    let rest = match rest.split_first() {
        Some((dashes, rest)) if dashes == "--" => rest,
        _ => rest,
    };
    let (name, args) = rest.split_first().ok_or("COMMAND is missing")?;
    let (name, args) = (name.clone(), args.to_vec());
    Ok((limit, Program { name, args, env: Vec::new(), death_signal: None }))
}

pub(super) fn usage_error(problem: &str) -> clap::Error {
    Args::augment_args(clap::Command::new("run")).error(ErrorKind::ValueValidation, problem)
}
