//! The clock of a command or call: it stops while the thread is paused.
use crate::{
    client::Error,
    client::stopwatch::{Registration, Stopwatch, StopwatchController, Times},
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A stopwatch that follows a thread.
#[derive(Debug)]
pub(super) struct Clock {
    stopwatch: Stopwatch,
    registered: Registration,
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
        let stopwatch = limit.map_or_else(Stopwatch::unlimited, Stopwatch::new);
        let registered = controller.register(thread_id, &stopwatch)?;
        Ok(Self { stopwatch, registered })
    }

    pub(super) fn started(&self) -> Instant {
        self.stopwatch.started()
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
        self.stopwatch.times()
    }
}
