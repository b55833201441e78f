//! A future under a stopwatch, as `tokio::time::timeout` is used.
use super::{EndedBy, Stopwatch};
use std::{future::Future, io};

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
    /// Runs `future` until it is ready or the stopwatch expires: `tokio::time::timeout` with a clock that stands still while a
    /// person is asked. Pauses do not stop `future`, only the clock. Futures of one stopwatch share its time, one after the other
    /// or at the same time.
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
    /// [`Elapsed`]: the stopwatch has expired, and `future` was dropped. It is polled once even if the stopwatch expired before,
    /// and a result that is ready then is returned.
    ///
    /// # Cancel safety
    /// If the returned future is dropped, so is `future`, and the stopwatch runs on; what was lost is what `future` loses.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.expired() => Err(Elapsed(self.ended_by().unwrap_or(EndedBy::Limit))),
        }
    }
}
