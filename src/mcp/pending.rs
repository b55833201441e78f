//! Questions that a call was answered with (2026-07-28): they wait here for the call to come again with the answer.
//!
//! 1. What the caller carries between the two is signed, holds for the same request alone, and is good for once. It says
//!    nothing but a number: what it stands for stays here.
//! 2. The clock of the call stands still in between. A question that is abandoned is forgotten with its clock, which
//!    nobody else follows, so nothing stays paused.
use super::clock::Clock;
use crate::stopwatch::PauseGuard;
use rmcp::model::{RequestStateCodec, SealOptions};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;

/// How long an answer is waited for: as long as the longest lease.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Questions that are open at a time.
const MOST: usize = 1_000;

/// The open questions of a server.
pub(super) struct Pending {
    seal: RequestStateCodec,
    open: Mutex<HashMap<[u8; 16], Open>>,
}

struct Open {
    clock: Clock,
    _stands_still: PauseGuard,
    since: Instant,
}

impl Pending {
    pub(super) fn new() -> Self {
        // Two random numbers of 122 bits each.
        let key = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let seal = RequestStateCodec::try_new(key).expect("32 bytes are long enough");
        Self { seal, open: Mutex::default() }
    }

    /// Keeps the clock of a call that is answered with a question, and returns what the caller has to bring along.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn put(&self, clock: Clock, request: &[u8]) -> Result<String, &'static str> {
        let number = Uuid::new_v4().into_bytes();
        let now = Instant::now();
        let mut open = self.open();
        open.retain(|_, open| now - open.since < PATIENCE);
        if open.len() >= MOST {
            return Err("1000 questions wait for an answer already: have some answered before you ask for more");
        }
        let _stands_still = clock.stopwatch().pause();
        open.insert(number, Open { clock, _stands_still, since: now });
        Ok(self.seal.seal_with(&number, &SealOptions::new().associated_data(request).ttl(PATIENCE)))
    }

    /// The clock of the call that was answered with `state`, which is used up by that.
    ///
    /// # Errors
    /// It is not from here, for another request, too old, or used up.
    pub(super) fn take(&self, state: &str, request: &[u8]) -> Result<Clock, &'static str> {
        let number = self.seal.open_with(state, request).ok().and_then(|number| number.try_into().ok());
        let open = number.and_then(|number: [u8; 16]| self.open().remove(&number));
        open.map(|open| open.clock).ok_or(
            "requestState is not the one of this request, is too old, or was used before: call again without it, and the \
             person is asked anew",
        )
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 16], Open>> {
        // Each change is one insertion or removal.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopwatch::StopwatchController;

    fn clock() -> Clock {
        Clock::start(&StopwatchController::detached(), "t", Some(Duration::from_secs(1))).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_good_for_once_and_for_its_request_alone() {
        let pending = Pending::new();
        let state = pending.put(clock(), b"git push").unwrap();
        assert!(pending.take(&state, b"rm").is_err(), "for another request");
        assert!(pending.take(&state.replace('.', "!"), b"git push").is_err(), "forged");
        assert!(Pending::new().take(&state, b"git push").is_err(), "from elsewhere");
        tokio::time::advance(Duration::from_secs(5)).await;
        let clock = pending.take(&state, b"git push").unwrap();
        assert_eq!(clock.read().active, Duration::ZERO, "it stood still");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.read().active, Duration::from_secs(1), "and goes on");
        assert!(pending.take(&state, b"git push").is_err(), "used up");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_questions_make_room() {
        let pending = Pending::new();
        for _ in 0..MOST {
            pending.put(clock(), b"").unwrap();
        }
        assert!(pending.put(clock(), b"").is_err());
        tokio::time::advance(PATIENCE).await;
        assert!(pending.put(clock(), b"").is_ok());
        assert_eq!(pending.open().len(), 1);
    }
}
