//! How an elicitation was closed. A pause ends like the last open elicitation of its thread; watchers see it.

/// How an elicitation, or a pause, ended.
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
