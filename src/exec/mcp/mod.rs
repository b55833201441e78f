//! The exec server: MCP tools that run the commands of a thread, under stopwatches that stand still while the thread is
//! paused.
//!
//! | file | is |
//! | --- | --- |
//! | `tools` | what the tools take and answer, and what a model is told of them |
//! | `handler` | MCP: from a call to a tool, and back |
//! | `shell`, `sessions` | the tools themselves |
//! | `commands` | the commands that run: how many, whose, and their end |
//! | `command` | one of them: its clock, its output, its end |
//! | `clock`, `idle` | times; how long nobody asked for a command |
//! | `launch`, `output` | its start; what it has said |
//! | `permit`, `ask`, `pending` | whether a command may run; asking the person |
//! | `progress` | what a caller is told while a person is waited for |
//! | `stdio`, `http` | serving one client on standard input and output, or many |
//! | `deletions` | HTTP sessions that are deleted |
//!
//! Invariants:
//! 1. A command ends with the call that it was started for, with the session of its caller, or with the server, whichever
//!    is first; all that it started ends with it.
//! 2. What a caller waits for is timed by stopwatches of the thread: the command's limit and the moment to yield too.
//! 3. A command that has ended is reported at once, whatever its clocks do.
//! 4. No lock is held across an await, but the one of a command's standard input, which only its writers take.
mod approval;
mod ask;
mod clock;
mod command;
mod commands;
mod deletions;
mod handler;
mod http;
mod idle;
mod launch;
mod output;
mod pending;
mod progress;
mod sessions;
mod shell;
mod stdio;
mod tools;

pub(crate) use approval::{Policy, SandboxPolicy};
pub(crate) use ask::WhenUnable;
pub(crate) use handler::Caller;
pub(crate) use http::{Http, PATH, serve_http};
pub(crate) use launch::{Launcher, usual_shell};
pub(crate) use stdio::serve_stdio;

use crate::client::stopwatch::StopwatchController;
use commands::Commands;
use handler::Scope;
use pending::Pending;
use std::{ffi::OsString, fmt, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What commands of a thread find in their environment.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Vec<(OsString, OsString)> + Send + Sync>;

/// What an exec server needs to know.
#[derive(Clone)]
pub(crate) struct Config {
    /// Keeps the clocks in step with the pauses.
    pub controller: StopwatchController,
    /// How commands of a thread find the coordinator.
    pub environment: Environment,
    /// How commands are started.
    pub launcher: Launcher,
    /// The thread of calls that name none; `None`: one for each MCP session.
    pub thread_id: Option<String>,
    /// What may run, and where.
    pub policy: Policy,
    /// Bounds.
    pub limits: Limits,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What the environment holds may be secret.
        f.debug_struct("Config")
            .field("thread_id", &self.thread_id)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What commands may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The limit of a `shell` call that names none; `None`: it has none.
    pub timeout: Option<Duration>,
    /// Commands that run or wait to be asked for, of all callers together.
    pub commands: usize,
    /// Bytes of output that are kept of each.
    pub output: usize,
    /// After so much unpaused time in which nobody asked for it, a command of `exec_command` ends; `None`: it does not.
    pub idle: Option<Duration>,
    /// KILL follows this long after TERM.
    pub kill_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(120)),
            commands: 256,
            output: 1024 * 1024,
            idle: Some(Duration::from_secs(30 * 60)),
            kill_after: Duration::from_secs(2),
        }
    }
}

/// The exec server: its commands, and what is the same for all callers.
pub(crate) struct ExecServer {
    config: Config,
    commands: Arc<Commands>,
    pending: Pending,
    /// Whose commands those of requests without a session are.
    shared: Scope,
    shutdown: CancellationToken,
}

impl fmt::Debug for ExecServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecServer")
            .field("config", &self.config)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

impl ExecServer {
    /// Needs a tokio runtime; on Linux, commands die with the thread that runs it.
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let commands = Commands::new(config.clone());
        let shutdown = CancellationToken::new();
        let shared = Scope::new(config.thread_id.clone(), &shutdown);
        Arc::new(Self { config, commands, pending: Pending::new(), shared, shutdown })
    }

    /// Ends every command and waits until nothing of them is left.
    pub(crate) async fn shutdown(&self) {
        self.shutdown.cancel();
        self.commands.all_ended().await;
    }
}
