//! The clock of one Bash call: processes beside the shell, which end it at the limit and end with it.
//!
//! The shell calls `clock`, which returns when the clock runs. The command line then runs in the shell itself.
//!
//! 1. If the clock cannot start, the shell is ended: its command must not run without a limit, as with `run`.
//! 2. A killed clock ends the shell: `clock-guard` waits for `clock-watch`, and each ends the shell if the other is killed
//!    (on Linux; elsewhere only the guard does).
//! 3. These processes have a session of their own: the shell neither waits for them nor signals them.
//! 4. Problems with the coordinator are warnings, as with `run`: the limit holds.
mod guard;
mod shell;
mod start;
mod watch;

use std::time::Duration;

pub(super) use guard::run as guard;
pub(super) use start::run as start;
pub(super) use watch::run as watch;

/// The line on standard output by which `clock-watch` reports that the clock runs.
const READY: &str = "ready";

/// The arguments of `clock`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// The time limit.
    #[arg(value_name = "DURATION", value_parser = super::super::super::duration::parse)]
    limit: Duration,
}

/// The arguments of `clock-guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// The process id of the shell.
    #[arg(long)]
    shell: i32,
    /// The time limit.
    #[arg(long, value_parser = super::super::super::duration::parse)]
    limit: Duration,
}

/// The arguments of `clock-watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The process id of the shell.
    #[arg(long)]
    shell: i32,
    /// The time limit.
    #[arg(long, value_parser = super::super::super::duration::parse)]
    limit: Duration,
    /// The process id of the guard.
    #[arg(long)]
    parent: i32,
}

/// The limit as an argument.
fn argument(limit: Duration) -> String {
    format!("{}ms", limit.as_millis())
}
