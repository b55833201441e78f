//! Which of its two limits ended a stopwatch.

/// The limit that ended a [`Stopwatch`](super::Stopwatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndedBy {
    /// The limit on unpaused time.
    Limit,
    /// The limit on wall time, which no pause extends.
    MaxWall,
}
