//! `pausewatch run`: GNU `timeout` with a clock that stops while the command's thread is paused.
//!
//! The command line and the behaviour are those of GNU `timeout`, see [`crate::exec::supervise`]; the clock is a [`Stopwatch`].
//!
//! 1. Options end at DURATION, the first argument that is not an option; arguments after COMMAND belong to it, also
//!    `--help`. One `--` may stand before DURATION and one before COMMAND.
//! 2. The command starts before the coordinator is connected, and its time counts from its start.
//! 3. The environment of the command names its thread and coordinator. A `run` within a `run` uses both, so a pause of the
//!    inner command pauses the outer one too. The command's token opens its thread only, unless there is no key to sign one:
//!    then it gets our own token.
//! 4. A problem with the coordinator is only a warning; the command runs, and its time limit holds.
mod duration;
pub use duration::parse as parse_duration;

use super::{
    connection::{Connection, Thread},
    coordinator::{self, Coordinator},
    exit, failure, quote,
    token::Key,
    usage,
};
use crate::{
    client::stopwatch::{Link, Stopwatch, StopwatchController},
    client::{Address, ConfigError, Settings, Token},
    core::types::ThreadId,
    exec::supervise::{ExitAction, Policy, Program, Signal, Supervisor},
};
use clap::{Args as _, error::ErrorKind};
use std::{ffi::OsString, process::ExitCode, time::Duration};
use tokio::sync::watch;

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
    kill_after: Duration,
    /// The signal to send at the time limit: a name such as TERM or SIGTERM, or a number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", allow_hyphen_values = true)]
    signal: Signal,
    /// Let COMMAND use the terminal and get its signals; children of COMMAND are not timed out.
    #[arg(short, long)]
    foreground: bool,
    /// Exit with the status of COMMAND even if it timed out.
    #[arg(short, long)]
    preserve_status: bool,
    /// Print each signal that is sent on standard error.
    #[arg(short, long)]
    verbose: bool,
    /// Maximum extra time, in all, while the coordinator is unreachable. A connection that dies without a sign is noticed
    /// within 30s.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "30s")]
    disconnect_grace: Duration,
    #[command(flatten)]
    thread: Thread,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    key: Key,
    // One list, so that the first argument that is not an option ends the options.
    #[arg(value_name = "DURATION COMMAND [ARG]", required = true, trailing_var_arg = true, hide = true)]
    operands: Vec<OsString>,
}

const ADDRESS_HELP: &str = "\
Where the coordinator listens: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH [env: PAUSEWATCH_ADDRESS] [default: a private one, \
while COMMAND runs]";
const THREAD_HELP: &str = "The thread whose pauses count [env: PAUSEWATCH_THREAD_ID] [default: a new one]";

const KEY_HELP: &str = "\
Give COMMAND a token that opens its thread only, signed with the private key in this PEM file, instead of your own token \
[env: PAUSEWATCH_TOKEN_KEY]";

const AFTER_HELP: &str = "\
DURATION is a number with an optional unit: s (the default), m, h or d. 0 means no limit.
Time in which the thread is paused does not count. The environment of COMMAND names its thread and coordinator.

Exit status:
  124  COMMAND timed out, and --preserve-status is not given
  125  pausewatch itself failed
  126  COMMAND is found but cannot be executed
  127  COMMAND cannot be found
  137  COMMAND (or pausewatch itself) was sent KILL
  else the status of COMMAND";

/// Runs the command and returns the exit code, or dies by the signal that killed the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(problem) => return usage::exit_code(&usage_error(&problem), exit::OWN_FAILURE),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let result = runtime.block_on(plan.carry_out());
    // Does not wait for a host name that is being resolved.
    runtime.shutdown_background();
    match result {
        Ok(action) => {
            if let ExitAction::Die { dumped_core: true, .. } = action {
                say("the monitored command dumped core");
            }
            action.carry_out()
        }
        Err(code) => code,
    }
}

/// The parsed command line.
struct Plan {
    limit: Duration,
    program: Program,
    policy: Policy,
    verbose: bool,
    settings: Settings,
    /// A token for the command's thread, if there is a key to sign it.
    token: Option<Token>,
    thread_id: String,
    disconnect_grace: Duration,
}

