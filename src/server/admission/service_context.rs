//! The state that all calls share.
use crate::coordinator::metrics::Metrics;
use crate::coordinator::quota::{Accounts, Limits};
use crate::core::Exceeded;
use crate::server::status;
use std::sync::Arc;
use tonic::Status;

/// The call of liveness probes. An answer costs no more than a refusal, and a refusal could get a healthy server
/// restarted.
pub(crate) const PROBE: &str = "/grpc.health.v1.Health/Check";

/// The state that all calls share: metrics, accounts and limits.
#[derive(Debug, Default)]
pub struct ServiceContext {
    /// Counts the calls.
    pub metrics: Arc<Metrics>,
    /// The accounts of all callers.
    pub accounts: Arc<Accounts>,
    /// The limits.
    pub limits: Limits,
    /// Whether each call gets a span.
    pub trace_calls: bool,
}

impl ServiceContext {
    /// Counts a refusal, and returns its status.
    pub(crate) fn refuse(&self, exceeded: Exceeded) -> Status {
        self.metrics.refuse(exceeded.limit);
        status::of_limit(exceeded)
    }
}
