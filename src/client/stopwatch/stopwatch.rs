//! The stopwatch that users of the library see.
//!
//! Waiting is a loop: check; if there is time left, sleep that long and check again. A waiter need not learn when a
//! pause begins: the check after its sleep finds the pause. Then it waits for a notification.
//!
//! 1. A waiter subscribes to its notifications before it checks: `notify_waiters` reaches every `Notified` that exists by
//!    then, polled or not, and none that is made later.
//! 2. Only a check decides: after any wake-up, by a timer or a notification, the state is read again.
//! 3. Expiry is final, and so is the limit that caused it: the first one that a waiter finds used up.
//! 4. The limit on wall time is a separate timer: no pause and no confirmation delays it.
use super::{
    ended_by::EndedBy,
    follows::Follows,
    meter::{Limit, Meter},
    thread::{Observer, ThreadClock},
};
use crate::client::deadline_after;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A confirmation on a stream gets at least this much time, even if less of `disconnect_grace` is left.
const MIN_CONFIRMATION_TIME: Duration = Duration::from_millis(250);
/// If a check finds that the time ran out longer ago than this, the process was stopped, or the connection was dead
/// without notice, so nobody could be asked before. Then the confirmation has enough time to open a new stream.
const LATE: Duration = Duration::from_secs(1);
pub(super) const LATE_CONFIRMATION_TIME: Duration = Duration::from_secs(2);

/// A limit on time that does not count pauses. It starts when it is created; clones share it.
///
/// Time is tokio's (`tokio::time::Instant`): tests can move it, and on Linux and macOS it stands still while the machine
/// sleeps, so that a sleep is not charged.
#[derive(Debug, Clone)]
pub struct Stopwatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    started: Instant,
    /// The limit on wall time.
    max_wall: Option<Duration>,
    /// Notified when the last own pause ends, and when the stopwatch starts or stops following a thread.
    changed: Notify,
    /// Notified when it may have been paused or resumed, for [`Stopwatch::pause_changed`].
    pause_changed: Notify,
}

#[derive(Debug)]
struct State {
    meter: Meter,
    follows: Option<Follows>,
    registrations: u64,
    /// When a check found that the time had run out; `None`: it has not.
    found_over: Option<Instant>,
    ended_by: Option<EndedBy>,
}

/// The result of a check.
#[derive(Debug)]
enum Check {
    Expired,
    /// It has an open pause of its own, or no limit: only a notification can change that.
    Stopped,
    /// It runs out at this time, unless it is paused before.
    Runs(Instant),
    /// As `Runs`, but the thread's state is not confirmed.
    RunsUnconfirmed(Instant, Arc<ThreadClock>),
    /// The thread is paused; while disconnected, an unconfirmed pause counts until this time.
    ThreadPaused(Option<Instant>, Arc<ThreadClock>),
    /// It ran out at this time; the coordinator must confirm it.
    RanOut(Instant),
}

impl Stopwatch {
    /// A stopwatch that expires after `limit` of unpaused time from now; any value is allowed, zero too.
    pub fn new(limit: Duration) -> Self {
        Self::with_limits(Some(limit), None)
    }

    /// A stopwatch that never expires.
    pub fn unlimited() -> Self {
        Self::with_limits(None, None)
    }

    pub(super) fn with_limits(limit: Option<Duration>, max_wall: Option<Duration>) -> Self {
        let now = Instant::now();
        let meter = Meter::new(limit, now.into_std());
        let state = Mutex::new(State { meter, follows: None, registrations: 0, found_over: None, ended_by: None });
        Self(Arc::new(Inner { state, started: now, max_wall, changed: Notify::new(), pause_changed: Notify::new() }))
    }

    /// Pauses the stopwatch until the guard is dropped. Pauses nest: it runs again when the last one ends.
    pub fn pause(&self) -> PauseGuard {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        state.meter.pause(now.into_std(), paused_time);
        drop(state);
        self.0.pause_changed.notify_waiters();
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
        let thread_paused = |follows: &Follows| follows.pause(Instant::now()).0;
        state.meter.is_paused() || state.follows.as_ref().is_some_and(thread_paused)
    }

