//! Admission: authentication, and limits on connections, memory, streams and calls.
mod admit;
mod admitted_stream;
mod arrival;
mod authorize;
mod boundary;
mod caller;
mod connection_limit;
mod gives_way;
mod inbox;
mod memory_budget;
mod memory_limit;
mod request_rate;
mod service_context;
mod stream_limit;

pub(crate) use admit::{Admission, NotForUs};
pub(crate) use arrival::Arrival;
pub(crate) use inbox::Inbox;
#[cfg(all(test, feature = "etcd"))]
pub(crate) use memory_budget::MemoryBudget;
pub(crate) use memory_budget::{ConnectionContext, MemoryReservation};
pub(crate) use memory_limit::MemoryLimit;
pub(crate) use request_rate::RequestRate;
pub(crate) use service_context::ServiceContext;
pub(crate) use stream_limit::StreamLimit;

pub(crate) use admitted_stream::AdmittedStream;
pub(crate) use authorize::Rights;
pub(crate) use caller::{Forwarded, account};
pub(crate) use connection_limit::{ConnectionLimiter, ConnectionPermit, FIRST_REQUEST_TIME, Turn};
#[cfg(feature = "etcd")]
pub(crate) use memory_limit::until_sent;
pub(crate) use memory_limit::{Counts, HALF_REQUEST, Size, counted};
