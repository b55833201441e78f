//! The locks, atomics and threads of what several threads or tasks share: those of the standard library.
//!
//! They are named here, and imported from here, so that `tests/interleavings` can build the same sources with the ones
//! of a scheduler that tries many orders of their steps. What nobody shares across an await or a thread of ours needs
//! no detour.
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(feature = "client")]
pub(crate) use std::sync::PoisonError;

#[cfg(feature = "server")]
pub(crate) use std::{
    sync::{Condvar, atomic::AtomicI64},
    thread,
};
