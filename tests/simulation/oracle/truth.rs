//! The books: what was committed and when, in simulated time, independent of what the server computes.
use std::collections::BTreeMap;
use std::time::Duration;

/// One thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Each state that could be observed, in order.
    pub(super) states: Vec<State>,
    /// The open elicitations, by their row in the store: the numbers of their questions.
    pub(super) open: BTreeMap<u64, usize>,
    pauses: Vec<Pause>,
}

/// A state of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) revision: u64,
    pub(super) at: Duration,
    pub(super) count: usize,
}

/// One pause.
#[derive(Debug)]
struct Pause {
    from: Duration,
    to: Option<Duration>,
    /// When the machine slept during the pause, and for how long.
    sleeps: Vec<(Duration, Duration)>,
}

impl Pause {
    fn end(&self, now: Duration) -> Duration {
        self.to.unwrap_or(now).min(now)
    }

    /// Its length until `at`, including sleep of the machine.
    fn total(&self, at: Duration) -> Duration {
        let slept: Duration = self.sleeps.iter().filter(|(when, _)| *when <= at).map(|(_, length)| *length).sum();
        self.end(at).saturating_sub(self.from) + slept
    }
}

impl Thread {
    pub(super) fn last(&self) -> State {
        self.states.last().copied().unwrap_or(State { revision: 0, at: Duration::ZERO, count: 0 })
    }

    /// The state at a revision; 0 is that of a thread that was never named.
    pub(super) fn state(&self, revision: u64) -> Option<State> {
        if revision == 0 {
            return Some(State { revision: 0, at: Duration::ZERO, count: 0 });
        }
        self.states.iter().rev().find(|state| state.revision == revision).copied()
    }

    /// An elicitation was closed. If it was the last one, the pause has ended, even if the same batch starts another.
    pub(super) fn closed(&mut self, row: u64, now: Duration) {
        let was_open = self.open.remove(&row).is_some();
        if let (true, true, Some(pause @ Pause { to: None, .. })) =
            (was_open, self.open.is_empty(), self.pauses.last_mut())
        {
            pause.to = Some(now);
        }
    }

    /// A change was committed: `open` has the elicitations that are now open.
    pub(super) fn changed(&mut self, revision: u64, now: Duration) {
        let count = self.open.len();
        self.states.push(State { revision, at: now, count });
        match (count > 0, self.pauses.last_mut()) {
            (true, Some(Pause { to: None, .. })) => {}
            (true, _) => self.pauses.push(Pause { from: now, to: None, sleeps: Vec::new() }),
            (false, Some(pause @ Pause { to: None, .. })) => pause.to = Some(now),
            (false, _) => {}
        }
    }

    pub(super) fn slept(&mut self, now: Duration, time: Duration) {
        if let Some(pause @ Pause { to: None, .. }) = self.pauses.last_mut() {
            pause.sleeps.push((now, time));
        }
    }

    /// The time paused between two moments, without sleep of the machine.
    pub(super) fn paused_between(&self, from: Duration, to: Duration) -> Duration {
        self.pauses.iter().map(|pause| pause.end(to).saturating_sub(pause.from.max(from))).sum()
    }

    /// The time between two moments in which any of several threads was paused, without sleep of the machine.
    pub(super) fn union_between(threads: &[&Thread], from: Duration, to: Duration) -> Duration {
        let pauses = threads.iter().flat_map(|thread| &thread.pauses);
        let mut spans: Vec<_> = pauses.map(|pause| (pause.from.max(from), pause.end(to))).collect();
        spans.sort_unstable();
        let (mut total, mut until) = (Duration::ZERO, from);
        for (from, to) in spans {
            total += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        total
    }

    /// The number of changes since `from`.
    pub(super) fn changes_since(&self, from: Duration) -> u32 {
        u32::try_from(self.states.iter().rev().take_while(|state| state.at >= from).count()).expect("a run is short")
    }

    /// The length of the open pause, including sleep of the machine.
    pub(super) fn open_pause(&self, now: Duration) -> Option<Duration> {
        self.pauses.last().filter(|pause| pause.to.is_none()).map(|pause| pause.total(now))
    }

    /// The length of the open or the last pause, including sleep of the machine.
    pub(super) fn last_pause(&self, now: Duration) -> Option<Duration> {
        self.pauses.last().map(|pause| pause.total(now))
    }

    /// The value of `paused_total` that the server should send at `at`: including sleep.
    pub(super) fn paused_total(&self, at: Duration) -> Duration {
        self.pauses.iter().filter(|pause| pause.from <= at).map(|pause| pause.total(at)).sum()
    }

    /// The start of the present pause.
    pub(super) fn paused_since(&self) -> Option<Duration> {
        self.pauses.last().filter(|pause| pause.to.is_none()).map(|pause| pause.from)
    }

    /// The time since which it has been running.
    pub(super) fn running_since(&self) -> Option<Duration> {
        match self.pauses.last() {
            None => Some(Duration::ZERO),
            Some(pause) => pause.to,
        }
    }
}
