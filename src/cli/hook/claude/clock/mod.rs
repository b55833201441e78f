//! The clock of one Bash call: processes beside the shell, which end it at the limit and end with it.
//!
//! The shell calls `clock`, which returns when the clock runs. The command line then runs in the shell itself.
//!
//! 1. If the clock cannot start, the shell is ended: its command must not run without a limit, as with `run`.
//! 2. A killed clock ends the shell: `clock-guard` waits for `clock-watch`, and each ends the shell if the other is killed
//!    (on Linux; elsewhere only the guard does), or if a signal asks it to end.
//! 3. A stopped clock goes on: the guard continues `clock-watch`. While the guard is stopped, `clock-watch` ends the shell at the limit.
//!    Nothing is left if both are killed or stopped at once.
//! 4. These processes have a session of their own: the shell neither waits for them nor signals them.
//! 5. Problems with the coordinator are warnings, as with `run`: the limit holds.
mod guard;
mod shell;
mod start;
mod watch;

use crate::exec::supervise::SignalListener;
use rustix::process::Signal;
use std::{io, time::Duration};

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
    /// The process id of `clock`, which waits until the clock runs.
    #[arg(long)]
    parent: i32,
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

/// The signals by which people and programs end a process, unless they were ignored at the start. Needs a tokio runtime.
fn ending_signals() -> io::Result<SignalListener> {
    SignalListener::catching(&[Signal::TERM], &[Signal::INT, Signal::HUP, Signal::QUIT])
}

/// The limit as an argument.
fn argument(limit: Duration) -> String {
    format!("{}ms", limit.as_millis())
}