impl Plan {
    fn new(args: Args) -> Result<Self, String> {
        let (limit, mut program) = operands(&args.operands)?;
        program.death_signal = Some(args.signal);
        let settings = args.connection.settings().map_err(|why| why.to_string())?;
        let thread_id = args.thread.or(&settings).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        ThreadId::parse("thread_id", &thread_id).map_err(|error| error.to_string())?;
        let token = match args.key.signer()? {
            // A private coordinator signs its own.
            Some(signer) if settings.address.is_some() => Some(coordinator::sign(&signer, &thread_id, limit)?),
            _ => None,
        };
        Ok(Self {
            limit,
            program,
            policy: Policy {
                signal: args.signal,
                kill_after: args.kill_after,
                foreground: args.foreground,
                preserve_status: args.preserve_status,
            },
            verbose: args.verbose,
            settings,
            token,
            thread_id,
            disconnect_grace: args.disconnect_grace,
        })
    }

    async fn carry_out(mut self) -> Result<ExitAction, ExitCode> {
        let command = quote::quoted(&self.program.name);
        let supervisor = Supervisor::new(self.policy.clone()).map_err(|error| fail(&error))?;
        // Dropping it at the end removes its socket.
        let coordinator = self.coordinator().await.map_err(|error| fail(&error))?;
        if let Some(coordinator) = &coordinator {
            self.program.env = coordinator.environment(&self.thread_id);
        }
        let job =
            supervisor.start(&self.program).map_err(|error| failure::cannot_run("run", &self.program.name, &error))?;
        let stopwatch = match self.limit {
            Duration::ZERO => Stopwatch::unlimited(),
            limit => Stopwatch::new(limit),
        };
        let _registered = coordinator.as_ref().filter(|_| !self.limit.is_zero()).map(|coordinator| {
            let controller = StopwatchController::with_disconnect_grace(coordinator.client(), self.disconnect_grace);
            if !coordinator.is_private() {
                tokio::spawn(warn_of_lost_link(
                    coordinator.address().clone(),
                    controller.link(),
                    self.disconnect_grace,
                ));
            }
            controller.register(&self.thread_id, &stopwatch)
        });
        let sending = |signal: Signal| {
            if self.verbose {
                say(&format!("sending signal {signal} to command {command}"));
            }
        };
        job.supervise(stopwatch.expired(), sending).await.map_err(|error| {
            say(&format!("error waiting for command: {error}"));
            ExitCode::from(exit::OWN_FAILURE)
        })
    }

    async fn coordinator(&self) -> Result<Option<Coordinator>, ConfigError> {
        if self.settings.address.is_some() {
            return Coordinator::configured(self.settings.clone(), self.token.clone()).map(Some);
        }
        match Coordinator::private(&self.thread_id).await {
            Ok(coordinator) => Ok(Some(coordinator)),
            Err(why) => {
                say(&format!("warning: no private coordinator: {why}. The time limit holds and cannot be paused"));
                Ok(None)
            }
        }
    }
}

/// Warns once, when the coordinator is unreachable for the first time.
async fn warn_of_lost_link(address: Address, mut link: watch::Receiver<Link>, grace: Duration) {
    let lost = link.wait_for(|link| matches!(link, Link::Disconnected(_))).await;
    if let Ok(Link::Disconnected(why)) = lost.as_deref() {
        let (why, grace) = (failure::without_number(why), super::duration::show(grace));
        say(&format!("warning: no coordinator at {address}: {why}. The time limit holds, plus at most {grace}"));
    }
}

/// Splits DURATION [--] COMMAND [ARG]... .
fn operands(operands: &[OsString]) -> Result<(Duration, Program), String> {
    let (limit, rest) = operands.split_first().ok_or("DURATION is missing")?;
    let limit = duration::parse(limit.to_str().unwrap_or_default())
        .map_err(|problem| format!("{}: {problem}", quote::quoted(limit)))?;
    let rest = match rest.split_first() {
        Some((dashes, rest)) if dashes == "--" => rest,
        _ => rest,
    };
    let (name, args) = rest.split_first().ok_or("COMMAND is missing")?;
    let (name, args) = (name.clone(), args.to_vec());
    Ok((limit, Program { name, args, env: Vec::new(), caller: "run", death_signal: None }))
}

fn usage_error(problem: &str) -> clap::Error {
    Args::augment_args(clap::Command::new("run")).error(ErrorKind::ValueValidation, problem)
}

fn fail(error: &dyn std::error::Error) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(exit::OWN_FAILURE)
}

/// Prints a message like `timeout`, with our name.
fn say(message: &str) {
    failure::say("run", message);
}
