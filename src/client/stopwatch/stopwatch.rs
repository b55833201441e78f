//! The stopwatch as its user sees it.
//!
//! Waiting is a loop: look; if there is time left, sleep that long and look again. Nothing needs to tell a waiter that a
//! pause began: the look after its sleep finds it. Only then, standing still, does it wait to be told.
//!
//! 1. A waiter subscribes to what may wake it before it looks: `notify_waiters` reaches every `Notified` that exists by
//!    then, polled or not, and is not kept for those made later.
//! 2. Nothing but a look decides: after any wake-up, timer or notification, the state is read again.
//! 3. Expired is for ever.
use super::{
    meter::{Limit, Meter},
    paused_time::Joined,
    thread::{Asked, ThreadClock},
};
use crate::client::after;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// However short the grace is, a question gets this much time.
const SHORTEST_ASK: Duration = Duration::from_millis(250);

/// A limit on time that does not run while it is paused. Clones are the same stopwatch. It runs from its creation.
///
/// Time is tokio's (`tokio::time::Instant`): tests can move it, and on Linux and macOS it stands still while the machine
/// sleeps, so that a sleep is not charged.
#[derive(Debug, Clone)]
pub struct Stopwatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Told when its own last pause ends, and when it starts or stops to follow a thread.
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
    /// Where it finds its place; `None`: it has.
    joined: Option<Joined>,
}

/// What a look finds.
#[derive(Debug)]
enum Look {
    Expired,
    /// Nothing happens by itself: a pause of its own, or no limit.
    Still,
    /// There is time until then.
    Runs(Instant),
    /// As `Runs`, but what is known of the thread is only assumed.
    RunsPerhaps(Instant, Arc<ThreadClock>),
    /// The thread is paused; cut off, that counts until then.
    Frozen(Option<Instant>, Arc<ThreadClock>),
    /// The time ran out at that moment; the coordinator must be asked.
    RanOut(Instant, Arc<ThreadClock>),
}

impl Stopwatch {
    /// A stopwatch that expires after `limit` of unpaused time from now.
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

    /// Pauses until the guard is dropped. Pauses nest: it runs again when the last one ends.
    pub fn pause(&self) -> PauseGuard {
        let mut state = self.state();
        let (now, paid) = state.now();
        state.meter.pause(now.into_std(), paid);
        drop(state);
        PauseGuard(self.clone())
    }

    /// Pauses while `future` runs.
    ///
    /// # Cancel safety
    /// Dropped half-way, the pause ends.
    pub async fn pause_for<F: Future>(&self, future: F) -> F::Output {
        let _paused = self.pause();
        future.await
    }

    /// The unpaused time so far. Never goes backwards: where a pause is learnt of only after a lost connection, it stands
    /// still until that time is made up for.
    pub fn elapsed(&self) -> Duration {
        let mut state = self.state();
        let (now, paid) = state.now();
        state.meter.elapsed(now.into_std(), paid)
    }

    /// The limit less [`elapsed`](Self::elapsed), at least zero; `None` without a limit.
    ///
    /// Zero does not mean expired: the coordinator may have to be asked first. [`expired`](Self::expired) decides.
    pub fn remaining(&self) -> Option<Duration> {
        let mut state = self.state();
        let (now, paid) = state.now();
        state.meter.remaining(now.into_std(), paid)
    }

    /// Whether it stands still, by a pause of its own or of the thread that it follows.
    pub fn is_paused(&self) -> bool {
        let state = self.state();
        let frozen = |follows: &Follows| follows.clock.pause(Instant::now()).0;
        state.meter.is_paused() || state.follows.as_ref().is_some_and(frozen)
    }

