//! Locks, atomics and threads of the standard library, for data that several threads or tasks share.
//!
//! The sources import them from here, so that `tests/interleavings` can replace them by those of a scheduler that tries
//! many orders of their steps. Data that is not shared across an await or between our threads does not need this.
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(feature = "client")]
pub(crate) use std::sync::PoisonError;

#[cfg(feature = "server")]
pub(crate) use std::{
    sync::{Condvar, atomic::AtomicI64},
    thread,
};
