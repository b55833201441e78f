//! Admission: who may connect and call, and how much of the server each caller may use.
mod admit;
mod authorize;
mod caller;
mod connection_limit;
mod context;
mod memory_budget;
mod memory_limit;
mod stream_limit;

pub(crate) use admit::Admission;
pub(crate) use context::ServiceContext;
pub(crate) use memory_budget::ConnectionContext;
pub(crate) use memory_limit::MemoryLimit;
pub(crate) use stream_limit::StreamLimit;

pub(crate) use authorize::Rights;
pub(crate) use caller::account;
pub(crate) use connection_limit::{AdmittedStream, ConnectionLimiter, ConnectionPermit, TO_SPEAK};
pub(crate) use memory_limit::{Counts, Size, counted};
