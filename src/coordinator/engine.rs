//! The single writer: owns the records, judges commands in the order in which they came, and commits what they change.
//!
//! - E1: what is answered or published is committed. A batch that the store refuses is taken back whole.
//! - E2: leases of a thread that have ended by the time of a batch are closed before its commands are judged.
//! - E3: after any time in which holders could not renew (a restart, a sleep of the machine, a store that could not be
//!   written), every lease begins anew.
use super::leases::Leases;
use super::ledger::Ledger;
use super::{Changed, Settings};
use crate::clock::Clock;
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Answer, Change, Closing, Command, Effect, Fresh, Moment, Record, Refusal, decide};
use crate::hub::{Committed, Event, Hub};
use crate::limits::Account;
use crate::metrics::Metrics;
use crate::store::{CommitError, Contents, OpenError, Store, Write};
use hashbrown::HashMap;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::time::Duration;

/// Idle for this long, a thread is forgotten.
pub const IDLE_SPAN: Duration = Duration::from_secs(24 * 60 * 60);
/// How often all records are looked through for what to forget.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// What one batch forgets at most, so that it holds nobody up.
const SWEEP_AT_MOST: usize = 2_000;
/// Leases that one batch ends at most, beside those of the threads that it has calls for.
const EXPIRE_AT_MOST: usize = 1_000;
/// How often a store that is full or has refused a batch is tried again.
const RECOVER_EVERY: Duration = Duration::from_secs(1);
/// Sleeps of the machine shorter than this are not worth new leases: clocks are read one after the other.
const SLEEP_NOTICED: Duration = Duration::from_millis(500);

/// A command for a thread.
#[derive(Clone, Debug)]
pub struct Call {
    /// The thread.
    pub thread: ThreadId,
    /// The command.
    pub command: Command,
    /// Who gives it, if anybody says.
    pub by: Option<Arc<Account>>,
}

impl From<(ThreadId, Command)> for Call {
    fn from((thread, command): (ThreadId, Command)) -> Self {
        Call { thread, command, by: None }
    }
}

/// What became of it.
pub type Outcome = Result<Answer, Refusal>;

/// The store cannot be trusted any more: the process has to end, without an answer to anyone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);

/// Owns the records and the store.
pub struct Engine {
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    records: HashMap<ThreadId, Record>,
    leases: Leases,
    floor: u64,
    next_row: u64,
    id_seed: (u64, u64),
    ids_given: u64,
    settings: Settings,
    metrics: Arc<Metrics>,
    /// Who has what is open and known.
    ledger: Ledger,
    /// Rows of what was forgotten; they are deleted with the next batch.
    forgotten_rows: Vec<u64>,
    /// Threads that were forgotten; they are published when that is committed.
    forgotten: Vec<Committed>,
    staged: Vec<Staged>,
    /// Threads that were named for the first time by what is staged.
    made: Vec<ThreadId>,
    /// Boot-time clock less the time awake: rises when the machine sleeps.
    slept: i64,
    store_failing: bool,
    next_recovery: i64,
    next_sweep: i64,
}

/// A change that was made in memory and is not committed.
struct Staged {
    thread: ThreadId,
    change: Change,
    by: Option<Arc<Account>>,
}

impl Engine {
    /// As [`Engine::with`], without limits.
    ///
    /// # Errors
    /// As [`Engine::with`].
    pub fn new(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        anonymous_ttl: Option<Duration>,
        hub: &Hub,
    ) -> Result<Self, OpenError> {
        Self::with(store, clock, Settings { anonymous_ttl, ..Settings::default() }, hub)
    }

    /// Loads what `store` holds, shows it to `hub`, and gives every lease one full ttl.
    ///
    /// # Errors
    /// The store cannot be loaded, or there is no randomness to be had.
    pub fn with(
        mut store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        hub: &Hub,
    ) -> Result<Self, OpenError> {
        let now = clock.now();
        let Contents { records, floor, next_row } = store.load(now)?;
        hub.load(&records, floor);
        let seed = || getrandom::u64().map_err(|error| OpenError::Io(format!("get random numbers: {error}")));
        let mut leases = Leases::default();
        for record in &records {
            record.open.iter().for_each(|open| leases.set(&record.thread, open.elicitation.id, None, open.ends()));
        }
        let open = records.iter().map(|record| record.open.len()).sum();
        Ok(Engine {
            slept: slept(now.boot, &*clock),
            store,
            clock,
            records: records.into_iter().map(|record| (record.thread.clone(), record)).collect(),
            leases,
            floor,
            next_row,
            id_seed: (seed()?, seed()?),
            ids_given: 0,
            metrics: settings.metrics.clone(),
            ledger: Ledger::new(settings.limits, open),
            settings,
            forgotten_rows: Vec::new(),
            forgotten: Vec::new(),
            staged: Vec::new(),
            made: Vec::new(),
            store_failing: false,
            next_recovery: now.boot,
            next_sweep: now.boot,
        })
    }