    /// Waits until [`is_paused`](Self::is_paused) differs from `was`.
    ///
    /// # Cancel safety
    /// Nothing is lost; call it again.
    pub async fn pause_changed(&self, was: bool) {
        loop {
            let (pause_changed, changed) = (self.0.pause_changed.notified(), self.0.changed.notified());
            let (is_own, follows) = {
                let state = self.state();
                let follows = state.follows.as_ref();
                let clocks = follows.map(Follows::all).unwrap_or_default();
                clocks.iter().for_each(|(clock, _)| clock.observe(&self.0));
                (state.meter.is_paused(), follows.map(|follows| follows.pause(Instant::now())))
            };
            let (is_paused, valid_until) = follows.map_or((false, None), |(paused, until, _)| (paused, until));
            if (is_own || is_paused) != was {
                return;
            }
            tokio::select! {
                biased;
                () = pause_changed => {}
                () = changed => {}
                // An unconfirmed pause ends without notice.
                () = sleep_until(valid_until.unwrap_or_else(Instant::now)), if is_paused && valid_until.is_some() => {}
            }
        }
    }

    /// The limit that ended the stopwatch; `None` until [`expired`](Self::expired) has returned for the first time.
    pub fn ended_by(&self) -> Option<EndedBy> {
        self.state().ended_by
    }

    /// Waits until the limit is used up and, if the stopwatch follows a thread, until the coordinator has confirmed
    /// that the thread is not paused (G1). If the coordinator is unreachable, it waits for at most the controller's
    /// `disconnect_grace`, minus the time that an unconfirmed pause has used. A limit on wall time ends it without a
    /// confirmation. Any number of tasks may wait. Expiry is final: later calls return at once.
    ///
    /// # Cancel safety
    /// Nothing is lost; call it again.
    pub async fn expired(&self) {
        let Some(max_wall) = self.0.max_wall else { return self.used_up().await };
        tokio::select! {
            biased;
            () = self.used_up() => {}
            () = sleep_until(deadline_after(self.0.started, max_wall)) => {
                self.state().ended_by.get_or_insert(EndedBy::MaxWall);
            }
        }
    }

