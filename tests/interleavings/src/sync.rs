//! What `src/sync.rs` gives the sources in the project: here, shuttle's.
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic::AtomicI64};
pub(crate) use std::sync::PoisonError;

pub(crate) mod thread {
    pub(crate) use shuttle::thread::*;

    /// Shuttle reports a panic by itself. And it unwinds tasks that are unfinished at the end, which is none: the
    /// sources would abort the process.
    pub(crate) fn panicking() -> bool {
        false
    }
}
