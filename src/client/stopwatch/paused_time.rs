//! How long one thread has been paused since this process began to follow it, as far as is known.
//!
//! The server's `paused_total` is exact in each state; between states the local clock is used:
//!
//! ```text
//! paused_time = paused_total - paused_total at the start     (+ the local time since the last state, while paused)
//! ```
//!
//! The difference of two totals includes every pause that this process did not see. Pure: no clock is read.
//!
//! 1. Time before the start is never credited, and never more than the time since the start. The first state cannot say
//!    which part of its total is older than the start, so everything that may be newer is credited. (The gap until the
//!    first state is milliseconds, unless the connection was down.)
//! 2. While disconnected, a paused thread counts as paused for `grace` and then as running, because the expiry of its
//!    leases cannot be seen. A connection that died silently was lost at its last message. When the loss is noticed,
//!    the paused time that was assumed since then may be corrected, but not below the paused time at the last join of a
//!    stopwatch: the stopwatch would be charged for time before its join. The next state corrects both, in both
//!    directions.
//! 3. Another epoch, or a lower total or revision, means that the server lost its state, or forgot an idle thread. The
//!    new total has nothing in common with the old one: the paused time so far is kept, and grows by the new total, but
//!    at most by the time since the last state. A server without epochs sends 0; then total and revision decide. An
//!    open pause is not lost: a lower total during it, in the same epoch, was computed up to an earlier moment, for
//!    example by another replica, and the known total is used.
//! 4. States arrive in order: a confirmation arrives on the stream of the watch, and a new stream does not begin before
//!    the state of the last one. Only a state from the program itself may be older than the known one; it is ignored.
//! 5. Local time stops while the machine sleeps; the server's may not. A sleep within a pause is left out, so that it
//!    does not compensate for charged time. A state that was sent before the sleep and arrived after it does not
//!    include the sleep, so the sleep is left out of the next total.
use super::baseline::Baseline;
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Shorter sleeps of the machine are noise between two clocks.
const MIN_SLEEP: Duration = Duration::from_millis(100);
/// The longest delivery of a state: the connection is given up before a state is later than this.
const MAX_DELIVERY_DELAY: Duration = Duration::from_secs(15);

/// The relevant fields of a state.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedState {
    pub(super) epoch: u64,
    pub(super) revision: u64,
    pub(super) paused: bool,
    pub(super) total: Duration,
    /// The length of the open pause.
    pub(super) paused_for: Duration,
}

impl ObservedState {
    /// Whether revisions and totals can be compared. 0: the server has no epochs.
    fn is_of_epoch_of(&self, other: &Self) -> bool {
        self.epoch == other.epoch || self.epoch == 0 || other.epoch == 0
    }

    /// Whether the other state, of the same epoch, is newer: revisions rise, and within one pause the total grows.
    fn is_older_than(&self, other: &Self) -> bool {
        self.is_of_epoch_of(other) && (self.revision, self.total) < (other.revision, other.total)
    }

    /// This state after `last`: no open pause gets shorter.
    fn after(mut self, last: &Self) -> Self {
        if last.paused && self.epoch == last.epoch && self.epoch != 0 {
            self.total = self.total.max(last.total);
        }
        self
    }

    /// Whether the server lost `last` before it sent this state.
    fn is_after_loss_of(&self, last: &Self) -> bool {
        !self.is_of_epoch_of(last) || self.revision < last.revision || self.total < last.total
    }
}

/// The origin of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Watch,
    /// The answer of the coordinator before an expiry: the thread need not be watched.
    Confirmation,
    /// The program itself.
    Program,
}

/// A reading of this process's clock, and how long the machine has slept since it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalTime {
    pub(super) at: Instant,
    pub(super) slept: Duration,
}

/// Set with the first state after a stopwatch joined.
pub(super) type JoinBaseline = Arc<OnceLock<Baseline>>;

