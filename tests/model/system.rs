//! What is held against the model: the rules alone, and the engine over a store and a hub.
use crate::hands::Hands;
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::coordinator::{Call, Engine, Outcome, Settings};
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Command, DecideInputs, PauseEnd, Record, decide};
use pausewatch::test_support::hub::{EndedPause, Hub, OpenElicitation, PauseFilter, View};
use pausewatch::test_support::store::{Embedded, Memory};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The server's settings of leases.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) anonymous_ttl: Option<Duration>,
    pub(crate) max_pause: Option<Duration>,
}

pub(crate) trait System: 'static {
    /// The revision that every thread starts above.
    const FLOOR: u64 = 0;
    /// It forgets idle threads.
    const SWEEPS: bool = true;
    /// It notices that the machine slept.
    const SLEEPS: bool = true;
    /// It can be restarted.
    const KEEPS: bool = false;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self;
    fn clock(&self) -> &Hands;
    /// Does what is due, then judges the calls.
    fn process(&mut self, calls: &[Call]) -> Vec<Outcome>;
    /// When something is due next, on the boot-time clock.
    fn next_due(&self) -> i64;
    fn view(&self, thread: &ThreadId) -> View;

    /// Its pauses that have ended, the last one first; `None`: it keeps no history.
    fn pauses(&self, _thread: &ThreadId) -> Option<Vec<Arc<EndedPause>>> {
        None
    }
    /// Ends the process and does `meanwhile` before the next one starts.
    fn restart(self, meanwhile: impl FnOnce(&Hands)) -> Self;
}

/// `core` and nothing else.
pub(crate) struct Rules {
    clock: Arc<Hands>,
    lengths: Lengths,
    records: BTreeMap<ThreadId, Record>,
    /// How the last pause of each ended.
    pause_ends: BTreeMap<ThreadId, PauseEnd>,
    given: u64,
}

impl Rules {
    fn judge(&mut self, thread: &ThreadId, command: &Command) -> Outcome {
        let now = self.clock.now();
        let (id, row) = (ElicitationId(u128::from(self.given)), 2 * self.given);
        self.given += 1;
        let Lengths { anonymous_ttl, max_pause } = self.lengths;
        let fresh = DecideInputs { now, id, row, anonymous_ttl, max_pause };
        let mut new = Record::new(thread.clone(), 0, now);
        let record = self.records.get_mut(thread).unwrap_or(&mut new);
        let decision = decide(record, command, fresh)?;
        if let Some(change) = &decision.change {
            // A copy of a flooded thread takes long.
            let before = (record.open.len() < 10).then(|| record.clone());
            record.apply(change);
            if let Some(before) = before {
                record.revert(change);
                assert_eq!(*record, before, "I3: taken back, it is as it was");
                record.apply(change);
            }
            record.memory.forget(now, |_| ());
            self.records.entry(thread.clone()).or_insert(new);
            if let Some(end) = change.pause_end() {
                self.pause_ends.insert(thread.clone(), end);
            }
        }
        Ok(decision.answer)
    }
}

impl System for Rules {
    const SWEEPS: bool = false;
    const SLEEPS: bool = false;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self {
        Rules { clock, lengths, records: BTreeMap::new(), pause_ends: BTreeMap::new(), given: 0 }
    }

    fn clock(&self) -> &Hands {
        &self.clock
    }

    fn process(&mut self, calls: &[Call]) -> Vec<Outcome> {
        let now = self.clock.now();
        let open = self.records.values().flat_map(|record| record.open.iter().map(|open| (&record.thread, open)));
        let ended = open.filter(|(_, open)| open.has_ended(now));
        let mut ended: Vec<_> = ended
            .map(|(thread, open)| (open.ends().map(|ends| ends.boot), thread.clone(), open.elicitation.id))
            .collect();
        // Those that ended first are closed first.
        ended.sort_by_key(|(ends, ..)| *ends);
        for (_, thread, elicitation) in ended {
            self.judge(&thread, &Command::Expire { elicitation }).expect("it has ended");
        }
        calls.iter().map(|call| self.judge(&call.thread, &call.command)).collect()
    }

    fn next_due(&self) -> i64 {
        let open = self.records.values().flat_map(|record| &record.open);
        open.filter_map(|open| Some(open.ends()?.boot)).min().unwrap_or(i64::MAX)
    }

