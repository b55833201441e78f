//! Pending approvals (protocol version 2026-07-28): questions that were the response to a call, until the client repeats the
//! call with the answer.
//!
//! 1. The client's `requestState` is signed, valid for the same request only, and usable once. It contains only a random
//!    id; the state stays here.
//! 2. The clock of the call is paused meanwhile. An abandoned question is dropped with its clock, so nothing stays paused.
//! 3. There are at most [`MAX_PENDING`] (G7). When they are full, a new one evicts the oldest of the thread that has most, so
//!    that one busy thread does not evict the questions of others.
use super::clock::Clock;
use crate::client::stopwatch::PauseGuard;
use rmcp::model::{RequestStateCodec, SealOptions};
use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;

/// How long a question stays open: as long as the longest lease.
const PENDING_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of open questions.
const MAX_PENDING: usize = 1_000;

/// The open questions of a server.
pub(super) struct PendingApprovals {
    codec: RequestStateCodec,
    open: Mutex<HashMap<[u8; 16], Open>>,
}

struct Open {
    /// The thread that the call names; calls that name none count as one thread.
    thread: Option<String>,
    clock: Clock,
    _pause: PauseGuard,
    since: Instant,
}

impl PendingApprovals {
    pub(super) fn new() -> Self {
        // Two random numbers of 122 bits each.
        let key = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let codec = RequestStateCodec::try_new(key).expect("32 bytes are long enough");
        Self { codec, open: Mutex::default() }
    }

    /// Keeps the clock of a call whose response is a question, and returns the `requestState` for the client.
    pub(super) fn put(&self, clock: Clock, thread: Option<String>, request: &[u8]) -> String {
        let id = Uuid::new_v4().into_bytes();
        let now = Instant::now();
        let mut open = self.open();
        open.retain(|_, open| now - open.since < PENDING_TTL);
        if open.len() >= MAX_PENDING {
            evict_one(&mut open);
        }
        let _pause = clock.stopwatch().pause();
        open.insert(id, Open { thread, clock, _pause, since: now });
        self.codec.seal_with(&id, &SealOptions::new().associated_data(request).ttl(PENDING_TTL))
    }

    /// Takes the clock of the call whose response had `state`.
    ///
    /// # Errors
    /// `state` is forged, for another request, too old, evicted or used.
    pub(super) fn take(&self, state: &str, request: &[u8]) -> Result<Clock, &'static str> {
        let id = self.codec.open_with(state, request).ok().and_then(|id| id.try_into().ok());
        let open = id.and_then(|id: [u8; 16]| self.open().remove(&id));
        open.map(|open| open.clock).ok_or(
            "requestState belongs to another request, is too old, was evicted by newer ones, or was used before: call again \
             without it to ask the person again",
        )
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 16], Open>> {
        // Each change is one insertion or removal.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the oldest question of the thread that has the most.
fn evict_one(open: &mut HashMap<[u8; 16], Open>) {
    let mut counts = HashMap::<_, usize>::new();
    open.values().for_each(|open| *counts.entry(&open.thread).or_default() += 1);
    let first = open.iter().max_by_key(|(_, open)| (counts[&open.thread], Reverse(open.since)));
    if let Some(id) = first.map(|(id, _)| *id) {
        open.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::stopwatch::StopwatchController;

    fn clock() -> Clock {
        Clock::start(&StopwatchController::detached(), "t", Some(Duration::from_secs(1))).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_valid_once_and_for_its_request_only() {
        let pending = PendingApprovals::new();
        let state = pending.put(clock(), None, b"git push");
        assert!(pending.take(&state, b"rm").is_err(), "for another request");
        assert!(pending.take(&state.replace('.', "!"), b"git push").is_err(), "forged");
        assert!(PendingApprovals::new().take(&state, b"git push").is_err(), "of another server");
        tokio::time::advance(Duration::from_secs(5)).await;
        let clock = pending.take(&state, b"git push").unwrap();
        assert_eq!(clock.read().active, Duration::ZERO, "it was paused");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.read().active, Duration::from_secs(1), "it runs again");
        assert!(pending.take(&state, b"git push").is_err(), "used up");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_questions_are_dropped() {
        let pending = PendingApprovals::new();
        (0..9).for_each(|_| _ = pending.put(clock(), None, b""));
        tokio::time::advance(PENDING_TTL).await;
        pending.put(clock(), None, b"");
        assert_eq!(pending.open().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_busiest_thread_loses_its_oldest_question() {
        let pending = PendingApprovals::new();
        let put = async |thread: &str| {
            tokio::time::advance(Duration::from_millis(1)).await;
            pending.put(clock(), Some(thread.to_owned()), b"")
        };
        let patient = put("patient").await;
        let (first, second) = (put("busy").await, put("busy").await);
        for _ in 0..MAX_PENDING - 3 {
            put("busy").await;
        }
        let late = put("late").await;
        assert_eq!(pending.open().len(), MAX_PENDING);
        assert!(pending.take(&first, b"").is_err_and(|why| why.contains("was evicted")), "its oldest");
        for state in [second, patient, late] {
            assert!(pending.take(&state, b"").is_ok());
        }
    }
}
