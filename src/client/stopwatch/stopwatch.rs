//! The stopwatch that users of the library see.
//!
//! Waiting is a loop: check; if there is time left, sleep that long and check again. A waiter need not learn that a pause
//! began: the check after its sleep finds the pause. Only then does it wait for a notification.
//!
//! 1. A waiter subscribes to its notifications before it checks: `notify_waiters` reaches every `Notified` that exists by
//!    then, polled or not, and none that is made later.
//! 2. Only a check decides: after any wake-up, timer or notification, the state is read again.
//! 3. Expiry is final.
use super::{
    meter::{Limit, Meter},
    paused_time::JoinBaseline,
    thread::{QueryState, ThreadClock},
};
use crate::client::deadline_after;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A query gets at least this much time, even if less of `disconnect_grace` is left.
const MIN_QUERY_TIME: Duration = Duration::from_millis(250);

/// A limit on time that does not count pauses. It starts when it is created; clones share it.
///
/// Time is tokio's (`tokio::time::Instant`): tests can move it, and on Linux and macOS it stands still while the machine
/// sleeps, so that a sleep is not charged.
#[derive(Debug, Clone)]
pub struct Stopwatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Notified when the last own pause ends, and when the stopwatch starts or stops following a thread.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    meter: Meter,
    follows: Option<Follows>,
    registrations: u64,
    expired: bool,
}

#[derive(Debug)]
struct Follows {
    clock: Arc<ThreadClock>,
    joined: Instant,
    /// Set by the thread's next state; `None`: the meter has it already.
    join_baseline: Option<JoinBaseline>,
}

/// The result of a check.
#[derive(Debug)]
enum Check {
    Expired,
    /// It has an open pause of its own, or no limit: only a notification can change that.
    Stopped,
    /// It runs out then, unless it is paused before.
    Runs(Instant),
    /// As `Runs`, but the thread's state is not confirmed.
    RunsUnconfirmed(Instant, Arc<ThreadClock>),
    /// The thread is paused; while disconnected, an unconfirmed pause counts until then.
    ThreadPaused(Option<Instant>, Arc<ThreadClock>),
    /// It ran out then; a query to the coordinator must confirm it.
    RanOut(Instant, Arc<ThreadClock>),
}

impl Stopwatch {
    /// A stopwatch that expires after `limit` of unpaused time from now; any value is allowed, zero too.
    pub fn new(limit: Duration) -> Self {
        Self::start(Some(limit))
    }

    /// A stopwatch that never expires.
    pub fn unlimited() -> Self {
        Self::start(None)
    }

    fn start(limit: Option<Duration>) -> Self {
        let meter = Meter::new(limit, Instant::now().into_std());
        let state = Mutex::new(State { meter, follows: None, registrations: 0, expired: false });
        Self(Arc::new(Inner { state, changed: Notify::new() }))
    }

    /// Pauses the stopwatch until the guard is dropped. Pauses nest: it runs again when the last one ends.
    pub fn pause(&self) -> PauseGuard {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        state.meter.pause(now.into_std(), paused_time);
        drop(state);
        PauseGuard(self.clone())
    }

    /// Pauses the stopwatch while `future` runs.
    ///
    /// # Cancel safety
    /// If the future is dropped, the pause ends.
    pub async fn pause_for<F: Future>(&self, future: F) -> F::Output {
        let _paused = self.pause();
        future.await
    }

    /// The unpaused time so far. It never decreases: when a reconnect reveals a pause that was charged meanwhile, it stands
    /// still for as long.
    pub fn elapsed(&self) -> Duration {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        state.meter.elapsed(now.into_std(), paused_time)
    }

    /// The limit minus [`elapsed`](Self::elapsed), at least zero; `None` without a limit.
    ///
    /// Zero does not mean expired: the coordinator may have to confirm it first. [`expired`](Self::expired) decides.
    pub fn remaining(&self) -> Option<Duration> {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        state.meter.remaining(now.into_std(), paused_time)
    }

    /// Whether the stopwatch is paused, by a pause of its own or of the thread that it follows.
    pub fn is_paused(&self) -> bool {
        let state = self.state();
        let thread_paused = |follows: &Follows| follows.clock.pause(Instant::now()).0;
        state.meter.is_paused() || state.follows.as_ref().is_some_and(thread_paused)
    }

