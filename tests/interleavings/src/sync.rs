//! Replaces `src/sync.rs` of the project, with shuttle's types.
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic::AtomicI64};
pub(crate) use std::sync::PoisonError;

pub(crate) mod thread {
    pub(crate) use shuttle::thread::*;

    /// Shuttle reports a panic by itself. At the end it also unwinds unfinished tasks, which is not a panic:
    /// otherwise the sources would abort the process.
    pub(crate) fn panicking() -> bool {
        false
    }
}
