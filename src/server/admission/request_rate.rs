//! The requests in an open stream, which count as calls of their caller.
//!
//! 1. None is refused: the next one is read when a call of the caller is available again, at most 5 s later. What the client sends
//!    meanwhile waits, and counts as memory of its connection.
use super::ServiceContext;
use crate::clock::Clock;
use crate::coordinator::quota::{Account, CallerKey};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep};

/// A request or an answer counts as one more call for each of these bytes: to read or to make them takes as long as a small call.
pub(super) const BYTES_PER_CALL: usize = 64 << 10;

/// The rate of the requests of one stream.
pub(crate) struct RequestRate {
    /// `None`: the server limits no calls of a caller.
    limit: Option<Limit>,
    /// The first request is the call itself, which was counted.
    is_begun: bool,
    wait: Option<Pin<Box<Sleep>>>,
}

struct Limit {
    account: Arc<Account>,
    per_second: u64,
    clock: Arc<dyn Clock>,
}

impl RequestRate {
    pub(crate) fn new(account: Option<Arc<Account>>, context: &ServiceContext, clock: &Arc<dyn Clock>) -> Self {
        let account = account.filter(|account| *account.key() != CallerKey::Itself);
        let limit = account.zip(context.limits.calls.per_caller);
        let limit = limit.map(|(account, per_second)| Limit { account, per_second, clock: clock.clone() });
        RequestRate { limit, is_begun: false, wait: None }
    }

    /// Counts a request of so many bytes.
    pub(crate) fn count(&mut self, bytes: usize) {
        let Some(Limit { account, per_second, clock }) = &self.limit else { return };
        let calls = bytes / BYTES_PER_CALL + usize::from(std::mem::replace(&mut self.is_begun, true));
        let now = clock.awake();
        account.calls.charge(calls as u64, *per_second, now);
        self.wait = account.calls.debt(now).map(|debt| Box::pin(sleep(debt)));
    }

    /// Ready when the next request may be read.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Manual;
    use crate::coordinator::quota::{LimitPair, Limits};
    use crate::core::Timestamp;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn g7_requests_in_a_stream_count_as_calls_by_their_number_and_size() {
        let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(10) }, ..Limits::default() };
        let context = ServiceContext { limits, ..ServiceContext::default() };
        let clock = Arc::new(Manual::new(Timestamp { boot: 0, wall: 0 }, 1));
        clock.advance(Duration::from_secs(1));
        let clock: Arc<dyn Clock> = clock;
        let account = context.accounts.of(CallerKey::User(1), clock.awake());
        let mut rate = RequestRate::new(Some(account.clone()), &context, &clock);
        let began = Instant::now();
        for _ in 0..11 {
            rate.count(1);
            poll_fn(|cx| rate.poll_ready(cx)).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "the first one is the call, and ten are those of a second");
        assert!(account.calls.take(10, clock.awake()).is_err(), "they count as calls");
        rate.count(2 * BYTES_PER_CALL);
        poll_fn(|cx| rate.poll_ready(cx)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(300), "three more");
        rate.count(1_000 * BYTES_PER_CALL);
        poll_fn(|cx| rate.poll_ready(cx)).await;
        assert!(began.elapsed() < Duration::from_secs(6), "never longer than 5 s");
        let mut unlimited = RequestRate::new(Some(account), &ServiceContext::default(), &clock);
        unlimited.count(1_000 * BYTES_PER_CALL);
        assert!(unlimited.wait.is_none());
    }
}