    /// Waits until the limit is used up, and, if it follows a thread, until the coordinator has confirmed that the thread
    /// runs (G1). A coordinator that cannot be asked is waited for at most the controller's `disconnect_grace`. Any number
    /// of tasks may wait. Once expired it is expired for ever, and this returns at once.
    ///
    /// # Cancel safety
    /// Nothing is lost; wait again.
    pub async fn expired(&self) {
        loop {
            let changed = self.0.changed.notified();
            match self.look() {
                Look::Expired => return,
                Look::Still => changed.await,
                Look::Runs(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = changed => {}
                },
                Look::RunsPerhaps(_, clock) | Look::Frozen(_, clock) => {
                    let thread_changed = clock.changed.notified();
                    // Again, now that the thread cannot change unnoticed.
                    let until = match self.look() {
                        Look::RunsPerhaps(until, _) | Look::Frozen(Some(until), _) => until,
                        Look::Frozen(None, _) => after(Instant::now(), Duration::MAX),
                        Look::Expired | Look::Still | Look::Runs(_) | Look::RanOut(..) => continue,
                    };
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = changed => {}
                        () = thread_changed => {}
                    }
                }
                Look::RanOut(at, clock) => tokio::select! {
                    () = self.confirm(at, &clock) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Sees to it that the coordinator is asked, and expires when that is settled. Returns after each step.
    async fn confirm(&self, ran_out: Instant, clock: &Arc<ThreadClock>) {
        let answered = clock.answered.notified();
        let give_up = after(ran_out, clock.grace());
        match clock.asked(ran_out) {
            // The answer has been taken into account before this look, or is in the next one.
            Asked::Answered => self.expire(ran_out),
            Asked::Failed { .. } if Instant::now() >= give_up => self.expire(ran_out),
            Asked::UnderWay { began, failed } => {
                let enough = if failed { give_up } else { give_up.max(began + SHORTEST_ASK) };
                if Instant::now() >= enough {
                    return self.expire(ran_out);
                }
                tokio::select! {
                    () = answered => {}
                    () = sleep_until(enough) => {}
                }
            }
            Asked::NotYet => {
                clock.ask();
                tokio::select! {
                    () = answered => {}
                    () = sleep_until(give_up.max(Instant::now() + SHORTEST_ASK)) => {}
                }
            }
            Asked::Failed { next } => {
                sleep_until(give_up.min(next)).await;
                if Instant::now() < give_up {
                    clock.ask();
                }
            }
        }
    }

    /// Expires, if the time that ran out is still out: an answer, or a pause of its own, may have come between.
    fn expire(&self, ran_out: Instant) {
        if let Look::RanOut(at, _) = self.look()
            && at <= ran_out
        {
            self.state().expired = true;
        }
    }

    fn look(&self) -> Look {
        let mut state = self.state();
        if state.expired {
            return Look::Expired;
        }
        let (now, paid) = state.now();
        let clock = state.follows.as_ref().map(|follows| follows.clock.clone());
        if state.meter.is_paused() {
            return Look::Still;
        }
        let (frozen, thaw) = clock.as_ref().map_or((false, None), |clock| clock.pause(now));
        let Some(against_limit) = state.meter.against_limit(now.into_std(), paid) else { return Look::Still };
        match (against_limit, clock) {
            (_, Some(clock)) if frozen => Look::Frozen(thaw, clock),
            (Limit::Left(left), Some(clock)) if thaw.is_some() => Look::RunsPerhaps(after(now, left), clock),
            (Limit::Left(left), _) => Look::Runs(after(now, left)),
            (Limit::Over(over), Some(clock)) => Look::RanOut(now.checked_sub(over).unwrap_or(now), clock),
            (Limit::Over(_), None) => {
                state.expired = true;
                Look::Expired
            }
        }
    }

    /// Follows a thread from now on; whatever it followed before is forgotten. Returns the number to leave it with.
    pub(super) fn follow(&self, clock: Arc<ThreadClock>) -> u64 {
        let mut state = self.state();
        let (now, old) = state.now();
        let (new, joined) = clock.join(now);
        state.meter.follow(now.into_std(), old, new);
        state.follows = Some(Follows { clock, joined: Some(joined) });
        state.registrations += 1;
        let registration = state.registrations;
        drop(state);
        self.0.changed.notify_waiters();
        registration
    }

    /// Follows no thread any more, if nothing has changed since `registration`.
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
    /// The moment, and the thread's paused time; afterwards the meter has its place.
    fn now(&mut self) -> (Instant, Duration) {
        let Some(follows) = &mut self.follows else { return (Instant::now(), Duration::ZERO) };
        let now = Instant::now();
        let paid = follows.clock.paid(now);
        // Looked for afterwards: without a place, what was read is from before the state that gives it.
        let Some(&(at, placed)) = follows.joined.as_ref().and_then(|joined| joined.get()) else { return (now, paid) };
        follows.joined = None;
        self.meter.place(at, placed);
        let now = Instant::now();
        (now, follows.clock.paid(now))
    }
}

/// Pauses a [`Stopwatch`] until it is dropped.
#[derive(Debug)]
#[must_use = "the pause ends when the guard is dropped"]
pub struct PauseGuard(Stopwatch);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let (now, paid) = state.now();
        let last = state.meter.resume(now.into_std(), paid);
        drop(state);
        if last {
            self.0.0.changed.notify_waiters();
        }
    }
}
