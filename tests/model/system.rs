//! The systems that are compared with the model: the rules alone, and the engine over a store and a hub.
use crate::hands::Hands;
use pausewatch::test_support::clock::Clock;
use pausewatch::test_support::coordinator::{Call, Engine, Outcome, Settings};
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Command, DecideInputs, PauseEnd, Record, decide};
use pausewatch::test_support::hub::{EndedPause, Hub, OpenElicitation, PauseFilter, View};
use pausewatch::test_support::store::{Embedded, Memory, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The server's settings for leases.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) anonymous_ttl: Option<Duration>,
    pub(crate) max_pause: Option<Duration>,
}

pub(crate) trait System: 'static {
    /// The revision that every thread starts above.
    const FLOOR: u64 = 0;
    /// Whether it evicts idle threads.
    const SWEEPS: bool = true;
    /// Whether it notices that the machine slept.
    const SLEEPS: bool = true;
    /// Whether it can be restarted.
    const KEEPS: bool = false;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self;
    fn clock(&self) -> &Hands;
    /// Does what is due, then decides the calls.
    fn process(&mut self, calls: &[Call]) -> Vec<Outcome>;
    /// The next time at which something is due, by the boot-time clock.
    fn next_due(&self) -> i64;
    fn view(&self, thread: &ThreadId) -> View;

    /// Its ended pauses, the latest first; `None`: it keeps no history.
    fn pauses(&self, _thread: &ThreadId) -> Option<Vec<Arc<EndedPause>>> {
        None
    }
    /// Ends the process and runs `meanwhile` before the next one starts.
    fn restart(self, meanwhile: impl FnOnce(&Hands)) -> Self;
}

/// Only `core`.
pub(crate) struct Rules {
    clock: Arc<Hands>,
    lengths: Lengths,
    records: BTreeMap<ThreadId, Record>,
    /// How the last pause of each thread ended.
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
            // Copying a flooded thread takes long.
            let before = (record.open.len() < 10).then(|| record.clone());
            record.apply(change);
            if let Some(before) = before {
                record.revert(change);
                assert_eq!(*record, before, "I3: after an undo, the record must be as before");
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

/// The engine, and the hub as its readers see it: over a memory store, or over the embedded one in its own directory.
pub(crate) struct Engined<const KEEPS: bool> {
    clock: Arc<Hands>,
    lengths: Lengths,
    engine: Engine,
    hub: Arc<Hub>,
    directory: TempDir,
}

pub(crate) type Forgetful = Engined<false>;
pub(crate) type Durable = Engined<true>;

impl<const KEEPS: bool> Engined<KEEPS> {
    fn within(directory: TempDir, clock: Arc<Hands>, lengths: Lengths) -> Self {
        let store: Box<dyn Store> = match KEEPS {
            true => Box::new(Embedded::open(directory.path(), clock.boot_id()).expect("the store is sound")),
            false => Box::new(Memory),
        };
        let hub = Arc::<Hub>::default();
        let Lengths { anonymous_ttl, max_pause } = lengths;
        let settings = Settings { anonymous_ttl, max_pause, ..Settings::default() };
        let engine = Engine::with(store, clock.clone(), settings, &hub).expect("the store is sound");
        Engined { clock, lengths, engine, hub, directory }
    }
}

impl<const KEEPS: bool> System for Engined<KEEPS> {
    /// Without a durable store, its revisions start at the wall clock, in microseconds.
    const FLOOR: u64 = if KEEPS { 0 } else { (Hands::BEGINNING.wall / 1_000) as u64 };
    const KEEPS: bool = KEEPS;

    fn start(clock: Arc<Hands>, lengths: Lengths) -> Self {
        Self::within(tempfile::tempdir().expect("a directory"), clock, lengths)
    }

    fn clock(&self) -> &Hands {
        &self.clock
    }

    fn process(&mut self, calls: &[Call]) -> Vec<Outcome> {
        let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
        self.engine.process(calls, &mut outcomes, &mut committed).expect("the store is sound");
        self.hub.publish(committed);
        outcomes
    }

    fn next_due(&self) -> i64 {
        self.engine.next_due()
    }

    fn view(&self, thread: &ThreadId) -> View {
        self.hub.get(thread)
    }

    fn pauses(&self, thread: &ThreadId) -> Option<Vec<Arc<EndedPause>>> {
        let filter = PauseFilter { scope: &Scope::ALL, thread: Some(thread), ended: i64::MIN..i64::MAX };
        Some(self.hub.pauses(u64::MAX, usize::MAX, &filter).pauses)
    }

    fn restart(self, meanwhile: impl FnOnce(&Hands)) -> Self {
        if !KEEPS {
            return self;
        }
        let Engined { clock, lengths, engine, hub: _, directory } = self;
        drop(engine);
        meanwhile(&clock);
        Self::within(directory, clock, lengths)
    }
}