    /// When [`Engine::process`] has something to do even without a call: a moment of the boot-time clock. A sleep of the
    /// machine makes it sooner.
    pub fn next_due(&self) -> i64 {
        if self.sleep_noticed(slept(self.clock.boot(), &*self.clock)) {
            return i64::MIN;
        }
        let lease = self.leases.first_end().unwrap_or(i64::MAX);
        let lease = if self.store_failing { lease.max(self.next_recovery) } else { lease };
        let recovery = if self.store_failing || self.store.is_full() { self.next_recovery } else { i64::MAX };
        lease.min(recovery).min(self.next_sweep)
    }

    /// Whether the next batch may take long.
    pub fn may_wait(&self) -> bool {
        self.store.may_wait()
    }

    /// Judges `calls` in their order and commits what they change, with the leases that have ended, in one batch.
    /// Appends one outcome for each call, and what is to be published before they are answered.
    ///
    /// # Errors
    /// Nothing of the batch may be answered or published.
    pub fn process(
        &mut self,
        calls: &[Call],
        outcomes: &mut Vec<Outcome>,
        committed: &mut Vec<Committed>,
    ) -> Result<(), Fatal> {
        let now = self.clock.now();
        self.renew_all_after_sleep(now, committed);
        self.store.begin();
        if now.boot >= self.next_recovery && (self.store_failing || self.store.is_full()) {
            self.next_recovery = now.after(RECOVER_EVERY).boot;
            self.store.recover();
        }
        if now.boot >= self.next_sweep {
            self.sweep(now);
        }
        if !self.store_failing {
            self.expire(now);
        }
        let first = outcomes.len();
        outcomes.extend(calls.iter().map(|call| self.judge_call(call, now, true)));
        match self.commit() {
            Ok(()) => {
                committed.append(&mut self.forgotten);
                self.settle(now, committed);
                if std::mem::take(&mut self.store_failing) {
                    self.metrics.store_failing.store(false, Relaxed);
                    tracing::info!("the store takes changes again: every lease begins anew");
                    self.renew_all(now, committed);
                }
                Ok(())
            }
            Err(CommitError::Fatal(why)) => Err(Fatal(why)),
            Err(CommitError::Refused(why)) => {
                // Once an outage: with many callers it would be logged, and put off, thousands of times a second.
                if !std::mem::replace(&mut self.store_failing, true) {
                    self.metrics.store_failing.store(true, Relaxed);
                    tracing::warn!(%why, "the store refuses changes; they are refused until it takes them again");
                    self.next_recovery = now.after(RECOVER_EVERY).boot;
                }
                self.take_back();
                outcomes.truncate(first);
                outcomes.extend(calls.iter().map(|call| self.judge_call(call, now, false)));
                self.settle(now, committed);
                Ok(())
            }
        }
    }

    /// Judges one command and, if it is accepted, makes its change in memory. Not `writable`: what needs the store is
    /// refused.
    fn judge(
        &mut self,
        thread: &ThreadId,
        command: &Command,
        by: Option<&Arc<Account>>,
        now: Moment,
        writable: bool,
    ) -> Outcome {
        let anonymous_ttl = self.settings.anonymous_ttl;
        let fresh = Fresh { now, id: self.next_id(), row: self.next_row, anonymous_ttl };
        let new;
        let known = self.records.get(thread);
        let is_first = known.is_none();
        let record = match known {
            Some(record) => record,
            None => {
                new = Record::new(thread.clone(), self.floor, now);
                &new
            }
        };
        let decision = decide(record, command, fresh)?;
        let Some(change) = decision.change else { return Ok(decision.answer) };
        match change.effect {
            _ if !outlives(&change) => {}
            _ if !writable => return Err(Refusal::StoreUnavailable { why: "its disk cannot be written" }),
            Effect::Opened(_) if self.store.is_full() => {
                return Err(Refusal::StoreUnavailable { why: "its disk is full" });
            }
            Effect::Opened(_) if self.settings.witness.as_ref().is_some_and(|witness| witness.is_full()) => {
                return Err(Refusal::StoreUnavailable { why: "the audit trail cannot be written" });
            }
            _ => {}
        }
        if let Effect::Opened(open) = &change.effect {
            let threads = self.records.len();
            let first = is_first.then_some(thread);
            self.ledger.open(open.elicitation.id, first, threads, by).map_err(|exceeded| {
                self.metrics.refuse(exceeded.limit);
                Refusal::LimitExceeded(exceeded)
            })?;
        }
        self.next_row += 2;
        let (made, floor) = (&mut self.made, self.floor);
        let record = self.records.entry(thread.clone()).or_insert_with(|| {
            made.push(thread.clone());
            Record::new(thread.clone(), floor, now)
        });
        record.apply(&change);
        self.staged.push(Staged { thread: thread.clone(), change, by: by.cloned() });
        Ok(decision.answer)
    }

