//! What all calls share.
use crate::coordinator::metrics::Metrics;
use crate::coordinator::quota::{Accounts, Limits};
use crate::core::Exceeded;
use crate::server::status;
use std::sync::Arc;
use tonic::Status;

/// Whoever asks this wants to know whether to start the server anew. An answer costs no more than a refusal, and a refusal
/// would have a server killed that does what it should.
pub(crate) const PROBE: &str = "/grpc.health.v1.Health/Check";

/// What all calls share: where they are counted, and what they may have.
#[derive(Debug, Default)]
pub struct ServiceContext {
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
    /// Who has what.
    pub accounts: Arc<Accounts>,
    /// How much there may be.
    pub limits: Limits,
    /// Whether each has a span.
    pub trace_calls: bool,
}

impl ServiceContext {
    /// Counts what is refused; the answer to it.
    pub(crate) fn refuse(&self, exceeded: Exceeded) -> Status {
        self.metrics.refuse(exceeded.limit);
        status::of_limit(exceeded)
    }
}
