//! The state of a lease.
use tokio::sync::watch;

/// The state of the lease of a [`Hold`](super::Hold), as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// The elicitation is open.
    Held,
    /// No renewal has succeeded for a whole ttl: the lease has expired, or the server is down. Renewals continue; if one
    /// succeeds, the lease is [`Held`](Self::Held) again.
    Overdue,
    /// The lease expired: the elicitation is closed, and its thread runs unless another one is open.
    Expired,
    /// The elicitation was closed by a decrement.
    Released,
    /// The server does not know the elicitation: it lost its state, or closed it too long ago to remember.
    Unknown,
}

impl Lease {
    /// Whether the elicitation is known to be closed, which is final.
    fn is_final(self) -> bool {
        matches!(self, Self::Expired | Self::Released | Self::Unknown)
    }
}

/// Sets the state of the lease, unless it is final: the responses to a renewal and a release may race.
pub(super) fn set_lease(lease: &watch::Sender<Lease>, new: Lease) {
    lease.send_if_modified(|lease| !lease.is_final() && std::mem::replace(lease, new) != new);
}
