//! The single writer: owns the records, evaluates commands in the order in which they came, and commits what they change.
//!
//! - E1: what is answered or published is committed. A batch that the store refuses is reverted as a whole.
//! - E2: before a command is evaluated, the elicitations of its thread whose lease had ended when the command arrived
//!   are closed. A renewal that arrived in time counts, however long it waited for a commit.
//! - E3: after a time in which holders could not renew (a restart, a sleep of the machine, a store that could not be
//!   written), every lease restarts. Exception: a takeover in a fleet does not restart long leases (`long_leases.rs`).
//! - E4: after the server stalled, every lease ends later by the length of the stall.
//! - E5: no lease ends later than the maximum pause of its thread allows, whatever moved its end.
mod commit;
mod default_lease;
mod eviction;
mod lease_extension;
mod long_leases;
mod records;
mod staged;

pub use eviction::IDLE_SPAN;

use super::expiry_queue::ExpiryQueue;
use super::quota_tracker::QuotaTracker;
use super::settings::Settings;
use crate::clock::Clock;
use crate::coordinator::hub::{Committed, Hub};
use crate::coordinator::metrics::Metrics;
use crate::coordinator::quota::Account;
use crate::coordinator::store::{CommitError, Contents, OpenError, Store};
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Answer, Command, DecideInputs, Effect, Record, Refusal, Timestamp, decide};
use long_leases::LongLeases;
use records::Records;
use siphasher::sip128::{Hasher128, SipHasher13};
use staged::{Staged, outlives};
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Maximum number of leases that one batch ends, in addition to the leases of the threads that its calls name.
const EXPIRE_AT_MOST: usize = 1_000;
/// How often a store that is full or has refused a batch is tried again.
const RECOVER_EVERY: Duration = Duration::from_secs(1);

/// A command for a thread.
#[derive(Clone, Debug)]
pub struct Call {
    /// The thread.
    pub thread: ThreadId,
    /// The command.
    pub command: Command,
    /// The caller, if known.
    pub by: Option<Arc<Account>>,
    /// When it arrived, in nanoseconds of the boot-time clock; `i64::MAX`: at the time of its evaluation.
    pub came: i64,
    /// How long it had waited at another replica before it arrived here.
    pub waited: Duration,
}

impl From<(ThreadId, Command)> for Call {
    fn from((thread, command): (ThreadId, Command)) -> Self {
        Call { thread, command, by: None, came: i64::MAX, waited: Duration::ZERO }
    }
}

/// The result of a call.
pub type Outcome = Result<Answer, Refusal>;

/// The answer to a call that arrives while the server stops.
pub(super) const STOPPING: Refusal = Refusal::StoreUnavailable { why: "the server is stopping" };

/// The answer to a call whose outcome is unknown, because another replica took over meanwhile.
pub(super) const DEPOSED: Refusal = Refusal::NotLeading { leader: None };

/// The engine must stop, and nothing of the batch may be answered or published.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The store cannot be trusted any more: the process has to end, without an answer to anyone.
    #[error("{0}")]
    Broken(String),
    /// The store was deleted or replaced: the process has to end, without an answer to anyone.
    #[error("{0}")]
    Gone(String),
    /// Another process has taken the store over, or may have.
    #[error("{0}")]
    Deposed(String),
}

impl From<CommitError> for Fatal {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Deposed(why) => Fatal::Deposed(why),
            CommitError::Gone(why) => Fatal::Gone(why),
            CommitError::Fatal(why) | CommitError::Refused(why) => Fatal::Broken(why),
        }
    }
}

/// Owns the records and the store.
pub struct Engine {
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    records: Records,
    leases: ExpiryQueue,
    floor: u64,
    next_row: u64,
    id_seed: (u64, u64),
    ids_given: u64,
    settings: Settings,
    metrics: Arc<Metrics>,
    /// The usage of each caller.
    quotas: QuotaTracker,
    /// Rows that are no longer needed; they are deleted with the next batch.
    forgotten_rows: Vec<u64>,
    /// Threads that were forgotten; they are published when that is committed.
    forgotten: Vec<Committed>,
    staged: Vec<Staged>,
    /// The stored ends of leases; `None`: the store keeps none.
    long_leases: Option<LongLeases>,
    /// Threads that the staged changes name for the first time.
    made: Vec<ThreadId>,
    /// Boot-time clock less the time awake: rises when the machine sleeps.
    slept: i64,
    /// When the fsync of the current commit began, in nanoseconds of [`Clock::awake`]; 0: it has not begun.
    fsync_began: Arc<AtomicU64>,
    store_failing: bool,
    /// Why increments are refused, while they are.
    full: Option<&'static str>,
    next_recovery: i64,
    next_sweep: i64,
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

