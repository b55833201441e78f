//! The configuration of an exec server.
use super::{
    command::CommandSpec,
    launch::Launcher,
    policy::{Policy, SandboxPolicy},
};
use crate::client::stopwatch::StopwatchController;
use crate::exec::policy::{LineCommands, code_paths};
use std::{ffi::OsString, sync::Arc, time::Duration};

/// Returns the environment variables for commands of a thread.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Vec<(OsString, OsString)> + Send + Sync>;

/// The files that a login shell may read, in the person's home directory.
const PROFILE: [&str; 3] = [".bash_profile", ".bash_login", ".profile"];

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
    /// The programs of a line that leave the sandbox without a question. `login`: its shell leaves it too, and reads the profile.
    pub(super) fn line_commands(&self, spec: &CommandSpec, sandbox: &SandboxPolicy, login: bool) -> LineCommands {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::home_dir().filter(|_| login);
        let profile = home.iter().flat_map(|home| PROFILE.map(|name| home.join(name)));
        let loaded = code_paths(|name| std::env::var_os(name)).into_iter().map(|(_, path)| path);
        LineCommands::new(&self.policy.rules, &spec.line, &spec.workdir, &sandbox.exposed(&spec.workdir), search)
            .loading(loaded.chain(profile))
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
