//! How a pause ended: how the last open elicitation of its thread was closed. Watchers see it; it is not stored.
use super::idempotency::Closing;

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// By a decrement.
    Decremented,
    /// By a decrement of an admin.
    Released,
    /// By the end of a lease.
    Expired,
    /// By the maximum length of a pause.
    MaxPause,
}

impl From<PauseEnd> for Closing {
    fn from(end: PauseEnd) -> Self {
        match end {
            PauseEnd::Decremented | PauseEnd::Released => Closing::Released,
            PauseEnd::Expired => Closing::Expired,
            PauseEnd::MaxPause => Closing::Capped,
        }
    }
}
