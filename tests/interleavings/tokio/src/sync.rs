//! tokio's own types, with scheduling points around the operations of a `Notify`.
use crate::point;
pub use real::sync::{OnceCell, mpsc, oneshot, watch};

#[derive(Debug, Default)]
pub struct Notify(real::sync::Notify);

impl Notify {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notified(&self) -> real::sync::futures::Notified<'_> {
        point();
        let notified = self.0.notified();
        point();
        notified
    }

    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
        point();
    }

    pub fn notify_waiters(&self) {
        point();
        self.0.notify_waiters();
        point();
    }
}
