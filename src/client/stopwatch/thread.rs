//! One thread as its stopwatches share it: its paused time, its waiters, and the confirmation by the coordinator that
//! precedes an expiry.
//!
//! 1. Pausing is one short critical section. Only a resume, a disconnect and a reconnect wake waiters, and only those
//!    that wait for the thread; waiters with a timer are not among them.
//! 2. There is one pending confirmation per thread, for all stopwatches. It counts for a stopwatch only if its request
//!    was sent after the stopwatch ran out: an earlier one may have missed an increment that was acknowledged since
//!    (G1).
use super::{
    command::Command,
    paused_time::{JoinBaseline, LocalTime, ObservedState, PausedTimeTracker, Source},
};
use crate::client::PauseState;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{
    fmt::Debug,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

/// The settings that all threads of a controller share.
#[derive(Debug)]
pub(super) struct FollowConfig {
    /// The follower, which the controller and its registrations keep alive. `None`: detached, nothing is confirmed.
    pub(super) follower: Option<mpsc::WeakUnboundedSender<Command>>,
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
    confirmation: Mutex<Confirmation>,
    observers: Mutex<Vec<Weak<dyn Observer>>>,
    /// Notified when waiters must check again.
    pub(super) changed: Notify,
    /// Notified when a confirmation has arrived, and when it cannot arrive soon.
    pub(super) confirmed: Notify,
}

#[derive(Debug, Default)]
struct Confirmation {
    /// When it was requested; `None`: no confirmation is pending.
    waiting: Option<Waiting>,
    /// When the request of the last confirmation was sent.
    last: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) asked: Instant,
    /// Whether there has been no stream since then.
    pub(super) was_cut_off: bool,
}

impl ThreadClock {
    pub(super) fn new(thread_id: Arc<str>, config: Arc<FollowConfig>) -> Self {
        let tracker = Mutex::new(PausedTimeTracker::new(Instant::now().into_std(), config.disconnect_grace));
        let (confirmation, observers, changed, confirmed) = Default::default();
        Self { thread_id, config, tracker, confirmation, observers, changed, confirmed }
    }

    fn tracker(&self) -> MutexGuard<'_, PausedTimeTracker> {
        // A panic leaves a consistent state: each change is one assignment at its end.
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports each change to `observer` from now on. An observer that is added twice gets each change once.
    pub(super) fn observe(&self, observer: &Arc<impl Observer + 'static>) {
        let observer: Weak<dyn Observer> = Arc::downgrade(observer) as Weak<dyn Observer>;
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&observer));
        observers.push(observer);
    }

    /// Called without a lock of this thread, because an observer reads the paused time.
    fn report_change(&self, at: Instant, wake: bool) {
        let observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| observer.thread_changed(at, wake));
        if wake {
            self.changed.notify_waiters();
        }
    }

    fn confirmation(&self) -> MutexGuard<'_, Confirmation> {
        self.confirmation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a stopwatch that has run out may wait for the coordinator's answer. The grace is one budget: an
    /// unconfirmed pause since the stopwatch joined has used some of it.
    pub(super) fn grace_left(&self, joined: Instant) -> Duration {
        self.config.disconnect_grace.saturating_sub(self.tracker().unconfirmed_pause(joined.into_std()))
    }

    /// The time and the paused time. No state is applied in between: it could include time after that moment.
    pub(super) fn now(&self) -> (Instant, Duration) {
        let tracker = self.tracker();
        let now = Instant::now();
        (now, tracker.paused_time(now.into_std()))
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

    /// Records that the watch is disconnected since `since`.
    pub(super) fn disconnect(&self, since: Instant) {
        // Everything until `since` is known.
        self.report_change(since, false);
        let wake = self.tracker().disconnect(Instant::now().into_std(), since.into_std());
        self.report_change(Instant::now(), wake);
        self.cut_off();
    }

    /// Records that there is no stream on which a confirmation can arrive.
    pub(super) fn cut_off(&self) {
        if let Some(waiting) = &mut self.confirmation().waiting {
            waiting.was_cut_off = true;
            self.confirmed.notify_waiters();
        }
    }

    /// Stops following: from now on the thread counts as running, without a confirmation.
    pub(super) fn close(&self) {
        let now = Instant::now();
        self.report_change(now, false);
        self.tracker().close(now.into_std());
        self.report_change(now, true);
        self.confirmed.notify_waiters();
    }

    pub(super) fn apply(&self, state: &PauseState, source: Source) {
        // Our servers always send durations >= 0; anything else credits nothing.
        let duration =
            |field: Option<prost_types::Duration>| field.and_then(|duration| Duration::try_from(duration).ok());
        let total = duration(state.paused_total).unwrap_or_default();
        let PauseState { store_epoch: epoch, revision, paused, .. } = *state;
        let paused_for = duration(state.paused_for).filter(|_| paused).unwrap_or_default();
        let state = ObservedState { epoch, revision, paused, total, paused_for };
        let slept = (self.config.machine_sleep)();
        let wake = {
            let mut tracker = self.tracker();
            tracker.apply(LocalTime { at: Instant::now().into_std(), slept }, state, source)
        };
        self.report_change(Instant::now(), wake);
    }

    /// Applies the state from a confirmation whose request was sent at `asked`.
    pub(super) fn confirm(&self, state: &PauseState, asked: Instant) {
        self.apply(state, Source::Confirmation);
        *self.confirmation() = Confirmation { waiting: None, last: Some(asked) };
        self.confirmed.notify_waiters();
    }

    /// Requests a confirmation, unless one is pending or one that was requested after `since` has arrived. `None`: such
    /// a confirmation has arrived, or the coordinator can no longer be asked.
    pub(super) fn ask(&self, since: Instant) -> Option<Waiting> {
        let follower = self.config.follower.as_ref()?;
        if self.tracker().is_closed() {
            return None;
        }
        let mut confirmation = self.confirmation();
        if confirmation.last.is_some_and(|asked| asked >= since) {
            return None;
        }
        Some(*confirmation.waiting.get_or_insert_with(|| {
            // The follower ends with the runtime only: a thread has a registration while a stopwatch follows it.
            let _ = follower.upgrade().map(|follower| follower.send(Command::Confirm(self.thread_id.clone())));
            Waiting { asked: Instant::now(), was_cut_off: false }
        }))
    }
}
