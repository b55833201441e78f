//! The end of a server's backend, in two steps.
use tokio_util::sync::CancellationToken;

/// The end of a backend, in two steps.
#[derive(Clone, Default)]
pub(super) struct Stop {
    /// It gives up the leadership and goes on following, so that its watches stay up to date until they end.
    pub(super) hand_over: CancellationToken,
    /// It has given it up.
    pub(super) handed_over: CancellationToken,
    /// It ends: nothing follows any more.
    pub(super) end: CancellationToken,
}