#[derive(Debug)]
pub(super) struct PausedTimeTracker {
    started_at: Instant,
    grace: Duration,
    last: Option<LastState>,
    /// When the watch was disconnected, or when a confirmation last replaced it since. `None`: connected.
    disconnected_at: Option<Instant>,
    /// When the last stopwatch joined.
    joined_at: Instant,
    /// The last join before the disconnect was noticed.
    joined_before_disconnect: Instant,
    join_baseline: Option<JoinBaseline>,
    /// When the controller was closed: no state will arrive.
    closed_at: Option<Instant>,
}

#[derive(Debug)]
struct LastState {
    state: ObservedState,
    received: LocalTime,
    paused_time: Duration,
    /// A sleep of the machine before this state arrived, and possibly after it was sent: then the next total includes
    /// the sleep.
    unsettled_sleep: Duration,
}

impl PausedTimeTracker {
    pub(super) fn new(now: Instant, grace: Duration) -> Self {
        Self {
            started_at: now,
            grace,
            last: None,
            disconnected_at: Some(now),
            joined_at: now,
            joined_before_disconnect: now,
            join_baseline: None,
            closed_at: None,
        }
    }

    /// How long the thread has been paused since the start.
    pub(super) fn paused_time(&self, now: Instant) -> Duration {
        let Some(last) = &self.last else { return Duration::ZERO };
        let open = match last.state.paused {
            true => {
                let end = self.valid_until().map_or(now, |valid_until| now.min(valid_until));
                end.saturating_duration_since(last.received.at)
            }
            false => Duration::ZERO,
        };
        last.paused_time.saturating_add(open)
    }

    pub(super) fn is_paused(&self, now: Instant) -> bool {
        let is_valid = self.valid_until().is_none_or(|valid_until| now < valid_until);
        is_valid && self.last.as_ref().is_some_and(|last| last.state.paused)
    }

    /// When an unconfirmed pause stops counting. `None`: connected.
    pub(super) fn valid_until(&self) -> Option<Instant> {
        let end = self.disconnected_at.and_then(|at| at.checked_add(self.grace));
        let end = end.map(|end| end.max(self.joined_before_disconnect));
        // The grace may be longer than the clock can express.
        self.closed_at.map_or(end, |closed_at| Some(end.map_or(closed_at, |end| end.min(closed_at))))
    }

    /// The known paused time at which a stopwatch joins, and the baseline that the next state sets. The baseline is
    /// needed even when the connection seems to be up, because it may already be dead.
    pub(super) fn join(&mut self, now: Instant) -> (Duration, JoinBaseline) {
        self.joined_at = now;
        (self.paused_time(now), self.join_baseline.get_or_insert_default().clone())
    }

    /// Records that the watch is disconnected since `since`. Returns whether waiters must check again.
    pub(super) fn disconnect(&mut self, now: Instant, since: Instant) -> bool {
        let was_paused = self.is_paused(now);
        // A confirmation may have arrived after `since`.
        let since = self.last.as_ref().map_or(since, |last| since.max(last.received.at));
        if self.disconnected_at.is_none() {
            (self.disconnected_at, self.joined_before_disconnect) = (Some(since), self.joined_at);
        }
        was_paused
    }