    /// Loads the content of `store` and shows it to `hub`. The store restarts leases (E3). Elicitations without a
    /// lease, from a server without a default lease, get the default of this one (G2).
    ///
    /// # Errors
    /// The store cannot be loaded, or the system gives no random numbers.
    pub fn with(
        mut store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        hub: &Hub,
    ) -> Result<Self, OpenError> {
        let began = clock.now();
        let Contents { mut records, floor, next_row, epoch } = store.load(began)?;
        let now = clock.now();
        default_lease::restart_leases(&mut records, began, now);
        default_lease::give_leases(&mut records, &settings, now);
        hub.load(&records, floor, epoch, now);
        let fsync_began = Arc::new(AtomicU64::new(0));
        let (began, watch) = (fsync_began.clone(), clock.clone());
        let nanos = move || u64::try_from(watch.awake().as_nanos()).unwrap_or(0);
        store.before_fsync(Box::new(move || began.store(nanos(), Relaxed)));
        let seed = || getrandom::u64().map_err(|error| OpenError::Io(format!("get random numbers: {error}")));
        let mut leases = ExpiryQueue::default();
        for record in &records {
            record.open.iter().for_each(|open| leases.set(&record.thread, open.elicitation.id, None, open.ends()));
        }
        let open = records.iter().map(|record| record.open.len()).sum();
        let long_leases = store.keeps_ends().then(LongLeases::default);
        let mut engine = Engine {
            slept: clock.slept(),
            store,
            clock,
            records: records.into(),
            leases,
            floor,
            next_row,
            id_seed: (seed()?, seed()?),
            ids_given: 0,
            metrics: settings.metrics.clone(),
            quotas: QuotaTracker::new(settings.limits, open),
            settings,
            forgotten_rows: Vec::new(),
            forgotten: Vec::new(),
            staged: Vec::new(),
            long_leases,
            made: Vec::new(),
            fsync_began,
            store_failing: false,
            full: None,
            next_recovery: now.boot,
            next_sweep: now.boot,
        };
        // An earlier engine of the same server may have ended in an outage: the log and the metrics must show the
        // present state.
        engine.note_room();
        Ok(engine)
    }

    /// The time on the boot-time clock at which [`Engine::process`] has work to do even without a call. A sleep of the
    /// machine makes this time earlier.
    pub fn next_due(&self) -> i64 {
        if self.sleep_noticed(self.clock.slept()) {
            return i64::MIN;
        }
        if !self.store_failing && self.long_leases.as_ref().is_some_and(LongLeases::have_moved) {
            return i64::MIN;
        }
        let lease = self.leases.first_end().unwrap_or(i64::MAX);
        let lease = if self.store_failing { lease.max(self.next_recovery) } else { lease };
        let out_of_order = self.store_failing || self.full.is_some() || self.why_full().is_some();
        let recovery = if out_of_order { self.next_recovery } else { i64::MAX };
        lease.min(recovery).min(self.next_sweep)
    }

    /// Whether the next batch may take long.
    pub fn may_wait(&self) -> bool {
        self.store.may_wait()
    }

