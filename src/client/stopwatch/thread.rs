//! One thread as its stopwatches share it: its paused time, its waiters, and the query to the coordinator that precedes an
//! expiry.
//!
//! 1. Pausing is one short critical section. Only a resume, a disconnect and a reconnect wake waiters, and only those that
//!    wait for the thread; waiters with a timer are not among them.
//! 2. One query per thread runs at a time, whoever starts it. Its response counts for a stopwatch only if the query began
//!    after the stopwatch ran out: an earlier one may have missed an increment that was acknowledged since (G1).
//! 3. A query runs in its own short task, so it ends also when its starter has been dropped.
use super::paused_time::{JoinBaseline, LocalTime, ObservedState, PausedTimeTracker, Source};
use crate::client::{Client, GetPauseStateRequest, PauseState};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{
    fmt::Debug,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The pause after a failed query; up to twice as long, at random.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The settings that all threads of a controller share.
#[derive(Debug)]
pub(super) struct FollowConfig {
    /// `None`: detached, no query is sent.
    pub(super) client: Option<Client>,
    pub(super) disconnect_grace: Duration,
    /// Reads how long the machine has slept.
    pub(super) machine_sleep: fn() -> Duration,
}

/// A stopwatch that awaits threads.
pub(super) trait Observer: Debug + Send + Sync {
    /// The thread has changed at `at`; `wake`: waiters must check again.
    fn thread_changed(&self, at: Instant, wake: bool);
}

#[derive(Debug)]
pub(super) struct ThreadClock {
    thread_id: Arc<str>,
    config: Arc<FollowConfig>,
    tracker: Mutex<PausedTimeTracker>,
    queries: Mutex<Queries>,
    observers: Mutex<Vec<Weak<dyn Observer>>>,
    /// Notified when waiters must check again.
    pub(super) changed: Notify,
    /// Notified when a query has ended.
    pub(super) query_ended: Notify,
}

#[derive(Debug, Default)]
struct Queries {
    /// When the running query began.
    running_since: Option<Instant>,
    /// When the last ended query began, and whether it succeeded.
    last: Option<(Instant, bool)>,
    /// When to retry after a failure. Kept here, since a waiter may wait in small steps.
    retry_at: Option<Instant>,
}

/// The state of the queries that began at some time or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryState {
    Succeeded,
    Failed {
        retry_at: Instant,
    },
    /// `retried`: an earlier one failed.
    Running {
        began: Instant,
        retried: bool,
    },
    NotStarted,
}

impl ThreadClock {
    pub(super) fn new(thread_id: Arc<str>, config: Arc<FollowConfig>) -> Self {
        let tracker = Mutex::new(PausedTimeTracker::new(Instant::now().into_std(), config.disconnect_grace));
        let (queries, observers, changed, query_ended) = Default::default();
        Self { thread_id, config, tracker, queries, observers, changed, query_ended }
    }

    fn tracker(&self) -> MutexGuard<'_, PausedTimeTracker> {
        // A panic leaves nothing half done: each change is one assignment at its end.
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports each change from now on. An observer that is added again gets each one once.
    pub(super) fn observe(&self, observer: &Arc<impl Observer + 'static>) {
        let observer: Weak<dyn Observer> = Arc::downgrade(observer) as Weak<dyn Observer>;
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&observer));
        observers.push(observer);
    }

    /// Without a lock of this thread: an observer reads the paused time.
    fn report_change(&self, at: Instant, wake: bool) {
        let observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| observer.thread_changed(at, wake));
        if wake {
            self.changed.notify_waiters();
        }
    }

    fn queries(&self) -> MutexGuard<'_, Queries> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a stopwatch that has run out may wait for the coordinator's answer. The grace is one budget: a pause that
    /// could not be confirmed has used some of it, since the stopwatch joined.
    pub(super) fn grace_left(&self, joined: Instant) -> Duration {
        self.config.disconnect_grace.saturating_sub(self.tracker().unconfirmed_pause(joined.into_std()))
    }

    pub(super) fn paused_time(&self, now: Instant) -> Duration {
        self.tracker().paused_time(now.into_std())
    }

    /// Whether the thread is paused; and, while disconnected, when an unconfirmed pause stops counting. That time is
    /// returned for a running thread too, since its paused time is uncertain then.
    pub(super) fn pause(&self, now: Instant) -> (bool, Option<Instant>) {
        let tracker = self.tracker();
        (tracker.is_paused(now.into_std()), tracker.valid_until().map(Instant::from_std))
    }

    pub(super) fn join(&self, now: Instant) -> (Duration, JoinBaseline) {
        self.tracker().join(now.into_std())
    }

    /// Notes that the watch is disconnected, since then.
    pub(super) fn disconnect(&self, since: Instant) {
        // Until then, all was known.
        self.report_change(since, false);
        let wake = self.tracker().disconnect(Instant::now().into_std(), since.into_std());
        self.report_change(Instant::now(), wake);
    }

    pub(super) fn apply(&self, state: &PauseState, source: Source) {
        // Our servers always send a total >= 0; anything else credits nothing.
        let total = state.paused_total.and_then(|total| Duration::try_from(total).ok()).unwrap_or_default();
        let PauseState { store_epoch: epoch, revision, paused, .. } = *state;
        let state = ObservedState { epoch, revision, paused, total };
        let slept = (self.config.machine_sleep)();
        let wake = {
            let mut tracker = self.tracker();
            tracker.apply(LocalTime { at: Instant::now().into_std(), slept }, state, source)
        };
        self.report_change(Instant::now(), wake);
    }

    /// The state of the queries that began at `since` or later.
    pub(super) fn query_state(&self, since: Instant) -> QueryState {
        if self.config.client.is_none() {
            return QueryState::Succeeded;
        }
        let queries = self.queries();
        let last = queries.last.filter(|(began, _)| *began >= since);
        match (last, queries.running_since.filter(|began| *began >= since)) {
            (Some((_, true)), _) => QueryState::Succeeded,
            (last, Some(began)) => QueryState::Running { began, retried: last.is_some() },
            (Some((began, false)), None) => QueryState::Failed { retry_at: queries.retry_at.unwrap_or(began) },
            (None, None) => QueryState::NotStarted,
        }
    }

    /// Starts a query, unless one is running. If that one began too early, start another when it has ended.
    pub(super) fn query(self: &Arc<Self>) {
        let Some(client) = &self.config.client else { return };
        let mut queries = self.queries();
        if queries.running_since.is_none() {
            queries.running_since = Some(Instant::now());
            tokio::spawn(self.clone().run_query(client.clone()));
        }
    }

    async fn run_query(self: Arc<Self>, client: Client) {
        let known = self.tracker().version();
        let request = GetPauseStateRequest { thread_id: self.thread_id.to_string() };
        let response = client.get_pause_state(request).await;
        let state = response.map(|response| response.pause_state);
        if let Ok(Some(state)) = &state {
            self.apply(state, Source::Query { known });
        } else {
            tracing::debug!(thread_id = &*self.thread_id, ?state, "the query before an expiry failed");
        }
        {
            let mut queries = self.queries();
            let began = queries.running_since.take();
            queries.last = began.map(|began| (began, matches!(state, Ok(Some(_)))));
            queries.retry_at = Some(Instant::now() + RETRY_DELAY.mul_f64(1.0 + fastrand::f64()));
        }
        self.query_ended.notify_waiters();
    }
}
