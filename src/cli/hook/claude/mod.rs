//! `pausewatch hook claude`: an event of Claude Code on standard input, the answer on standard output.
//!
//! 1. The hook never blocks a tool: bad or unknown input has no output, exit code 0, and one line on standard error.
//! 2. The hook gives no permission: the answer has no decision, and Claude Code checks the changed command as any other.
//! 3. The command line itself stays as it is and stays in Claude Code's own shell, so `cd`, functions, exit codes and
//!    permission rules work as before. A line in front of it starts the clock, a process beside the shell ([`clock`]).
mod clock;
mod event;
mod install;
mod own_path;
mod private_socket;
mod report;
mod session_env;
mod version;

use super::super::{config_file::warn_if_ignored, output};
pub use event::{BashCall, Event, Timeouts};
use std::{
    io::{self, IsTerminal, Read},
    process::ExitCode,
    time::Duration,
};

/// The maximum size of an event, in bytes: far above that of any command line.
const MAX_EVENT: u64 = 64 << 20;

/// The arguments of `hook claude`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "pausewatch hook claude [OPTIONS] [COMMAND]", after_help = AFTER_HELP, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The thread whose pauses count [env: PAUSEWATCH_THREAD_ID] [default: the id of the session].
    #[arg(long, value_name = "ID")]
    thread_id: Option<String>,
    /// The longest time limit that the model may ask for.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = super::super::duration::parse)]
    max_limit: Duration,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add the hook to the settings of Claude Code.
    Install(install::Args),
    /// Remove from the settings what `install` added.
    Uninstall(install::Args),
    /// Start the clock of the calling shell.
    #[command(hide = true)]
    Clock(clock::StartArgs),
    /// End the shell if the process that has its clock is killed.
    #[command(hide = true)]
    ClockGuard(clock::GuardArgs),
    /// Be the clock of a shell.
    #[command(hide = true)]
    ClockWatch(clock::WatchArgs),
}

const AFTER_HELP: &str = "\
Without COMMAND, pausewatch reads an event of Claude Code from standard input and writes the answer to standard output. \
PreToolUse of Bash: a line in front of the command starts a clock with the tool's own timeout, and that timeout is raised to \
BASH_MAX_TIMEOUT_MS. At the limit, the clock sends TERM to the shell and its commands, and KILL 5 s later. SessionStart: the \
commands of the session get PAUSEWATCH_THREAD_ID and, if no coordinator is configured, the address and the token of a private one. \
Background commands and all other events stay as they are; so does a command whose event pausewatch cannot read.";

pub(crate) fn run(args: Args) -> ExitCode {
    match args.command {
        None => {
            if let Err(why) = answer(args.thread_id.as_deref(), args.max_limit) {
                report::say(&why);
            }
            ExitCode::SUCCESS
        }
        Some(Command::Install(args)) => install::install(&args),
        Some(Command::Uninstall(args)) => install::uninstall(&args),
        Some(Command::Clock(args)) => clock::start(&args),
        Some(Command::ClockGuard(args)) => clock::guard(&args),
        Some(Command::ClockWatch(args)) => clock::watch(&args),
    }
}

fn answer(thread_id: Option<&str>, max_limit: Duration) -> Result<(), String> {
    if io::stdin().is_terminal() {
        return Err("Claude Code calls this; `pausewatch hook claude install` adds it to the settings".into());
    }
    let mut text = Vec::new();
    let read = io::stdin().take(MAX_EVENT).read_to_end(&mut text);
    read.map_err(|error| format!("read the event from standard input: {error}"))?;
    match Event::parse(&text).map_err(unexpected)? {
        Event::Bash(call) => {
            // With settings that the clock cannot use, the call stays as it is, and the tool's own timeout applies.
            crate::client::Settings::from_env()
                .and_then(|settings| settings.config())
                .map_err(|why| why.to_string())?;
            warn_if_ignored();
            let Some(answer) = call.answer(&own_path::quoted()?, &Timeouts::of_environment(max_limit)) else {
                return Ok(());
            };
            output::print(format!("{answer}\n").as_bytes()).map_err(|error| error.to_string())
        }
        Event::SessionStart { session_id } => session_env::write(thread_id, &session_id),
        Event::Other => Ok(()),
    }
}

/// Adds both versions to the message: an unexpected event most likely comes from another version of Claude Code.
fn unexpected(why: String) -> String {
    let installed = version::installed().unwrap_or_else(|| "of an unknown version".to_owned());
    format!(
        "{why}; nothing was changed, so the command runs without this clock (Claude Code {installed}; tested with {})",
        version::TESTED
    )
}