    /// Evaluates `calls` in their order, ends leases that are due, and commits all changes in one batch. Appends one
    /// outcome for each call, and the changes that must be published before the calls are answered.
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
        if now.boot >= self.next_recovery && (self.store_failing || self.why_full().is_some()) {
            self.next_recovery = now.after(RECOVER_EVERY).boot;
            self.store.recover();
        }
        self.note_room();
        if now.boot >= self.next_sweep {
            self.sweep(now);
        }
        if !self.store_failing {
            // Leases that ended since the first command of the batch are due at once.
            let first_came = calls.iter().map(|call| call.came).min().unwrap_or(i64::MAX);
            let first_came = Timestamp { boot: first_came.min(now.boot), ..now };
            self.expire(first_came, now);
        }
        let first = outcomes.len();
        outcomes.extend(calls.iter().map(|call| self.evaluate_call(call, now, true)));
        match self.commit(!calls.is_empty()) {
            Ok(()) => {
                committed.append(&mut self.forgotten);
                self.settle(now, true, committed);
                if std::mem::take(&mut self.store_failing) {
                    self.show_writable();
                    tracing::info!("the store accepts changes again: every lease restarts");
                    self.renew_all(now, committed);
                }
                Ok(())
            }
            Err(CommitError::Refused(why)) => {
                self.confirm()?;
                // Only once per outage: with many callers it would be logged, and the retry postponed, thousands of
                // times a second.
                if !std::mem::replace(&mut self.store_failing, true) {
                    self.show_writable();
                    tracing::warn!(%why, "the store refuses changes until it can write again");
                    self.next_recovery = now.after(RECOVER_EVERY).boot;
                }
                self.take_back();
                outcomes.truncate(first);
                outcomes.extend(calls.iter().map(|call| self.evaluate_call(call, now, false)));
                self.settle(now, false, committed);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that no other process had taken over the store when this was called: then the published state is the
    /// latest.
    ///
    /// # Errors
    /// Another process has, or may have.
    pub fn confirm(&mut self) -> Result<(), Fatal> {
        Ok(self.store.confirm()?)
    }

    /// Why there is no room for increments.
    fn why_full(&self) -> Option<&'static str> {
        if self.store.is_full() {
            return Some(self.store.why_full());
        }
        let trail_is_full = self.settings.witness.as_ref().is_some_and(|witness| witness.is_full());
        trail_is_full.then_some("the audit trail cannot be written")
    }

    /// Updates whether increments are accepted, and reports a change in the log and the metrics.
    fn note_room(&mut self) {
        let full = self.why_full();
        if std::mem::replace(&mut self.full, full) != full {
            match full {
                Some(why) => tracing::warn!(why, "increments are refused"),
                None => tracing::info!("increments are accepted again"),
            }
        }
        self.show_writable();
    }

    fn show_writable(&self) {
        self.metrics.store_failing.store(self.store_failing || self.full.is_some(), Relaxed);
    }

    /// Evaluates one command and, if it is accepted, makes its change in memory. If not `writable`, commands that need
    /// the store are refused.
    fn evaluate(
        &mut self,
        thread: &ThreadId,
        command: &Command,
        by: Option<&Arc<Account>>,
        now: Timestamp,
        writable: bool,
    ) -> Outcome {
        let Settings { anonymous_ttl, max_pause, .. } = self.settings;
        let fresh = DecideInputs { now, id: self.next_id(), row: self.next_row, anonymous_ttl, max_pause };
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
            _ if !writable => return Err(Refusal::StoreUnavailable { why: self.store.why_refused() }),
            Effect::Opened(_) => self.full.map_or(Ok(()), |why| Err(Refusal::StoreUnavailable { why }))?,
            _ => {}
        }
        if let Effect::Opened(open) = &change.effect {
            let threads = self.records.len();
            let first = is_first.then_some(thread);
            self.quotas.open(open.elicitation.id, first, threads, by).map_err(|exceeded| {
                self.metrics.refuse(exceeded.limit);
                Refusal::LimitExceeded(exceeded)
            })?;
        }
        self.next_row += 2;
        let (made, floor) = (&mut self.made, self.floor);
        let record = self.records.get_or_insert_with(thread, || {
            made.push(thread.clone());
            Record::new(thread.clone(), floor, now)
        });
        record.apply(&change);
        self.staged.push(Staged { thread: thread.clone(), change, by: by.cloned() });
        Ok(decision.answer)
    }

    /// Closes the elicitations whose lease had ended by `until`, at most [`EXPIRE_AT_MOST`] of them, on any thread. The
    /// others stay due, and the next batches close them.
    fn expire(&mut self, until: Timestamp, now: Timestamp) {
        for (thread, id) in self.leases.ended(until, EXPIRE_AT_MOST) {
            let _ = self.evaluate(&thread, &Command::Expire { elicitation: id }, None, now, true);
        }
    }

    /// Closes the elicitations of its thread whose lease had ended when the command arrived. Then evaluates the
    /// command.
    fn evaluate_call(&mut self, call: &Call, now: Timestamp, writable: bool) -> Outcome {
        let Call { thread, command, by, came, .. } = call;
        let came = Timestamp { boot: (*came).min(now.boot), ..now };
        if !self.store_failing
            && let Some(record) = self.records.get(thread)
            && record.open.iter().any(|open| open.has_ended(came))
        {
            let ended = record.open.iter().filter(|open| open.has_ended(came));
            let mut ended: Vec<_> =
                ended.map(|open| (open.ends().map(|ends| ends.boot), open.elicitation.id)).collect();
            // Sorted, as in `expire`: the last one determines how the pause ended.
            ended.sort_by_key(|(ends, _)| *ends);
            for (_, id) in ended {
                let _ = self.evaluate(thread, &Command::Expire { elicitation: id }, None, now, writable);
            }
        }
        self.evaluate(thread, command, by.as_ref(), now, writable)
    }

    /// A new id: the hash of a counter with a secret key. Within one process, an id repeats only after about 2^64 ids,
    /// and the next id cannot be guessed from earlier ones.
    fn next_id(&mut self) -> ElicitationId {
        let mut hasher = SipHasher13::new_with_keys(self.id_seed.0, self.id_seed.1);
        hasher.write_u64(self.ids_given);
        self.ids_given += 1;
        ElicitationId(hasher.finish128().as_u128())
    }
}

/// Resets the metrics of the store: a replica that no longer leads keeps running without a store.
impl Drop for Engine {
    fn drop(&mut self) {
        self.metrics.store_failing.store(false, Relaxed);
    }
}