    /// Waits until the limit is used up and, if the stopwatch follows a thread, until the coordinator has confirmed that the
    /// thread is not paused (G1). It waits for an unreachable coordinator for at most the controller's `disconnect_grace`,
    /// less what a pause counted without confirmation. Any number of tasks may wait. Expiry is final: later calls return at once.
    ///
    /// # Cancel safety
    /// Nothing is lost; call it again.
    pub async fn expired(&self) {
        loop {
            let changed = self.0.changed.notified();
            match self.check() {
                Check::Expired => return,
                Check::Stopped => changed.await,
                Check::Runs(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = changed => {}
                },
                Check::RunsUnconfirmed(_, clock) | Check::ThreadPaused(_, clock) => {
                    let thread_changed = clock.changed.notified();
                    // Check again: from here on no change of the thread is missed.
                    let until = match self.check() {
                        Check::RunsUnconfirmed(until, _) | Check::ThreadPaused(Some(until), _) => until,
                        Check::ThreadPaused(None, _) => deadline_after(Instant::now(), Duration::MAX),
                        Check::Expired | Check::Stopped | Check::Runs(_) | Check::RanOut(..) => continue,
                    };
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = changed => {}
                        () = thread_changed => {}
                    }
                }
                Check::RanOut(at, clock) => tokio::select! {
                    () = self.confirm(at, &clock) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Takes one step of the query that confirms the expiry; expires when it has ended.
    async fn confirm(&self, ran_out: Instant, clock: &Arc<ThreadClock>) {
        let query_ended = clock.query_ended.notified();
        let joined = self.state().follows.as_ref().map_or(ran_out, |follows| follows.joined);
        let give_up = deadline_after(ran_out, clock.grace_left(joined));
        match clock.query_state(ran_out) {
            // Its response was applied before this check, or `expire` finds it.
            QueryState::Succeeded => self.expire(ran_out),
            QueryState::Failed { .. } if Instant::now() >= give_up => self.expire(ran_out),
            QueryState::Running { began, retried } => {
                let enough = if retried { give_up } else { give_up.max(began + MIN_QUERY_TIME) };
                if Instant::now() >= enough {
                    return self.expire(ran_out);
                }
                tokio::select! {
                    () = query_ended => {}
                    () = sleep_until(enough) => {}
                }
            }
            QueryState::NotStarted => {
                clock.query();
                tokio::select! {
                    () = query_ended => {}
                    () = sleep_until(give_up.max(Instant::now() + MIN_QUERY_TIME)) => {}
                }
            }
            QueryState::Failed { retry_at } => {
                sleep_until(give_up.min(retry_at)).await;
                if Instant::now() < give_up {
                    clock.query();
                }
            }
        }
    }

    /// Expires if a new check agrees: a response or an own pause may have come in between.
    fn expire(&self, ran_out: Instant) {
        if let Check::RanOut(at, _) = self.check()
            && at <= ran_out
        {
            self.state().expired = true;
        }
    }

    fn check(&self) -> Check {
        let mut state = self.state();
        if state.expired {
            return Check::Expired;
        }
        let (now, paused_time) = state.now();
        let clock = state.follows.as_ref().map(|follows| follows.clock.clone());
        if state.meter.is_paused() {
            return Check::Stopped;
        }
        let (thread_paused, valid_until) = clock.as_ref().map_or((false, None), |clock| clock.pause(now));
        let Some(against_limit) = state.meter.against_limit(now.into_std(), paused_time) else { return Check::Stopped };
        match (against_limit, clock) {
            (_, Some(clock)) if thread_paused => Check::ThreadPaused(valid_until, clock),
            (Limit::Left(left), Some(clock)) if valid_until.is_some() => {
                Check::RunsUnconfirmed(deadline_after(now, left), clock)
            }
            (Limit::Left(left), _) => Check::Runs(deadline_after(now, left)),
            (Limit::Over(over), Some(clock)) => Check::RanOut(now.checked_sub(over).unwrap_or(now), clock),
            (Limit::Over(_), None) => {
                state.expired = true;
                Check::Expired
            }
        }
    }

    /// Follows a thread, instead of the one before. Returns the registration number for [`Stopwatch::leave`].
    pub(super) fn follow(&self, clock: Arc<ThreadClock>) -> u64 {
        let mut state = self.state();
        let (now, old) = state.now();
        let (new, join_baseline) = clock.join(now);
        state.meter.follow(now.into_std(), old, new);
        state.follows = Some(Follows { clock, joined: now, join_baseline: Some(join_baseline) });
        state.registrations += 1;
        let registration = state.registrations;
        drop(state);
        self.0.changed.notify_waiters();
        registration
    }

    /// Stops following, unless there was a later registration.
    pub(super) fn leave(&self, registration: u64) {
        let mut state = self.state();
        if state.registrations != registration {
            return;
        }
        let (now, old) = state.now();
        state.meter.follow(now.into_std(), old, Duration::ZERO);
        state.follows = None;
        drop(state);
        self.0.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time and the thread's paused time; gives the meter its baseline if that has arrived.
    fn now(&mut self) -> (Instant, Duration) {
        let Some(follows) = &mut self.follows else { return (Instant::now(), Duration::ZERO) };
        let now = Instant::now();
        let paused_time = follows.clock.paused_time(now);
        // In this order: if there is no baseline yet, `paused_time` is from before the state that sets it.
        let Some(&(at, at_baseline)) = follows.join_baseline.as_ref().and_then(|baseline| baseline.get()) else {
            return (now, paused_time);
        };
        follows.join_baseline = None;
        self.meter.set_baseline(at, at_baseline);
        let now = Instant::now();
        (now, follows.clock.paused_time(now))
    }
}

/// Pauses a [`Stopwatch`] until it is dropped.
#[derive(Debug)]
#[must_use = "the pause ends when the guard is dropped"]
pub struct PauseGuard(Stopwatch);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let (now, paused_time) = state.now();
        let last = state.meter.resume(now.into_std(), paused_time);
        drop(state);
        if last {
            self.0.0.changed.notify_waiters();
        }
    }
}
