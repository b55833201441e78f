//! The part of tokio that the concurrent sources use, under shuttle's scheduler.
//!
//! - What passes messages (`sync`) is tokio's own: it needs no runtime, only wakers, and those are the scheduler's. So
//!   the tests see tokio's true meaning, down to which `Notified` a `notify_waiters` reaches. Around each operation of a
//!   `Notify` stands a point at which the scheduler may turn to another task.
//! - Tasks are the scheduler's (`task`).
//! - Time stands still until a test moves it (`time`).
//! - Which branch of a `select!` is looked at first, the scheduler chooses, so that a replay chooses the same.
#[macro_use]
mod select;
pub mod runtime;
pub mod sync;
pub mod task;
pub mod time;

#[doc(hidden)]
pub use real;
pub use real::join;
pub use task::spawn;

use shuttle::{
    rand::{Rng, thread_rng},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

/// Lets the scheduler turn to another task here, or not.
pub fn point() {
    AtomicBool::new(false).load(SeqCst);
}

/// Lets the scheduler choose; a replay chooses the same.
pub fn choose() -> bool {
    thread_rng().r#gen()
}
