//! How a pause ended: how the last open elicitation of its thread was closed. Watchers see it.
use super::idempotency::{Closing, RememberedClosing};

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

impl From<&RememberedClosing> for PauseEnd {
    fn from(closing: &RememberedClosing) -> Self {
        match closing.how {
            Closing::Released if closing.by_admin => PauseEnd::Released,
            Closing::Released => PauseEnd::Decremented,
            Closing::Expired => PauseEnd::Expired,
            Closing::Capped => PauseEnd::MaxPause,
        }
    }
}
