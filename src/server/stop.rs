//! The end of a server's backend, in two steps.
use tokio_util::sync::CancellationToken;

/// The end of a backend, in two steps.
#[derive(Clone, Default)]
pub(super) struct Stop {
    /// The replica gives up the leadership and continues as a follower, so that its watches stay up to date until they
    /// end.
    pub(super) hand_over: CancellationToken,
    /// The leadership was given up.
    pub(super) handed_over: CancellationToken,
    /// The backend ends: nothing is followed any more.
    pub(super) end: CancellationToken,
}
