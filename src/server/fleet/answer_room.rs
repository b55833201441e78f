//! Bounds the unread answers to the reads that a follower forwards.
//!
//! For the memory budget of connections, all calls of a follower are those of one client, however many clients made
//! them. Without this limit, a few dozen large answers at once exceed the budget, and the connection is closed, which
//! ends the calls and looks of all of them.
use crate::server::admission::{ConnectionContext, Size, until_sent};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::http;

/// The maximum per follower, in KiB: a quarter of the memory budget.
const MAX_UNREAD: u32 = 32 << 10;
/// The room that an answer takes until its size is known, in KiB: more than any answer needs.
const LARGEST: u32 = 8 << 10;

/// The room for answers on the connection of one follower.
pub(super) struct AnswerRoom(Arc<Semaphore>);

impl AnswerRoom {
    pub(super) fn of(connection: &ConnectionContext) -> Self {
        AnswerRoom(connection.room(MAX_UNREAD).clone())
    }

    /// Waits until there is room for the largest answer, and then makes the answer, which takes only its own size until
    /// it is sent.
    pub(super) async fn limit<E>(
        self,
        answer: impl Future<Output = Result<http::Response<Body>, E>>,
    ) -> Result<http::Response<Body>, E> {
        let mut taken = self.0.acquire_many_owned(LARGEST).await.ok();
        let answer = answer.await?;
        let size = answer.extensions().get::<Size>().map_or(0, |size| size.0);
        // Twice, as in the memory budget: as a message and encoded.
        let kib = u32::try_from((2 * size) >> 10).unwrap_or(LARGEST).saturating_add(1);
        let surplus = LARGEST.saturating_sub(kib) as usize;
        drop(taken.as_mut().and_then(|taken| taken.split(surplus)));
        Ok(answer.map(|body| until_sent(body, taken)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use crate::server::admission::MemoryBudget;
    use http_body_util::{BodyExt, Full};
    use std::convert::Infallible;
    use std::future::ready;
    use std::time::Duration;
    use tokio::time::timeout;

    /// An answer of so many bytes to a read of this follower; `None`: an hour later it still waits.
    async fn read(follower: &ConnectionContext, size: usize) -> Option<http::Response<Body>> {
        let mut answer = http::Response::new(Body::new(Full::new(vec![0; size].into())));
        answer.extensions_mut().insert(Size(size));
        let answer = AnswerRoom::of(follower).limit(ready(Ok::<_, Infallible>(answer)));
        timeout(Duration::from_secs(3_600), answer).await.ok().map(|Ok(answer)| answer)
    }

    #[tokio::test(start_paused = true)]
    async fn g7_a_read_waits_until_its_follower_has_read_other_answers() {
        let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
        let budget = Arc::<MemoryBudget>::default();
        let (follower, other) = (budget.connection(account.clone(), None), budget.connection(account, None));
        let mut unread = Vec::new();
        while let Some(answer) = read(&follower, 1_400_000).await {
            unread.push(answer);
            assert!(unread.len() < 20, "more than a quarter of the budget");
        }
        assert!(unread.len() > 5, "there was room for {}", unread.len());
        assert!(read(&other, 1_400_000).await.is_some(), "each follower has room of its own");
        // Its body is gone as soon as HTTP/2 has taken it, but it is not sent yet.
        let sending = unread.swap_remove(0).into_body().frame().await;
        assert!(read(&follower, 1).await.is_none());
        drop(sending);
        assert!(read(&follower, 1).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn small_answers_need_not_wait() {
        let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
        let follower = Arc::<MemoryBudget>::default().connection(account, None);
        let mut unread = Vec::new();
        for _ in 0..10_000 {
            unread.push(read(&follower, 200).await.expect("there is room"));
        }
    }
}
