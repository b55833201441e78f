//! The configuration of an exec server.
use super::{
    command::CommandSpec,
    launch::Launcher,
    policy::{Policy, SandboxPolicy},
};
use crate::client::stopwatch::StopwatchController;
use crate::exec::policy::{LineCommands, LineSetting, code_paths};
use std::{ffi::OsString, sync::Arc, time::Duration};

/// Returns the environment variables for commands of a thread.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Vec<(OsString, OsString)> + Send + Sync>;

/// The configuration of an exec server.
#[derive(Clone)]
pub(crate) struct Config {
    /// Pauses the stopwatches of commands with their threads.
    pub controller: StopwatchController,
    /// The environment by which commands of a thread find the coordinator.
    pub environment: Environment,
    pub launcher: Launcher,
    /// The thread of calls that name none; `None`: a new thread for each MCP session.
    pub thread_id: Option<String>,
    pub policy: Policy,
    pub limits: Limits,
}

impl Config {
    /// The programs of a line that may leave the sandbox without a question.
    pub(super) fn line_commands(
        &self,
        spec: &CommandSpec,
        sandbox: &SandboxPolicy,
        is_login: bool,
        is_approved: bool,
    ) -> LineCommands {
        let setting = LineSetting {
            workdir: spec.workdir.clone(),
            exposed: sandbox.exposed_by(&spec.workdir),
            search: std::env::var_os("PATH").unwrap_or_default(),
            loaded: code_paths(|name| std::env::var_os(name)),
            has_terminal: spec.tty,
            is_login,
            is_approved,
        };
        LineCommands::new(&self.policy.rules, &spec.line, setting)
    }
}

/// Limits on commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The time limit of a `shell` call that names none; `None`: no limit.
    pub timeout: Option<Duration>,
    /// The maximum number of commands of all callers that run, or have ended and were not yet reported.
    pub commands: usize,
    /// The maximum of unread output that is kept per command, in bytes.
    pub output: usize,
    /// A command of `exec_command` ends after this much unpaused time without a call that uses it; `None`: never.
    pub idle: Option<Duration>,
    /// The maximum time until the answer to a question; `None`: no limit.
    pub max_pause: Option<Duration>,
    /// The time from TERM to KILL.
    pub kill_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(120)),
            commands: 256,
            output: 1024 * 1024,
            idle: Some(Duration::from_secs(30 * 60)),
            max_pause: None,
            kill_after: Duration::from_secs(2),
        }
    }
}