    /// Records that no more states will arrive: from now on the thread counts as running.
    pub(super) fn close(&mut self, now: Instant) {
        self.disconnect(now, now);
        self.closed_at = Some(now);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    /// How much of the grace the open pause has used for a stopwatch that joined at `joined`: the unconfirmed part.
    pub(super) fn unconfirmed_pause(&self, joined: Instant) -> Duration {
        let is_paused = self.last.as_ref().is_some_and(|last| last.state.paused);
        match self.disconnected_at.zip(self.valid_until()) {
            Some((since, until)) if is_paused => until.saturating_duration_since(since.max(joined)),
            _ => Duration::ZERO,
        }
    }

    /// Applies a state. Returns whether waiters must check again: after a resume, and when an assumption was corrected.
    pub(super) fn apply(&mut self, now: LocalTime, state: ObservedState, source: Source) -> bool {
        if source == Source::Program && self.last.as_ref().is_some_and(|last| state.is_older_than(&last.state)) {
            return false;
        }
        let state = self.last.as_ref().map_or(state, |last| state.after(&last.state));
        let (disconnected_at, was_paused) = (self.disconnected_at, self.is_paused(now.at));
        let since_start = now.at.saturating_duration_since(self.started_at);
        let mut unsettled_sleep = Duration::ZERO;
        let paused_time = match &self.last {
            None => state.total,
            Some(last) if state.is_after_loss_of(&last.state) => self.paused_time_after_loss(last, now.at, state.total),
            Some(last) => {
                let (awake, slept) = split_growth(last, now, state.total - last.state.total);
                if state.paused {
                    unsettled_sleep = slept;
                }
                last.paused_time.saturating_add(awake)
            }
        };
        let paused_time = paused_time.min(since_start);
        self.disconnected_at = match source {
            Source::Watch | Source::Program => None,
            Source::Confirmation => disconnected_at.map(|_| now.at),
        };
        self.set_join_baseline(Baseline { at: now.at, paused_time, open_pause: state.paused_for });
        self.last = Some(LastState { state, received: now, paused_time, unsettled_sleep });
        disconnected_at.is_some() || (was_paused && !state.paused)
    }

    /// The paused time after the server has lost the `last` state and counts from the beginning. The pause in `last`
    /// counts until the disconnect; the new `total` may be in addition to it.
    fn paused_time_after_loss(&self, last: &LastState, now: Instant, total: Duration) -> Duration {
        let seen_until = if last.state.paused { self.disconnected_at.unwrap_or(now) } else { last.received.at };
        let since = now.saturating_duration_since(seen_until);
        self.paused_time(now).max(self.paused_time(seen_until).saturating_add(total.min(since)))
    }

    /// Sets the baseline of the stopwatches that joined since the last state.
    fn set_join_baseline(&mut self, baseline: Baseline) {
        if let Some(waiting) = self.join_baseline.take() {
            // Cannot fail: it was taken out of the only place that sets it.
            let _ = waiting.set(baseline);
        }
    }
}

/// Splits `growth`, the paused time between `last` and `now`: returns the part in which this machine was awake, and the
/// sleep that the next total may include instead.
///
/// If the thread was paused in `last`, it was most likely paused throughout: then the growth is the time awake plus those
/// sleeps that it includes. The combination of sleeps that comes closest is chosen.
fn split_growth(last: &LastState, now: LocalTime, growth: Duration) -> (Duration, Duration) {
    let awake = now.at.saturating_duration_since(last.received.at);
    let slept = now.slept.saturating_sub(last.received.slept);
    let slept = if slept < MIN_SLEEP { Duration::ZERO } else { slept };
    match (slept.is_zero() && last.unsettled_sleep.is_zero(), last.state.paused) {
        (true, _) => return (growth, Duration::ZERO),
        (_, false) => return (growth.min(awake), slept),
        (false, true) => {}
    }
    let none = (Duration::ZERO, if slept.is_zero() { last.unsettled_sleep } else { slept });
    let (all, new, old) = (last.unsettled_sleep + slept, slept, last.unsettled_sleep);
    let choices = [none, (new, Duration::ZERO), (old, new), (all, Duration::ZERO)];
    let possible = choices.into_iter().filter(|(included, _)| *included <= growth);
    let closest = possible.min_by_key(|(included, _)| growth.abs_diff(awake + *included));
    let (included, unsettled_sleep) = closest.unwrap_or(none);
    // The growth also includes the time that the last state took to arrive.
    let max = if included.is_zero() { awake + MAX_DELIVERY_DELAY } else { growth };
    ((growth - included).min(max), unsettled_sleep)
}

#[cfg(test)]
mod tests;
