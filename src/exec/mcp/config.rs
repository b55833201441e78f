//! The configuration of an exec server.
use super::launch::Launcher;
use super::policy::Policy;
use crate::client::stopwatch::StopwatchController;
use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

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
