//! The part of tokio that the concurrent sources use, under shuttle's scheduler.
//!
//! - Types that pass messages (`sync`) are tokio's own: they need no runtime, only wakers, and the scheduler has those.
//!   So the tests see tokio's real behaviour, even which `Notified` a `notify_waiters` reaches. Around each operation
//!   of a `Notify`, the scheduler may switch to another task.
//! - Tasks are the scheduler's (`task`).
//! - Time stands still until a test advances it (`time`).
//! - The scheduler chooses which branch of a `select!` is polled first, so that a replay chooses the same.
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

/// Lets the scheduler switch to another task here.
pub fn point() {
    AtomicBool::new(false).load(SeqCst);
}

/// Lets the scheduler choose; a replay chooses the same.
pub fn choose() -> bool {
    thread_rng().r#gen()
}