    /// Waits until the limit on unpaused time is used up, or the limit on wall time has ended it.
    async fn used_up(&self) {
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
                        Check::Expired | Check::Stopped | Check::Runs(_) | Check::RanOut(_) => continue,
                    };
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = changed => {}
                        () = thread_changed => {}
                    }
                }
                Check::RanOut(at) => tokio::select! {
                    () = self.confirm(at) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Takes one step of the confirmations, one for each thread. Expires when all have arrived, or the grace is over.
    async fn confirm(&self, ran_out: Instant) {
        let (followed, found_over) = {
            let state = self.state();
            (state.follows.as_ref().map(Follows::all).unwrap_or_default(), state.found_over)
        };
        // The grace is one budget, no matter which thread has used it.
        let grace = followed.iter().map(|(clock, joined)| clock.grace_left(*joined)).min().unwrap_or_default();
        let late = found_over.filter(|found| found.saturating_duration_since(ran_out) > LATE);
        let least = late.map_or(ran_out, |found| found + LATE_CONFIRMATION_TIME);
        let give_up = deadline_after(ran_out, grace).max(least);
        // All are asked at once; the later ones are waited for in later steps.
        let mut waits = None;
        for (clock, _) in &followed {
            let confirmed = clock.confirmed.notified();
            if let Some(waiting) = clock.ask(ran_out) {
                let enough =
                    if waiting.was_cut_off { give_up } else { give_up.max(waiting.asked + MIN_CONFIRMATION_TIME) };
                if Instant::now() < enough {
                    waits.get_or_insert((confirmed, enough));
                }
            }
        }
        match waits {
            Some((confirmed, enough)) => tokio::select! {
                () = confirmed => {}
                () = sleep_until(enough) => {}
            },
            // The confirmed states were applied before this, or `expire` finds them.
            None => self.expire(ran_out),
        }
    }

    /// Expires if another check agrees: a state or an own pause may have arrived since the last one.
    fn expire(&self, ran_out: Instant) {
        if let Check::RanOut(at) = self.check()
            && at <= ran_out
        {
            self.state().ended_by.get_or_insert(EndedBy::Limit);
        }
    }

    fn check(&self) -> Check {
        let mut state = self.state();
        if state.ended_by.is_some() {
            return Check::Expired;
        }
        let found_over = state.found_over.take();
        let (now, paused_time) = state.now();
        if state.meter.is_paused() {
            return Check::Stopped;
        }
        let pause = state.follows.as_ref().map(|follows| follows.pause(now));
        let (thread_paused, valid_until, clock) =
            pause.map_or((false, None, None), |(paused, valid_until, clock)| (paused, valid_until, Some(clock)));
        let Some(against_limit) = state.meter.against_limit(now.into_std(), paused_time) else { return Check::Stopped };
        match (against_limit, clock) {
            (_, Some(clock)) if thread_paused => Check::ThreadPaused(valid_until, clock),
            (Limit::Left(left), Some(clock)) if valid_until.is_some() => {
                Check::RunsUnconfirmed(deadline_after(now, left), clock)
            }
            (Limit::Left(left), _) => Check::Runs(deadline_after(now, left)),
            (Limit::Over(over), Some(_)) => {
                state.found_over = found_over.or(Some(now));
                Check::RanOut(now.checked_sub(over).unwrap_or(now))
            }
            (Limit::Over(_), None) => {
                state.ended_by = Some(EndedBy::Limit);
                Check::Expired
            }
        }
    }

    /// Follows a thread instead of the previous one. Returns the registration number for [`Stopwatch::leave`].
    pub(super) fn follow(&self, clock: Arc<ThreadClock>) -> u64 {
        let mut state = self.state();
        let (now, old) = state.now();
        let (follows, new) = Follows::new(clock, now);
        state.meter.follow(now.into_std(), old, new);
        state.follows = Some(follows);
        state.registrations += 1;
        let registration = state.registrations;
        drop(state);
        self.0.changed.notify_waiters();
        registration
    }

    /// Also pauses while that thread is paused, until [`Stopwatch::unawait_thread`]. Does nothing after a later
    /// registration.
    pub(super) fn await_thread(&self, registration: u64, clock: &Arc<ThreadClock>) {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        let state = &mut *state;
        let Some(follows) = state.follows.as_mut().filter(|_| state.registrations == registration) else { return };
        follows.add(clock, &mut state.meter, now, paused_time);
        follows.all().iter().for_each(|(clock, _)| clock.observe(&self.0));
        self.0.changed.notify_waiters();
    }

    /// Ends one [`Stopwatch::await_thread`].
    pub(super) fn unawait_thread(&self, registration: u64, clock: &Arc<ThreadClock>) {
        let mut state = self.state();
        let now = Instant::now();
        let is_current = state.registrations == registration;
        if let Some(follows) = state.follows.as_mut().filter(|_| is_current) {
            follows.remove(clock, now);
        }
        drop(state);
        self.0.changed.notify_waiters();
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

#[cfg(any(feature = "cli", feature = "exec-server"))]
impl Stopwatch {
    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    /// The wall time and [`elapsed`](Self::elapsed) at one moment. Two readings one after the other would show the time
    /// between them as paused, and a busy machine can make that long.
    pub(crate) fn times(&self) -> super::Times {
        let mut state = self.state();
        let (now, paused_time) = state.now();
        let wall = now.saturating_duration_since(self.0.started);
        let active = state.meter.elapsed(now.into_std(), paused_time).min(wall);
        super::Times { wall, active }
    }
}

impl State {
    /// The time and the paused time of its threads.
    fn now(&mut self) -> (Instant, Duration) {
        match &mut self.follows {
            Some(follows) => follows.now(&mut self.meter),
            None => (Instant::now(), Duration::ZERO),
        }
    }
}

impl Observer for Inner {
    fn thread_changed(&self, at: Instant, wake: bool) {
        if let Some(follows) = &mut self.state.lock().unwrap_or_else(PoisonError::into_inner).follows {
            follows.settle(at);
        }
        self.pause_changed.notify_waiters();
        if wake {
            self.changed.notify_waiters();
        }
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
