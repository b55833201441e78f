//! Stopwatches that stop while a person is being asked: exec servers time their commands with them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use pausewatch::{client::Client, stopwatch::{Stopwatch, StopwatchController}};
//! use std::time::Duration;
//!
//! let controller = StopwatchController::new(Client::from_env()?); // one for the process
//! let stopwatch = Stopwatch::new(Duration::from_secs(3));
//! let _registered = controller.register("thread-1", &stopwatch)?;
//! tokio::select! {
//!     _ = tokio::time::sleep(Duration::from_secs(60)) => println!("done"), // the command
//!     () = stopwatch.expired() => println!("out of time"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A command is charged its wall time, minus the time its thread was paused, minus the time its own stopwatch was paused
//! (overlapping time counts once).
//!
//! | file | content |
//! | --- | --- |
//! | `meter` | pure: the time charged to one stopwatch |
//! | `paused_time` | pure: how long one thread has been paused, as far as this process knows |
//! | `paused_union` | pure: how long any of several threads has been paused |
//! | `follows` | the threads whose pauses stop one stopwatch: its own, and those that it awaits |
//! | `thread` | one thread's paused time, shared by its stopwatches, and its confirmation by the coordinator |
//! | `stopwatch` | [`Stopwatch`]: pauses, and waiting for the expiry |
//! | `run` | a future under a stopwatch |
//! | `link` | [`Link`]: the state of the connection, for the program |
//! | `threads`, `follow`, `command` | the threads that are followed, the task that applies the watch to them, and its commands |
//! | `builder`, `ended_by` | the limits of a stopwatch, and which of them ended it |
//! | `controller` | [`StopwatchController`]: registers stopwatches under threads |
//!
//! Invariants:
//! 1. A stopwatch that follows a thread expires only after the coordinator, asked after the time ran out, has confirmed
//!    that the thread is not paused (G1), or after it was unreachable for the whole `disconnect_grace`. Only its
//!    limit on wall time, if it has one, ends it without that.
//! 2. Unconfirmed pauses end: while disconnected, a paused thread counts as paused for `disconnect_grace` and then as
//!    running (G2).
//! 3. The paused time of a thread follows the server's `paused_total` and is never recomputed from observed changes, so a
//!    pause that this process did not see is credited like any other (G3).
//! 4. Pausing a thread changes one shared record and wakes nobody. Waiters find the pause when their timers fire. Only
//!    stopwatches that await other threads record each change, for the union of the pauses.
//!
//! Lock order: a stopwatch before its thread; the controller's map is never held together with either. No lock is held
//! across an await.
mod baseline;
mod builder;
mod command;
mod controller;
mod covered;
mod ended_by;
mod follow;
mod follows;
mod link;
mod machine_sleep;
mod meter;
mod paused_time;
mod paused_union;
mod run;
#[allow(clippy::module_inception)] // The type has the name of its module.
mod stopwatch;
mod thread;
mod threads;
#[cfg(any(feature = "cli", feature = "exec-server"))]
mod times;
#[cfg(test)]
#[cfg(feature = "cli")]
mod vectors;

pub use builder::StopwatchBuilder;
pub use controller::{AwaitedThread, Registration, StopwatchController};
pub use ended_by::EndedBy;
pub use link::Link;
#[cfg(feature = "cli")]
pub(crate) use link::Refusal;
pub use run::{Elapsed, ThreadTimeouts};
pub use stopwatch::{PauseGuard, Stopwatch};
#[cfg(any(feature = "cli", feature = "exec-server"))]
pub(crate) use times::Times;
