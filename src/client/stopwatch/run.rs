//! Runs a future under a stopwatch, like `tokio::time::timeout`.
use super::{EndedBy, Stopwatch, StopwatchController};
use crate::client::Error;
use crate::core::types::ThreadId;
use std::{future::Future, io, time::Duration};

/// The time of a [`Stopwatch`] was over before its future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .0 {
    EndedBy::Limit => "the time limit is used up",
    EndedBy::MaxWall => "the limit on wall time is used up",
})]
pub struct Elapsed(EndedBy);

impl Elapsed {
    /// The limit that ended it.
    pub fn ended_by(&self) -> EndedBy {
        self.0
    }
}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

impl Stopwatch {
    /// Runs `future` until it is ready or the stopwatch expires: like `tokio::time::timeout`, but the clock is paused
    /// while a person is asked. Pauses stop only the clock, not `future`. Several futures of one stopwatch share its
    /// time, one after the other or concurrently.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use pausewatch::stopwatch::Stopwatch;
    /// use std::{future::pending, time::Duration};
    ///
    /// let stopwatch = Stopwatch::new(Duration::from_millis(5));
    /// assert_eq!(stopwatch.run(async { 7 }).await, Ok(7));
    /// assert!(stopwatch.run(pending::<()>()).await.is_err());
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Elapsed`]: the stopwatch has expired, and `future` was dropped. `future` is polled once even if the stopwatch
    /// had expired before, and a result that is ready then is returned.
    ///
    /// # Cancel safety
    /// If the returned future is dropped, `future` is dropped too, and the stopwatch continues.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.expired() => Err(Elapsed(self.ended_by().unwrap_or(EndedBy::Limit))),
        }
    }
}

/// A thread of a [`StopwatchController`], for timeouts of its commands. Made by [`StopwatchController::thread`].
#[derive(Debug, Clone)]
pub struct ThreadTimeouts {
    controller: StopwatchController,
    thread_id: String,
}

impl StopwatchController {
    /// The timeouts of a thread. `thread_id`: 1 to 256 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: `thread_id` is out of its limits.
    pub fn thread(&self, thread_id: &str) -> Result<ThreadTimeouts, Error> {
        ThreadId::parse("thread_id", thread_id)?;
        Ok(ThreadTimeouts { controller: self.clone(), thread_id: thread_id.to_owned() })
    }
}

impl ThreadTimeouts {
    /// Like `tokio::time::timeout`, but the clock is paused while the thread is: `future` has `limit` of unpaused time
    /// from the first poll of the returned future. For other limits, and pauses of its own, see [`Stopwatch::run`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), pausewatch::client::Error> {
    /// use pausewatch::stopwatch::StopwatchController;
    /// use std::{future::pending, time::Duration};
    ///
    /// let controller = StopwatchController::detached(); // or StopwatchController::new(Client::from_env()?)
    /// let thread = controller.thread("thread-1")?;
    /// assert_eq!(thread.timeout(Duration::from_secs(60), async { 7 }).await, Ok(7));
    /// assert!(thread.timeout(Duration::from_millis(5), pending::<()>()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Elapsed`]: the time was over before, and `future` was dropped. A result that is ready at the first poll is returned.
    ///
    /// # Cancel safety
    /// If the returned future is dropped, so is `future`.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let stopwatch = Stopwatch::new(limit);
        let _registered = self.controller.register(&self.thread_id, &stopwatch).expect("the thread id was checked");
        stopwatch.run(future).await
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::client::PauseState;
    use std::future::pending;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_pause_is_not_charged() {
        let controller = StopwatchController::detached();
        let state = |revision, paused| PauseState { thread_id: "t".to_owned(), revision, paused, ..Default::default() };
        let thread = controller.thread("t").unwrap();
        let start = Instant::now();
        let timed = thread.timeout(Duration::from_secs(10), pending::<()>());
        let pause = async {
            sleep(Duration::from_secs(5)).await;
            controller.apply(&state(1, true));
            sleep(Duration::from_secs(3_600)).await;
            let total = Some(Duration::from_secs(3_600).try_into().unwrap());
            controller.apply(&PauseState { paused_total: total, ..state(2, false) });
        };
        let (timed, ()) = tokio::join!(timed, pause);
        assert_eq!(timed.unwrap_err().ended_by(), EndedBy::Limit);
        assert_eq!(start.elapsed().as_secs(), 3_610);
        assert!(matches!(controller.thread("").unwrap_err(), Error::InvalidField { .. }));
    }
}
