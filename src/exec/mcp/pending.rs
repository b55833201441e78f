//! Questions that a call was answered with (2026-07-28): they wait here for the call to come again with the answer.
//!
//! 1. What the caller carries between the two is signed, holds for the same request alone, and is good for once. It says
//!    nothing but a number: what it stands for stays here.
//! 2. The clock of the call stands still in between. A question that is abandoned is forgotten with its clock, which
//!    nobody else follows, so nothing stays paused.
//! 3. There are never more than [`MOST`]. A new one always has room: the oldest one of the thread that has the most of them
//!    gives way, so whoever leaves questions open pays for it, as far as callers without sessions can be told apart.
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
    /// As the call names it; calls that name none are one thread here.
    thread: Option<String>,
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
    pub(super) fn put(&self, clock: Clock, thread: Option<String>, request: &[u8]) -> String {
        let number = Uuid::new_v4().into_bytes();
        let now = Instant::now();
        let mut open = self.open();
        open.retain(|_, open| now - open.since < PATIENCE);
        if open.len() >= MOST {
            make_room(&mut open);
        }
        let _stands_still = clock.stopwatch().pause();
        open.insert(number, Open { thread, clock, _stands_still, since: now });
        self.seal.seal_with(&number, &SealOptions::new().associated_data(request).ttl(PATIENCE))
    }

    /// The clock of the call that was answered with `state`, which is used up by that.
    ///
    /// # Errors
    /// It is not from here, for another request, too old, or used up.
    pub(super) fn take(&self, state: &str, request: &[u8]) -> Result<Clock, &'static str> {
        let number = self.seal.open_with(state, request).ok().and_then(|number| number.try_into().ok());
        let open = number.and_then(|number: [u8; 16]| self.open().remove(&number));
        open.map(|open| open.clock).ok_or(
            "requestState is not the one of this request, is too old, gave way to newer ones, or was used before: call again \
             without it, and the person is asked anew",
        )
    }

    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 16], Open>> {
        // Each change is one insertion or removal.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the oldest question of the thread that has the most.
fn make_room(open: &mut HashMap<[u8; 16], Open>) {
    let mut counts = HashMap::<_, usize>::new();
    open.values().for_each(|open| *counts.entry(&open.thread).or_default() += 1);
    let first = open.iter().max_by_key(|(_, open)| (counts[&open.thread], Reverse(open.since)));
    if let Some(number) = first.map(|(number, _)| *number) {
        open.remove(&number);
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
    async fn an_answer_is_good_for_once_and_for_its_request_alone() {
        let pending = Pending::new();
        let state = pending.put(clock(), None, b"git push");
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
    async fn abandoned_questions_are_forgotten() {
        let pending = Pending::new();
        (0..9).for_each(|_| _ = pending.put(clock(), None, b""));
        tokio::time::advance(PATIENCE).await;
        pending.put(clock(), None, b"");
        assert_eq!(pending.open().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_many_questions_open_makes_room_for_all() {
        let pending = Pending::new();
        let put = async |thread: &str| {
            tokio::time::advance(Duration::from_millis(1)).await;
            pending.put(clock(), Some(thread.to_owned()), b"")
        };
        let patient = put("patient").await;
        let (first, second) = (put("busy").await, put("busy").await);
        for _ in 0..MOST - 3 {
            put("busy").await;
        }
        let late = put("late").await;
        assert_eq!(pending.open().len(), MOST);
        assert!(pending.take(&first, b"").is_err_and(|why| why.contains("gave way")), "the oldest of those");
        for state in [second, patient, late] {
            assert!(pending.take(&state, b"").is_ok());
        }
    }
}
