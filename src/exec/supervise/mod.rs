//! Supervises one command under a clock: what GNU `timeout` does between `fork` and `exit`, with the clock as a parameter.
//!
//! [`Supervisor::start`] makes this process the leader of a background process group, catches the signals to pass on, and
//! spawns the command into the group. [`Job::supervise`] waits for the command's end, a signal to us, or the clock, whichever
//! comes first. It returns an [`ExitAction`], which the caller carries out after cleaning up.
//!
//! 1. The end of a command is reported at once, whatever its clock does; a command that ends in time is not timed out.
//! 2. A signal reaches the command and, unless in the foreground, everything that stayed in its process group; a command
//!    that left the group is reached too.
//! 3. Nothing here stops or kills this process before [`ExitAction::carry_out`], so the caller can clean up. (`-s STOP`
//!    stops it, as it does GNU `timeout`.)
//! 4. The command starts with the signal dispositions and the mask that this process was started with, as with GNU
//!    `timeout`: HUP, INT, QUIT and TERM are at their defaults. The differences are listed below. Standard streams that
//!    were closed stay closed. (PIPE and closed streams: only on Linux.)
//! 5. If this process ends without ending the command (KILL), the command gets the signal of the time limit. Linux only.
//!
//! Where this differs from GNU `timeout` 9.1, on purpose:
//!
//! - `-s CHLD` makes GNU wait forever for a command that has ended; here it ends.
//! - GNU sends the signal to the command and again to the group; here the command gets it once.
//! - GNU passes each signal on only once; here it is passed on as often as it arrives. Other signals that end a process
//!   (USR1, USR2, …) are passed on too, where GNU would die and leave the command running without a limit.
//! - HUP, and those further signals, stay ignored if they were ignored at the start (`nohup`).
//! - A command of a script that uses the terminal is stopped, as with GNU; it gets the terminal while its thread is paused, and a message
//!   says so otherwise (`cli/run/terminal.rs`).
//! - GNU treats a limit that is too small for a `double` as no limit; here it expires at once.
#[cfg(feature = "exec-server")]
pub(crate) mod descriptors;
mod exit_action;
mod inherited;
#[cfg(all(feature = "exec-server", target_os = "linux"))]
mod newest;
#[cfg(target_os = "linux")]
mod orphans;
mod prepare;
#[cfg(feature = "exec-server")]
pub(crate) mod reaper;
#[cfg(feature = "exec-server")]
pub(crate) mod session;
#[cfg(feature = "exec-server")]
pub(crate) mod session_killer;
mod signal;
mod signal_listener;
mod spawn;
mod supervisor;

pub(crate) use exit_action::ExitAction;
#[cfg(all(feature = "exec-server", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use exit_action::die_of;
#[cfg(feature = "exec-server")]
pub(crate) use inherited::close_on_exec;
pub(crate) use inherited::{ignored_at_start, keep_streams_closed, record, was_closed, was_ignored};
pub(crate) use prepare::die_with_parent;
pub(crate) use signal::Signal;
pub(crate) use signal_listener::SignalListener;
pub(crate) use spawn::{Program, SpawnError};
pub(crate) use supervisor::{Ended, Origin, Policy, Process, Supervisor};
