//! One unary call: a deadline, and within it retries of what found nobody.
//!
//! 1. The deadline covers everything: connecting, every attempt, every pause between them.
//! 2. Only UNAVAILABLE is retried: the server refused nothing, and the request id makes the repetition count once.
//! 3. The pause between attempts is random, so that the clients of a restarted server do not come back as one.
use super::Error;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Request, Response, Status};

/// The grain of timers.
const TICK: Duration = Duration::from_millis(2);

/// Doubling from `first` to `most`, each with up to as much again at random, for ever.
pub(crate) fn backoff(first: Duration, most: Duration) -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(first).with_max_delay(most).without_max_times();
    // Seeded here: without its std feature backon would start every process with the same seed.
    builder.with_jitter().with_jitter_seed(fastrand::u64(..)).build()
}

/// How patient a call is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) deadline: Duration,
    pub(super) retries: usize,
}

/// Sends `message` by `send` until there is an answer, a refusal, or no time left.
pub(super) async fn unary<M, R, F>(
    patience: Patience,
    message: M,
    mut send: impl FnMut(Request<M>) -> F,
) -> Result<R, Error>
where
    M: Clone,
    F: Future<Output = Result<Response<R>, Status>>,
{
    let start = Instant::now();
    let give_up = after(start, patience.deadline);
    let mut pauses = backoff(Duration::from_millis(25), Duration::from_secs(1)).take(patience.retries);
    loop {
        let mut request = Request::new(message.clone());
        request.set_timeout(give_up.saturating_duration_since(Instant::now()));
        let error = match timeout_at(give_up, send(request)).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            // The transport and tonic servers end a call at the same moment, and name it CANCELLED.
            Ok(Err(status)) if status.code() == Code::Cancelled && Instant::now() + TICK >= give_up => {
                return Err(Error::deadline(patience.deadline));
            }
            Ok(Err(status)) => Error::from(status),
            Err(_) => return Err(Error::deadline(patience.deadline)),
        };
        let wait = error.call_less_often();
        if wait.is_none() && !matches!(error, Error::Unavailable(_) | Error::StoreUnavailable(_)) {
            return Err(error);
        }
        match pauses.next().map(|pause| pause + wait.unwrap_or_default()) {
            // Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
            Some(pause) if Instant::now() + pause < give_up => sleep(pause).await,
            _ => return Err(error),
        }
    }
}

/// `start + duration`, or a day so far away that nobody sees it.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    start.checked_add(duration).unwrap_or_else(|| start + Duration::from_secs(86_400 * 365 * 30))
}