    fn view(&self, thread: &ThreadId) -> View {
        let record = self.records.get(thread);
        let open = record.map_or(&[][..], |record| &record.open).iter();
        let open: Vec<_> = open
            .map(|open| OpenElicitation { elicitation: open.elicitation.clone(), ends: open.ends(), at_most: None })
            .collect();
        let pause_end = self.pause_ends.get(thread).copied().filter(|_| open.is_empty());
        View {
            thread: thread.clone(),
            header: record.map(|record| record.header),
            floor: 0,
            open,
            pause_end,
            watchers: 0,
        }
    }

    fn restart(self, _meanwhile: impl FnOnce(&Hands)) -> Self {
        self
    }
}

/// The engine, and the hub as its readers see it.
struct Written {
    clock: Arc<Hands>,
    lengths: Lengths,
    engine: Engine,
    hub: Arc<Hub>,
}

impl Written {
    fn over(store: Box<dyn pausewatch::test_support::store::Store>, clock: Arc<Hands>, lengths: Lengths) -> Self {
        let hub = Arc::<Hub>::default();
        let Lengths { anonymous_ttl, max_pause } = lengths;
        let settings = Settings { anonymous_ttl, max_pause, ..Settings::default() };
        let engine = Engine::with(store, clock.clone(), settings, &hub).expect("the store is sound");
        Written { clock, lengths, engine, hub }
    }

    fn process(&mut self, calls: &[Call]) -> Vec<Outcome> {
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        self.engine.process(calls, &mut outcomes, &mut committed).expect("the store is sound");
        self.hub.publish(committed);
        outcomes
    }

    fn pauses(&self, thread: &ThreadId) -> Vec<Arc<EndedPause>> {
        let filter = PauseFilter { scope: &Scope::ALL, thread: Some(thread), ended: i64::MIN..i64::MAX };
        self.hub.pauses(u64::MAX, usize::MAX, &filter).pauses
    }
}

/// The engine over the store that keeps nothing.
pub(crate) struct Forgetful(Written);

impl System for Forgetful {
    /// Its revisions begin at the wall clock, in microseconds.
    const FLOOR: u64 = (Hands::BEGINNING.wall / 1_000) as u64;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self {
        Forgetful(Written::over(Box::new(Memory), clock, lengths))
    }

    fn clock(&self) -> &Hands {
        &self.0.clock
    }

    fn process(&mut self, calls: &[Call]) -> Vec<Outcome> {
        self.0.process(calls)
    }

    fn next_due(&self) -> i64 {
        self.0.engine.next_due()
    }

    fn view(&self, thread: &ThreadId) -> View {
        self.0.hub.get(thread)
    }

    fn pauses(&self, thread: &ThreadId) -> Option<Vec<Arc<EndedPause>>> {
        Some(self.0.pauses(thread))
    }

    fn restart(self, _meanwhile: impl FnOnce(&Hands)) -> Self {
        self
    }
}

/// The engine over the embedded store, in a directory of its own.
pub(crate) struct Durable(Written, TempDir);

impl Durable {
    fn within(directory: TempDir, clock: Arc<Hands>, lengths: Lengths) -> Self {
        let store = Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound");
        Durable(Written::over(Box::new(store), clock, lengths), directory)
    }
}

impl System for Durable {
    const KEEPS: bool = true;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self {
        Self::within(tempfile::tempdir().expect("a directory"), clock, lengths)
    }

    fn clock(&self) -> &Hands {
        &self.0.clock
    }

    fn process(&mut self, calls: &[Call]) -> Vec<Outcome> {
        self.0.process(calls)
    }

    fn next_due(&self) -> i64 {
        self.0.engine.next_due()
    }

    fn view(&self, thread: &ThreadId) -> View {
        self.0.hub.get(thread)
    }

    fn pauses(&self, thread: &ThreadId) -> Option<Vec<Arc<EndedPause>>> {
        Some(self.0.pauses(thread))
    }

    fn restart(self, meanwhile: impl FnOnce(&Hands)) -> Self {
        let Durable(Written { clock, lengths, engine, hub: _ }, directory) = self;
        drop(engine);
        meanwhile(&clock);
        Self::within(directory, clock, lengths)
    }
}
