//! The program: one file per command, and what they share. It may import every other module.
//!
//! A command is an `Args`, which clap parses, and a function `run`, which returns the exit code.
//!
//! 1. Bad usage has exit code 125 for `run` and `hold` (as for GNU `timeout`) and for the clock of `hook claude`. It
//!    has 1 for `hook claude` itself, because Claude Code treats 2 as the answer that the tool must not be used, and 2
//!    for all others.
pub(crate) mod asker;
pub(crate) mod bridge;
mod call;
mod certificate_warnings;
mod config;
mod config_file;
mod config_sources;
mod connection;
mod coordinator;
mod data_dir;
mod decrement;
mod default_coordinator;
pub(crate) mod duration;
#[cfg(feature = "exec-server")]
mod exec_child;
#[cfg(feature = "exec-server")]
mod exec_http;
#[cfg(feature = "exec-server")]
mod exec_reach;
#[cfg(feature = "exec-server")]
mod exec_reaper;
#[cfg(feature = "exec-server")]
mod exec_server;
#[cfg(all(feature = "exec-server", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod exec_start;
#[cfg(all(feature = "exec-server", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod exec_supervisor;
mod executable;
pub(crate) mod exit;
mod failure;
mod first_process;
mod follow;
mod format;
mod get;
mod health;
pub(crate) mod history;
mod hold;
pub(crate) mod hook;
mod increment;
#[cfg(feature = "exec-server")]
mod internal;
mod interrupt;
mod list;
mod lost_link;
mod manual;
mod option_value;
mod other_process;
mod output;
mod quote;
mod renew;
mod replicas;
pub(crate) mod run;
#[cfg(feature = "exec-server")]
mod run_child;
mod runtime;
mod screen;
mod serve;
mod stderr;
mod store;
mod table;
mod token;
mod traces;
mod unanswered;
mod usage;
mod watch;
mod whole_write;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::Signal;
use std::{ffi::OsString, path::PathBuf, process::ExitCode};

/// Freezes the timeouts of an agent's commands while a person is being asked something.
#[derive(Debug, Parser)]
#[command(name = "pausewatch", version)]
pub struct Program {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command with a time limit; time while its thread is paused does not count.
    Run(run::Args),
    /// Run the coordinator, which serves pause states to tools and exec servers.
    Serve(Box<serve::Args>),
    /// Serve MCP tools that run an agent's commands, with time limits that wait for people.
    #[cfg(feature = "exec-server")]
    ExecServer(Box<exec_server::Args>),
    /// Run a command, and pause its thread until the command has ended.
    Hold(hold::Args),
    /// Open an elicitation: its thread is paused until it is closed.
    Increment(increment::Args),
    /// Close an elicitation.
    Decrement(decrement::Args),
    /// Extend the lease of an elicitation.
    Renew(renew::Args),
    /// Show the pause state of one thread.
    Get(get::Args),
    /// List the paused threads with their open elicitations.
    List(list::Args),
    /// List the pauses that have ended: who asked what, and how long it took.
    History(history::Args),
    /// Print the states of threads as they change.
    Watch(watch::Args),
    /// Run timeouts for a program in any language, by JSON lines.
    Follow(follow::Args),
    /// Let an agent with a clock of its own follow the coordinator.
    Bridge(bridge::Args),
    /// Ask a person for a passphrase, for ssh, git and sudo, and pause the thread meanwhile.
    Askpass(asker::askpass::Args),
    /// Stand in front of the pinentry of gpg-agent, and pause the thread while it asks.
    Pinentry(asker::pinentry::Args),
    /// Make an agent's own commands wait for people, by its hooks.
    Hook(hook::Args),
    /// Create tokens, and the keys that sign them.
    Token(token::Args),
    /// Check whether the coordinator is serving.
    Health(health::Args),
    /// Copy the store of a server to a file, even while the server runs.
    Backup(store::backup::Args),
    /// Create a store from a backup.
    Restore(store::restore::Args),
    /// Check a store or a backup without changing it.
    Check(store::check::Args),
    /// Check the config file.
    Config(config::Args),
    /// Print the completion script for a shell.
    Completions(manual::CompletionsArgs),
    /// Print or write the manual pages.
    Man(manual::ManArgs),
}

impl Command {
    /// The signals of [`first_process::ENDING`] that the command catches itself.
    fn caught_signals(&self) -> &'static [Signal] {
        match self {
            Self::Run(_) | Self::Hold(_) | Self::Bridge(_) | Self::Askpass(_) | Self::Pinentry(_) | Self::Hook(_) => {
                first_process::ENDING
            }
            Self::Increment(args) if args.catches_signals() => first_process::ENDING,
            // On a screen it catches all of them.
            Self::List(args) if args.watches() => first_process::ENDING,
            Self::Watch(_) => &[Signal::INT, Signal::TERM],
            Self::Serve(_) => &[Signal::HUP, Signal::INT, Signal::TERM],
            #[cfg(feature = "exec-server")]
            Self::ExecServer(_) => &[Signal::HUP, Signal::INT, Signal::TERM],
            _ => &[],
        }
    }
}