    /// Closes what has ended, whosever it is, up to the size of a batch; the rest is due at once again.
    fn expire(&mut self, now: Moment) {
        for (thread, id) in self.leases.ended(now, EXPIRE_AT_MOST) {
            let _ = self.judge(&thread, &Command::Expire { elicitation: id }, None, now, true);
        }
    }

    /// Judges a command, after the leases of its thread that have ended.
    fn judge_call(&mut self, call: &Call, now: Moment, writable: bool) -> Outcome {
        let Call { thread, command, by } = call;
        if !self.store_failing
            && let Some(record) = self.records.get(thread)
            && record.open.iter().any(|open| open.has_ended(now))
        {
            let ended = record.open.iter().filter(|open| open.has_ended(now)).map(|open| open.elicitation.id);
            for id in ended.collect::<Vec<_>>() {
                let _ = self.judge(thread, &Command::Expire { elicitation: id }, None, now, writable);
            }
        }
        self.judge(thread, command, by.as_ref(), now, writable)
    }

    /// Stores what is staged, and what is to be forgotten.
    fn commit(&mut self) -> Result<(), CommitError> {
        let changed = |staged: &Staged| outlives(&staged.change);
        let to_forget = self.forgotten.len() + self.forgotten_rows.len();
        if !self.store.keeps() || !(self.store_failing || to_forget > 0 || self.staged.iter().any(changed)) {
            self.forgotten_rows.clear();
            return Ok(());
        }
        let mut writes = Vec::with_capacity(3 * self.staged.len() + to_forget + 1);
        // First, since what is staged may name a forgotten thread again.
        writes.extend(self.forgotten.iter().map(|forgotten| Write::DeleteThread(&forgotten.thread)));
        for (i, staged) in self.staged.iter().enumerate().filter(|(_, staged)| changed(staged)) {
            let Staged { thread, change, .. } = staged;
            match &change.effect {
                // Unless what is staged after it has closed it.
                Effect::Renewed { id, .. } => {
                    let record = self.records.get(thread);
                    let open = record.and_then(|record| record.position(*id).map(|index| &record.open[index]));
                    writes.extend(open.map(|open| Write::PutElicitation(thread, open)));
                }
                Effect::Opened(open) => writes.push(Write::PutElicitation(thread, open)),
                Effect::Closed { open, closing, .. } => {
                    writes.push(Write::DeleteElicitation(open.row));
                    writes.push(Write::PutClosing(thread, closing));
                }
            }
            writes.extend(change.request.as_ref().map(|request| Write::PutRequest(thread, request)));
            // Of several changes of a thread only the last header counts; in a batch they mostly stand together.
            if !self.staged.get(i + 1).is_some_and(|next| next.thread == *thread && changed(next)) {
                writes.push(Write::PutThread(thread, &change.after));
            }
        }
        writes.extend(self.forgotten_rows.iter().map(|&row| Write::DeleteMemory(row)));
        if !self.forgotten.is_empty() {
            writes.push(Write::PutFloor(self.floor));
        }
        // Should it fail, what is to be forgotten is tried again with the next batch.
        let before = self.clock.awake();
        self.store.commit(&writes)?;
        self.metrics.commit.observe_time(self.clock.awake().saturating_sub(before));
        self.metrics.batch.observe(self.staged.len() as u64);
        self.forgotten_rows.clear();
        Ok(())
    }

    /// What was staged is durable now, or needs not be: follows it up, and hands it out to be published.
    fn settle(&mut self, now: Moment, committed: &mut Vec<Committed>) {
        self.made.clear();
        for Staged { thread, change, by } in self.staged.drain(..) {
            count(&self.metrics, &change, now);
            if let Some(witness) = &mut self.settings.witness {
                witness.changed(&Changed { now, thread: &thread, change: &change, by: by.as_deref() });
            }
            let event = match change.effect {
                Effect::Opened(open) => {
                    self.leases.set(&thread, open.elicitation.id, None, open.ends());
                    let ends = open.ends();
                    Event::Opened(open.elicitation, ends)
                }
                Effect::Closed { open, closing, .. } => {
                    // The end may have been moved by a renewal of the same batch: the lease is told by what it was then.
                    self.leases.set(&thread, closing.id, open.ends(), None);
                    self.ledger.close(closing.id);
                    Event::Closed(closing.id, closing.how)
                }
                Effect::Renewed { id, before, after, .. } => {
                    let ends = |lease: Option<(Duration, Moment)>| lease.map(|(_, ends)| ends);
                    self.leases.set(&thread, id, ends(before), ends(after));
                    Event::Renewed(id, ends(after))
                }
            };
            if let Some(record) = self.records.get_mut(&thread) {
                let rows = &mut self.forgotten_rows;
                record.memory.forget(now, |row| rows.push(row));
            }
            committed.push(Committed { thread, header: change.after, event });
        }
    }

