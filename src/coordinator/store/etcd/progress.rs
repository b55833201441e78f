//! The progress of a follower: what it has applied, up to when the durations that it shows are exact, and whether it is
//! fresh.
//!
//! - P1: durations are shown up to a moment of the cluster clock before which every decision is shown (fleet invariant
//!   I6). That is the latest of the clocks of applied entries and of the horizons that the leader has reported with an
//!   applied entry.
//! - P2: a caller that waits for a read and a look at the leader gets only those that began after it began to wait
//!   (I4).
//! - P3: while this replica leads, its engine determines up to when durations are shown.
//!
//! docs/guarantees.md lists the invariants of a fleet, decision 5 defines the horizon.
use crate::coordinator::hub::Hub;
use crate::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// If no read and look that began within this time (nanoseconds) succeeded, a follower may show an old state.
pub(crate) const FRESH_FOR: i64 = 3_000_000_000;
/// The maximum number of horizons that wait for their entry: one per look.
const MAX_WAITING: usize = 64;

/// The progress of a follower. It is used by several threads.
#[derive(Debug)]
pub struct Progress {
    hub: Arc<Hub>,
    state: Mutex<State>,
    applied: watch::Sender<u64>,
    /// Reads of the leader record.
    pub(crate) reads: Rounds,
    /// Looks at the leader.
    pub(crate) looks: Rounds,
}

#[derive(Debug)]
struct State {
    follows: bool,
    /// The last entry that is shown. `Progress::applied` follows a little later, when durations are shown up to it.
    applied: u64,
    told: i64,
    /// Horizons that hold once their entry is applied.
    waiting: VecDeque<(u64, i64)>,
}

impl Progress {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        let state = State { follows: false, applied: 0, told: i64::MIN, waiting: VecDeque::new() };
        let (applied, reads, looks) = (watch::Sender::new(0), Rounds::default(), Rounds::default());
        Progress { hub, state: Mutex::new(state), applied, reads, looks }
    }

    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the progress")
    }

    /// The replica follows from now on. `shown`: everything that was decided before this moment is already shown.
    pub fn begin(&self, shown: i64) {
        let mut state = self.state();
        *state = State { follows: true, applied: 0, told: shown, waiting: VecDeque::new() };
        self.hub.safe_time().follow(shown);
        self.applied.send_replace(0);
        self.reads.forget();
        self.looks.forget();
    }

    /// The replica leads from now on.
    pub fn end(&self) {
        self.state().follows = false;
    }

    /// Whether the replica follows.
    pub fn follows(&self) -> bool {
        self.state().follows
    }

    /// All entries up to `seq` are shown; the last one was written at `clock`.
    pub(crate) fn applied(&self, seq: u64, clock: i64) {
        let mut state = self.state();
        state.applied = seq;
        self.tell(&mut state, seq, clock);
        drop(state);
        self.applied.send_replace(seq);
    }

    /// Everything that was decided before `horizon` is in entries up to `seq`.
    pub(crate) fn holds(&self, seq: u64, horizon: i64) {
        self.tell(&mut self.state(), seq, horizon);
    }

    fn tell(&self, state: &mut State, seq: u64, horizon: i64) {
        if !state.follows {
            return;
        }
        state.waiting.push_back((seq, horizon));
        if state.waiting.len() > MAX_WAITING {
            state.waiting.pop_front();
        }
        let (applied, mut told) = (state.applied, state.told);
        state.waiting.retain(|&(seq, horizon)| {
            let is_shown = seq <= applied;
            told = if is_shown { told.max(horizon) } else { told };
            !is_shown
        });
        if told > state.told {
            state.told = told;
            self.hub.safe_time().follow(told);
        }
    }

    /// The earlier of two times on the clock of the machine: when the last successful read began, and when the last
    /// successful look began. A read or a look counts only if all its entries are shown. See [`FRESH_FOR`].
    pub(crate) fn good_since(&self) -> i64 {
        let applied = *self.applied.borrow();
        self.reads.good_since(applied).min(self.looks.good_since(applied))
    }

    /// The number of log entries that are known and not shown yet.
    pub(crate) fn lag(&self) -> u64 {
        let known = self.reads.done.borrow().seq.max(self.looks.done.borrow().seq);
        known.saturating_sub(*self.applied.borrow())
    }

    /// Waits until entry `seq` is shown.
    pub(crate) async fn shows(&self, seq: u64) -> bool {
        self.applied.subscribe().wait_for(|applied| *applied >= seq).await.is_ok()
    }

    /// Waits until this replica shows at least everything that any replica had answered when this was called, and shows
    /// durations up to then. `false`: not within [`FRESH_FOR`].
    pub(crate) async fn confirm(&self) -> bool {
        let shown = async {
            let (read, looked) = tokio::join!(self.reads.next(), self.looks.next());
            self.shows(read.max(looked)).await
        };
        timeout(Duration::from_nanos(FRESH_FOR.unsigned_abs()), shown).await.unwrap_or(false)
    }
}

/// A repeated operation that serves all callers who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    wanted: Notify,
    begun: Mutex<Begun>,
    done: watch::Sender<Done>,
}

#[derive(Debug, Default)]
struct Begun {
    number: u64,
    at: i64,
    /// Successful rounds, oldest first: when each began, and the entry that must be applied before it counts.
    good: VecDeque<(i64, u64)>,
    /// When the last round began whose entries are all applied.
    good_since: Option<i64>,
}

/// The last successful round, and the last entry at that time.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    number: u64,
    seq: u64,
}

impl Rounds {
    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock().expect("nothing panics while it holds a round")
    }

    /// Begins a round as soon as a caller waits for one, and after `pause` at the latest. `now`: the clock of the
    /// machine.
    pub(crate) async fn begin(&self, pause: Duration, now: impl Fn() -> i64) {
        let _ = timeout(pause, self.wanted.notified()).await;
        let mut begun = self.lock();
        begun.number += 1;
        begun.at = now();
    }

    /// Lets the next round begin at once. The last one has failed, and its callers wait for the next one.
    pub(crate) fn request(&self) {
        self.wanted.notify_one();
    }

    /// The round has succeeded: `seq` was the last entry.
    pub(crate) fn succeed(&self, seq: u64) {
        let mut begun = self.lock();
        let at = begun.at;
        begun.good.push_back((at, seq));
        if begun.good.len() > MAX_WAITING {
            begun.good.pop_front();
        }
        let number = begun.number;
        drop(begun);
        self.done.send_replace(Done { number, seq });
    }

    /// Earlier successes no longer count.
    fn forget(&self) {
        let mut begun = self.lock();
        begun.good.clear();
        begun.good_since = None;
    }

    fn good_since(&self, applied: u64) -> i64 {
        let mut begun = self.lock();
        while let Some((at, _)) = begun.good.front().copied().filter(|(_, seq)| *seq <= applied) {
            begun.good_since = Some(at);
            begun.good.pop_front();
        }
        begun.good_since.unwrap_or(i64::MIN)
    }

    /// Waits for a round that begins after this call; returns the last entry at that time.
    async fn next(&self) -> u64 {
        let before = self.lock().number;
        let mut done = self.done.subscribe();
        self.wanted.notify_one();
        // The sender is a field of this value.
        done.wait_for(|done| done.number > before).await.map_or(0, |done| done.seq)
    }
}