/// Records how this process was started. It runs before Rust's runtime, so it does not allocate and cannot panic.
pub extern "C" fn record_start() {
    crate::exec::supervise::record();
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    crate::exec::supervise::keep_streams_closed();
    #[cfg(all(feature = "exec-server", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if let Some(code) = crate::exec::judge::run_if_relay() {
        return ExitCode::from(code);
    }
    let code = run_command();
    stderr::flush();
    code
}

fn run_command() -> ExitCode {
    let arguments = asker::with_command_of_link(std::env::args_os().collect());
    let name = arguments.get(1).and_then(|name| name.to_str());
    #[cfg(feature = "exec-server")]
    if let Some(code) = name.and_then(|name| run_internal(name, &arguments[2..])) {
        return code;
    }
    // `run` and `hold` are parsed alone, because commands wait for them: describing all other commands takes a
    // millisecond.
    match name {
        Some("run") => {
            if let Some(args) = parse_alone("run", &arguments) {
                return run::run(args);
            }
        }
        Some("hold") => {
            if let Some(args) = parse_alone("hold", &arguments) {
                return hold::run(args);
            }
        }
        _ => {}
    }
    let usage_code = match name {
        Some("run" | "hold") => exit::OWN_FAILURE,
        Some("hook") => match arguments.get(3).and_then(|name| name.to_str()) {
            Some("install" | "uninstall") => exit::USAGE,
            Some("clock" | "clock-guard" | "clock-watch") => exit::OWN_FAILURE,
            // Claude Code treats 2 as the answer that the tool must not be used.
            _ => exit::FAILED,
        },
        _ => exit::USAGE,
    };
    let program = Program::command();
    let serve = program.find_subcommand("serve").expect("it is one of the commands");
    let matches = match program.clone().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            return usage::exit_code(&usage::explained(error, &program, &usage::harmless(&arguments)), usage_code);
        }
    };
    let command = Program::from_arg_matches(&matches).expect("clap accepted them").command;
    first_process::end_by_signals(command.caught_signals());
    match command {
        Command::Run(args) => run::run(args),
        Command::Serve(_) => run_serve(serve, matches.subcommand_matches("serve").expect("the command is serve")),
        #[cfg(feature = "exec-server")]
        Command::ExecServer(args) => exec_server::run(*args),
        Command::Hold(args) => hold::run(args),
        Command::Increment(args) => increment::run(args),
        Command::Decrement(args) => decrement::run(args),
        Command::Renew(args) => renew::run(args),
        Command::Get(args) => get::run(args),
        Command::List(args) => list::run(args),
        Command::History(args) => history::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Follow(args) => follow::run(args),
        Command::Bridge(args) => bridge::run(args),
        Command::Askpass(args) => asker::askpass::run(args),
        Command::Pinentry(args) => asker::pinentry::run(args),
        Command::Hook(args) => hook::run(args),
        Command::Token(args) => token::run(args),
        Command::Health(args) => health::run(args),
        Command::Backup(args) => store::backup::run(args, serve),
        Command::Restore(args) => store::restore::run(args, serve),
        Command::Check(args) => store::check::run(args, serve),
        Command::Config(args) => config::run(args, serve),
        Command::Completions(args) => manual::completions(args, program),
        Command::Man(args) => manual::man(args, program),
    }
}

/// The arguments of one command; `None`: they are invalid, or ask for help.
fn parse_alone<A: clap::Args>(name: &'static str, arguments: &[OsString]) -> Option<A> {
    let alone = clap::Command::new("pausewatch").subcommand(A::augment_args(clap::Command::new(name)));
    A::from_arg_matches(alone.try_get_matches_from(arguments).ok()?.subcommand_matches(name)?).ok()
}

/// Runs a command that this program starts itself; `None`: `name` is none of them.
#[cfg(feature = "exec-server")]
fn run_internal(name: &str, arguments: &[OsString]) -> Option<ExitCode> {
    Some(match name {
        // Start a session and become a command of the exec server.
        "exec-child" => internal::run(name, arguments, exec_child::Args::parse, exec_child::run),
        // Run a command of the exec server, and judge what it executes.
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        "exec-supervisor" => internal::run(name, arguments, exec_supervisor::Args::parse, exec_supervisor::run),
        // Become an approved program of a command.
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        "exec-start" => exec_start::run(),
        // Kill the remaining commands of an exec server that was killed.
        "exec-reaper" => internal::run(name, arguments, exec_reaper::Args::parse, exec_reaper::run),
        // Become the command of `run --rules`.
        "run-child" => internal::run(name, arguments, run_child::Args::parse, run_child::run),
        _ => return None,
    })
}

/// Runs `serve` with the options of the command line, the environment and the config file.
fn run_serve(serve: &clap::Command, command_line: &ArgMatches) -> ExitCode {
    let config = command_line.get_one::<PathBuf>("config").map(PathBuf::as_path);
    match config_sources::merge::<serve::Args>(serve, command_line, config) {
        Ok((mut args, options)) => {
            args.origins = options;
            serve::run(args)
        }
        Err(problems) => {
            problems.iter().for_each(|problem| failure::say("serve", problem));
            ExitCode::from(exit::USAGE)
        }
    }
}