    /// Undoes what is staged, latest first, and drops the records that were made for it.
    fn take_back(&mut self) {
        while let Some(Staged { thread, change, .. }) = self.staged.pop() {
            if let Effect::Opened(open) = &change.effect {
                self.ledger.close(open.elicitation.id);
            }
            if let Some(record) = self.records.get_mut(&thread) {
                record.revert(&change);
            }
        }
        for thread in self.made.drain(..) {
            self.ledger.forget(&thread);
            self.records.remove(&thread);
        }
    }

    /// Begins every lease anew.
    fn renew_all(&mut self, now: Moment, committed: &mut Vec<Committed>) {
        self.leases = Leases::default();
        for record in self.records.values_mut() {
            for open in &mut record.open {
                if let Some((length, ends)) = &mut open.lease {
                    *ends = now.after(*length);
                    self.leases.set(&record.thread, open.elicitation.id, None, Some(*ends));
                    let event = Event::Renewed(open.elicitation.id, Some(*ends));
                    committed.push(Committed { thread: record.thread.clone(), header: record.header, event });
                }
            }
        }
    }

    /// Whether the machine slept since this was last seen to: `slept` is how long it did in all.
    fn sleep_noticed(&self, slept: i64) -> bool {
        let since = slept.saturating_sub(self.slept);
        since > i64::try_from(SLEEP_NOTICED.as_nanos()).unwrap_or(i64::MAX)
    }

    fn renew_all_after_sleep(&mut self, now: Moment, committed: &mut Vec<Committed>) {
        let slept = slept(now.boot, &*self.clock);
        let noticed = self.sleep_noticed(slept);
        self.slept = slept;
        if noticed {
            tracing::info!("the machine slept: every lease begins anew");
            self.renew_all(now, committed);
        }
    }

    /// Looks through the records for threads and memories to forget.
    fn sweep(&mut self, now: Moment) {
        let (rows, floor, forgotten) = (&mut self.forgotten_rows, &mut self.floor, &mut self.forgotten);
        let ledger = &mut self.ledger;
        let limit = rows.len() + forgotten.len() + SWEEP_AT_MOST;
        self.records.retain(|thread, record| {
            if rows.len() + forgotten.len() >= limit {
                return true;
            }
            record.memory.forget(now, |row| rows.push(row));
            let idle = record.open.is_empty() && now.since(record.header.changed) >= IDLE_SPAN;
            if idle && record.memory.is_empty() {
                ledger.forget(thread);
                *floor = record.header.revision.max(*floor);
                let event = Event::Forgotten;
                forgotten.push(Committed { thread: thread.clone(), header: record.header, event });
                return false;
            }
            true
        });
        let more = rows.len() + forgotten.len() >= limit;
        let next = if more { Duration::from_millis(10) } else { SWEEP_EVERY };
        self.next_sweep = now.after(next).boot;
    }

    /// An id that was never given: the same key never hashes two numbers of this process alike but once in 2^64 ids,
    /// and nobody who knows some ids can tell the next.
    fn next_id(&mut self) -> ElicitationId {
        let mut hasher = SipHasher13::new_with_keys(self.id_seed.0, self.id_seed.1);
        hasher.write_u64(self.ids_given);
        self.ids_given += 1;
        ElicitationId(hasher.finish128().as_u128())
    }
}

/// Whether a change must outlive the process. A renewal need not if the length of the lease stays, since a restart gives
/// every lease its full length anyway.
fn outlives(change: &Change) -> bool {
    let length = |lease: &Option<(Duration, Moment)>| lease.map(|(length, _)| length);
    !matches!(&change.effect, Effect::Renewed { before, after, .. } if length(before) == length(after))
}

/// Counts a change that is committed.
fn count(metrics: &Metrics, change: &Change, now: Moment) {
    match &change.effect {
        Effect::Opened(_) => metrics.opened.add_one(),
        Effect::Closed { closing, .. } => {
            match closing.how {
                Closing::Released => metrics.released.add_one(),
                Closing::Expired => metrics.expired.add_one(),
            }
            if let (Some(since), None) = (change.before.pause.since, change.after.pause.since) {
                metrics.pauses.observe(now.since(since).as_secs());
            }
        }
        Effect::Renewed { .. } => {}
    }
}

/// How long the machine has slept by `boot`, a moment that was read just now.
fn slept(boot: i64, clock: &dyn Clock) -> i64 {
    let awake = i64::try_from(clock.awake().as_nanos()).unwrap_or(i64::MAX);
    boot.saturating_sub(awake)
}
