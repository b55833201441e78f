//! The wall time of a command or call, and the unpaused part of it.
use crate::{
    client::Error,
    client::stopwatch::{Registration, Stopwatch, StopwatchController},
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A stopwatch of a thread, and the wall time since its start.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    stopwatch: Stopwatch,
    registered: Registration,
}

/// The reading of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) wall: Duration,
    /// The time that counts against the limit; at most `wall`.
    pub(super) active: Duration,
}

impl Clock {
    /// Starts a clock. `limit`: `None` means no limit.
    ///
    /// # Errors
    /// The thread id is invalid.
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

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn stopwatch(&self) -> &Stopwatch {
        &self.stopwatch
    }

    pub(super) fn thread_id(&self) -> &str {
        self.registered.thread_id()
    }

    /// Waits until the limit is used up, as far as the pauses of the thread are known. Unlike [`Stopwatch::expired`] it does not wait for an
    /// unreachable coordinator: for limits that end no command.
    pub(super) async fn used_up(&self) {
        loop {
            let is_paused = self.stopwatch.is_paused();
            let left = self.stopwatch.remaining().filter(|_| !is_paused);
            if left == Some(Duration::ZERO) {
                return;
            }
            tokio::select! {
                () = self.stopwatch.pause_changed(is_paused) => {}
                () = sleep(left.unwrap_or(Duration::MAX)) => {}
            }
        }
    }

    pub(super) fn read(&self) -> Times {
        let active = self.stopwatch.elapsed();
        let wall = self.started.elapsed();
        Times { wall, active: active.min(wall) }
    }
}
