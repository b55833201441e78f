//! Stopwatches that stand still while a person is being asked: what an exec server times its commands with.
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
//! A command is charged its wall time, less the time its thread was paused, less the time its own stopwatch was paused
//! (a moment that is both counts once).
//!
//! | file | is |
//! | --- | --- |
//! | `meter` | pure: what one stopwatch has been charged |
//! | `paused_time` | pure: how long one thread has been paused, as far as this process knows |
//! | `thread` | the paused time of one thread, shared by its stopwatches; asking the coordinator on their behalf |
//! | `stopwatch` | [`Stopwatch`]: pausing, waiting for the end |
//! | `controller` | [`StopwatchController`]: which stopwatch follows which thread |
//! | `follow`, `threads` | the task that feeds the threads from a watch; the threads that it follows |
//!
//! Invariants:
//! 1. A stopwatch that follows a thread expires only after the coordinator, asked once more after the time ran out, said
//!    that the thread runs (G1), or when it could not be asked for the whole `disconnect_grace`.
//! 2. What is not confirmed ends: cut off, a paused thread counts as paused for `disconnect_grace` and then runs (G2).
//! 3. The credit of a thread follows the server's `paused_total` and is never recomputed from what was seen, so a pause
//!    that nobody here saw is credited like any other (G3).
//! 4. Pausing a thread changes its one shared record and wakes nobody. Waiters find out when their timers fire.
//!
//! Locks: a stopwatch's before its thread's; the controller's map is never held with either. None across an await.
mod controller;
mod follow;
mod meter;
mod paused_time;
mod sleep;
#[allow(clippy::module_inception)] // The module is the toolbox, the file is the tool.
mod stopwatch;
mod thread;
mod threads;

pub use controller::{Registration, StopwatchController};
pub use stopwatch::{PauseGuard, Stopwatch};
pub use threads::Link;
