//! How long something has taken, and how much of that counts.
use crate::{
    client::Error,
    client::stopwatch::{Registration, Stopwatch, StopwatchController},
};
use std::time::Duration;
use tokio::time::Instant;

/// A stopwatch of a thread, and the time on the wall beside it.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    stopwatch: Stopwatch,
    registered: Registration,
}

/// What a clock shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) wall: Duration,
    /// What counts against the limit; at most `wall`.
    pub(super) active: Duration,
}

impl Clock {
    /// Starts one. `None`: without a limit.
    ///
    /// # Errors
    /// No thread can have this id.
    pub(super) fn start(
        controller: &StopwatchController,
        thread_id: &str,
        limit: Option<Duration>,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let stopwatch = limit.map_or_else(Stopwatch::unlimited, Stopwatch::new);
        let registered = controller.register(thread_id, &stopwatch)?;
        Ok(Self { started, stopwatch, registered })
    }

    pub(super) fn stopwatch(&self) -> &Stopwatch {
        &self.stopwatch
    }

    pub(super) fn thread_id(&self) -> &str {
        self.registered.thread_id()
    }

    pub(super) fn read(&self) -> Times {
        let active = self.stopwatch.elapsed();
        let wall = self.started.elapsed();
        Times { wall, active: active.min(wall) }
    }
}
