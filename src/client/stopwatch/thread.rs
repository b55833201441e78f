//! One thread as its stopwatches share it: its credit, who waits for a change of it, and the question to the
//! coordinator that comes before an expiry.
//!
//! 1. Pausing is one short critical section. Only a resume, a break and its end wake the waiters, and only those who
//!    wait for the thread; who waits for a timer is not among them.
//! 2. One question per thread is under way at a time, whoever asks. An answer counts for a stopwatch only if the question
//!    began after its time ran out: an earlier one may have missed an increment that was acknowledged since (G1).
//! 3. A question is a short task of its own: it is answered also when the one who asked has gone.
use super::paused_time::{Joined, Now, PausedTimeTracker, Seen, Via};
use crate::client::{Client, GetPauseStateRequest, PauseState};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// Between two questions to a coordinator that cannot be asked; up to twice as long, at random.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// How to ask, and how long to be patient; the same for all threads of a controller.
#[derive(Debug)]
pub(super) struct Coordinator {
    /// `None`: there is nobody to ask.
    pub(super) client: Option<Client>,
    pub(super) grace: Duration,
    /// How long the machine has slept.
    pub(super) slept: fn() -> Duration,
}

#[derive(Debug)]
pub(super) struct ThreadClock {
    thread_id: Arc<str>,
    coordinator: Arc<Coordinator>,
    credit: Mutex<PausedTimeTracker>,
    asks: Mutex<Asks>,
    /// Told when waiters must look again.
    pub(super) changed: Notify,
    /// Told when a question was answered, or failed.
    pub(super) answered: Notify,
}

#[derive(Debug, Default)]
struct Asks {
    /// When the question under way began.
    under_way: Option<Instant>,
    /// When the last one that is over began, and whether it was answered.
    last: Option<(Instant, bool)>,
    /// When the next one is due, if that failed. Kept here, since those who wait may do so in small steps.
    next: Option<Instant>,
}

/// What is known about a question that began at some moment or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Answered,
    /// The next one should begin then.
    Failed {
        next: Instant,
    },
    /// It began then and is not over; `failed`: one before it failed.
    UnderWay {
        began: Instant,
        failed: bool,
    },
    /// None has begun yet.
    NotYet,
}

impl ThreadClock {
    pub(super) fn new(thread_id: Arc<str>, coordinator: Arc<Coordinator>) -> Self {
        let credit = Mutex::new(PausedTimeTracker::new(Instant::now().into_std(), coordinator.grace));
        let (asks, changed, answered) = Default::default();
        Self { thread_id, coordinator, credit, asks, changed, answered }
    }

    fn credit(&self) -> MutexGuard<'_, PausedTimeTracker> {
        // Nothing in there can be half done: each change is one assignment at its end.
        self.credit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn grace(&self) -> Duration {
        self.coordinator.grace
    }

    /// The paused time so far.
    pub(super) fn paid(&self, now: Instant) -> Duration {
        self.credit().paid(now.into_std())
    }

    /// Whether the thread is paused, and until when that counts if it cannot be confirmed. The end of the link's grace is
    /// given for a running thread too: its credit is not certain then.
    pub(super) fn pause(&self, now: Instant) -> (bool, Option<Instant>) {
        let credit = self.credit();
        (credit.is_paused(now.into_std()), credit.thaw().map(Instant::from_std))
    }

    pub(super) fn join(&self, now: Instant) -> (Duration, Joined) {
        self.credit().join(now.into_std())
    }

    /// The watch is not heard any more.
    pub(super) fn cut(&self) {
        let wake = self.credit().cut(Instant::now().into_std());
        if wake {
            self.changed.notify_waiters();
        }
    }

    /// Takes a state.
    pub(super) fn apply(&self, state: &PauseState, via: Via) {
        // A negative or missing total is no server of ours; it credits nothing.
        let total = state.paused_total.and_then(|total| Duration::try_from(total).ok()).unwrap_or_default();
        let seen = Seen { revision: state.revision, paused: state.paused, total };
        let slept = (self.coordinator.slept)();
        let wake = {
            let mut credit = self.credit();
            credit.apply(Now { at: Instant::now().into_std(), slept }, seen, via)
        };
        if wake {
            self.changed.notify_waiters();
        }
    }

    /// What became of a question that began at `since` or later.
    pub(super) fn asked(&self, since: Instant) -> Asked {
        if self.coordinator.client.is_none() {
            return Asked::Answered;
        }
        let asks = self.asks();
        match (asks.last.filter(|(began, _)| *began >= since), asks.under_way.filter(|began| *began >= since)) {
            (Some((_, true)), _) => Asked::Answered,
            (last, Some(began)) => Asked::UnderWay { began, failed: last.is_some() },
            (Some((began, false)), None) => Asked::Failed { next: asks.next.unwrap_or(began) },
            (None, None) => Asked::NotYet,
        }
    }

    /// Asks the coordinator, unless a question is under way. Should that have begun too early, ask again when it is over.
    pub(super) fn ask(self: &Arc<Self>) {
        let Some(client) = &self.coordinator.client else { return };
        let mut asks = self.asks();
        if asks.under_way.is_none() {
            asks.under_way = Some(Instant::now());
            tokio::spawn(self.clone().put_question(client.clone()));
        }
    }

    async fn put_question(self: Arc<Self>, client: Client) {
        let known = self.credit().revision();
        let request = GetPauseStateRequest { thread_id: self.thread_id.to_string() };
        let answer = client.get_pause_state(request).await;
        let state = answer.map(|response| response.pause_state);
        if let Ok(Some(state)) = &state {
            self.apply(state, Via::Ask { known });
        } else {
            tracing::debug!(thread_id = &*self.thread_id, ?state, "could not ask before an expiry");
        }
        {
            let mut asks = self.asks();
            let began = asks.under_way.take();
            asks.last = began.map(|began| (began, matches!(state, Ok(Some(_)))));
            asks.next = Some(Instant::now() + ASK_AGAIN.mul_f64(1.0 + fastrand::f64()));
        }
        self.answered.notify_waiters();
    }
}
