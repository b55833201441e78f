//! The settings of a coordinator.
use super::metrics::Metrics;
use super::observer::ChangeObserver;
use super::quota::Limits;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a coordinator.
#[derive(Default)]
pub struct Settings {
    /// The lease of an increment that requests none, 1 s to 24 h; `None`: without end.
    pub anonymous_ttl: Option<Duration>,
    /// The maximum length of a pause, which no renewal extends; `None`: any.
    pub max_pause: Option<Duration>,
    /// The limits of callers; `None`: unlimited.
    pub limits: Option<Limits>,
    /// The metrics that it updates.
    pub metrics: Arc<Metrics>,
    /// Observes every change.
    pub witness: Option<Box<dyn ChangeObserver>>,
}
