//! How the watches of a replica check that it shows the latest state.
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tonic::Status;

/// Delays a watch of a replica until the hub shows every change that any replica had answered before the request.
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas make one"))]
pub(crate) struct Confirmed {
    /// Waits until the hub shows these changes.
    pub(crate) confirm: Box<dyn Fn() -> Confirming + Send + Sync>,
    /// The longest silence of a watch, which is also the interval in its heartbeats.
    pub(crate) heartbeat: Duration,
}

/// Fails if the watch must end, with the status of the watch.
pub(crate) type Confirming = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;
