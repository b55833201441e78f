//! The locks, atomics and threads for data that several threads or tasks share: those of the standard library.
//!
//! They are imported from here, so that `tests/interleavings` can build the same sources with those of a scheduler that
//! tries many orders of their steps. Data that is not shared across an await or between our threads does not need this.
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(feature = "client")]
pub(crate) use std::sync::PoisonError;

#[cfg(feature = "server")]
pub(crate) use std::{
    sync::{Condvar, atomic::AtomicI64},
    thread,
};
