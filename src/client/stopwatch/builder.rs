//! The two limits of a stopwatch: on unpaused time, and on wall time.
use super::Stopwatch;
use std::time::Duration;

impl Stopwatch {
    /// Prepares a stopwatch with other limits than one on unpaused time. Without settings it has no limit.
    pub fn builder() -> StopwatchBuilder {
        StopwatchBuilder::default()
    }
}

/// The limits of a [`Stopwatch`]. Made by [`Stopwatch::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use pausewatch::stopwatch::{EndedBy, Stopwatch};
/// use std::time::Duration;
///
/// let stopwatch = Stopwatch::builder().limit(Duration::from_secs(3)).max_wall(Duration::from_millis(5)).start();
/// stopwatch.expired().await;
/// assert_eq!(stopwatch.ended_by(), Some(EndedBy::MaxWall));
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing starts until start() is called"]
pub struct StopwatchBuilder {
    limit: Option<Duration>,
    max_wall: Option<Duration>,
}

impl StopwatchBuilder {
    /// The limit on unpaused time; any value is allowed, zero too. Default: none.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The limit on wall time, which nothing extends: no pause of the thread or the stopwatch, and no wait for a coordinator
    /// that does not respond. At its end the coordinator is not asked. Any value is allowed, zero too. Default: none.
    ///
    /// It uses the same clock as the other limit, which stands still while the machine sleeps.
    pub fn max_wall(self, max_wall: Duration) -> Self {
        Self { max_wall: Some(max_wall), ..self }
    }

    /// Starts the stopwatch.
    pub fn start(self) -> Stopwatch {
        Stopwatch::with_limits(self.limit, self.max_wall)
    }
}
