//! The writer of a leader: one transaction after the other, each of which compares and replaces the leader record.
//!
//! - F1: every write of a term compares the revision of the write before. So once another replica has replaced the record, nothing
//!   that this one still sends has an effect, whenever it arrives.
//! - F2: a write whose outcome is unknown is sent again until it is known; the comparison makes it idempotent. No other write is
//!   sent meanwhile.
//! - F3: a leader that has reached etcd for [`CUT_OFF`] no more ends its term. What it sent last may still be done; whoever waits for
//!   it is told that the outcome is unknown.
use super::checkpoint::Checkpoint;
use super::kv::{Kv, KvError};
use super::load::{self, LoadError};
use super::record::{Entry, FORMAT, Keys, LeaderRecord};
use super::wire::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest};
use crate::clock::Clock;
use crate::coordinator::store::CommitError;
use prost::Message;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// How often an idle leader writes its record.
const TICK: Duration = Duration::from_millis(200);
const TICK_NANOS: i64 = TICK.as_nanos() as i64;
/// How soon the next step of a checkpoint follows while nobody calls.
const STEP: Duration = Duration::from_millis(20);
/// A leader that has not reached etcd for this long (nanoseconds) stops: another one may lead.
pub(super) const CUT_OFF: i64 = 3_000_000_000;
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Bytes of one entry; etcd refuses requests of 1.5 MiB.
pub(super) const MAX_ENTRY: usize = 512 << 10;
/// How often etcd is asked for its room (nanoseconds).
const LOOK_EVERY: i64 = 10_000_000_000;
/// How often the past of keys is forgotten.
const COMPACT_EVERY: i64 = 60_000_000_000;

/// This process, as the leader record names it.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) address: String,
}

/// The state of a term, for those who only look.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When the last attempt began that reached etcd, on the clock of the machine.
    last: AtomicI64,
    full: AtomicBool,
    /// The last entry.
    seq: AtomicU64,
    /// Attempts whose outcome was unknown.
    in_doubt: AtomicU64,
    /// Bytes of the log that are not in rows.
    log_bytes: AtomicU64,
}

impl Pulse {
    /// That etcd was reached by an attempt that began at `last`.
    pub(crate) fn at(last: i64) -> Self {
        Pulse { last: AtomicI64::new(last), ..Pulse::default() }
    }

    /// Whether etcd was reached so recently that this replica may still be the leader.
    pub(crate) fn is_fresh(&self, now: i64) -> bool {
        now.saturating_sub(self.last.load(SeqCst)) < CUT_OFF
    }

    /// When the last attempt began that reached etcd, on the clock of the machine.
    pub fn last(&self) -> i64 {
        self.last.load(SeqCst)
    }

    /// The last entry.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(SeqCst)
    }

    /// Attempts at etcd whose outcome was unknown.
    pub(crate) fn in_doubt(&self) -> u64 {
        self.in_doubt.load(Relaxed)
    }

    /// Bytes of the log that are not in rows.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }
}

/// A request of a leader to its chain.
#[derive(Debug)]
pub(super) enum Request {
    /// Makes a batch durable; an empty one asks whether a batch would be taken.
    Commit(Vec<u8>, Reply),
    /// Makes sure that the term has not ended.
    Confirm(Reply),
}

pub(super) type Reply = oneshot::Sender<Result<(), CommitError>>;

/// Why a term has ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Ended(pub(super) String);

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum Written {
    Done,
    /// Nothing was written.
    Refused(String),
}

/// An entry, with its number and clock, and the batch that it ends.
struct Early {
    seq: u64,
    clock: i64,
    batch: Option<Vec<u8>>,
}

pub(super) struct Chain<K: Kv> {
    pub(super) kv: K,
    pub(super) keys: Arc<Keys>,
    /// The cluster clock.
    pub(super) clock: Arc<dyn Clock>,
    /// The clock of the machine.
    pub(super) machine: Arc<dyn Clock>,
    pub(super) me: Replica,
    pub(super) term: u64,
    /// The last entry.
    pub(super) seq: u64,
    /// The revision of the last write.
    pub(super) revision: i64,
    pub(super) checkpoint: Checkpoint,
    /// What was committed before it was known what earlier terms have left for a checkpoint; `None`: it is known.
    early: Option<Vec<Early>>,
    pub(super) pulse: Arc<Pulse>,
    /// Whether etcd is compacted.
    pub(super) compact: bool,
    /// When the record was written, on the clock of the machine.
    written: i64,
    next_look: i64,
    next_compaction: i64,
    /// The revision a compaction ago.
    forget_before: i64,
}

impl<K: Kv> Chain<K> {
    /// After the takeover that was written at `revision`.
    #[allow(clippy::too_many_arguments)] // One line each.
    pub(super) fn new(
        kv: K,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        machine: Arc<dyn Clock>,
        me: Replica,
        (term, seq, revision): (u64, u64, i64),
        compact: bool,
    ) -> Self {
        let now = machine.boot();
        let pulse = Arc::new(Pulse { seq: AtomicU64::new(seq), ..Pulse::at(now) });
        let (checkpoint, next_compaction) = (Checkpoint::default(), now.saturating_add(COMPACT_EVERY));
        let (next_look, forget_before) = (now, 0);
        Chain {
            kv,
            keys,
            clock,
            machine,
            me,
            term,
            seq,
            revision,
            checkpoint,
            early: Some(Vec::new()),
            pulse,
            compact,
            written: now,
            next_look,
            next_compaction,
            forget_before,
        }
    }

    /// Reads what earlier terms have left for a checkpoint. `next_row`: above the number of every row that was ever used.
    pub(super) fn left_behind(&self, next_row: u64) -> impl Future<Output = Result<Checkpoint, LoadError>> + use<K> {
        let (kv, keys, at) = (self.kv.clone(), self.keys.clone(), (self.revision, self.seq));
        async move { load::checkpoint(&kv, &keys, at, next_row).await }
    }

    /// From now on checkpoints are made.
    pub(super) fn begin_checkpoints(&mut self, left_behind: Checkpoint) -> Result<(), Ended> {
        self.checkpoint = left_behind;
        for Early { seq, clock, batch } in self.early.take().unwrap_or_default() {
            self.checkpoint.entry(seq, clock);
            if let Some(batch) = batch {
                self.checkpoint.add(seq, clock, &batch).map_err(|why| Ended(format!("commit: {why}")))?;
            }
        }
        Ok(())
    }

    /// Serves `requests` until the term ends, or all who could ask are gone: then any replica may take over at once. `next_row`: as
    /// [`Chain::left_behind`] takes it.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>, next_row: u64) -> Ended {
        let mut left_behind = pin!(self.left_behind(next_row));
        loop {
            let done = tokio::select! {
                biased;
                // However many ask: questions are no sign of life.
                () = self.rest() => Ok(()),
                left = &mut left_behind, if self.early.is_some() => match left {
                    Ok(left) => self.begin_checkpoints(left),
                    Err(LoadError::Compacted) => Err(Ended("etcd has forgotten what there was at the takeover".into())),
                    Err(LoadError::Damaged(error)) => Err(Ended(error.to_string())),
                },
                request = requests.recv() => match request {
                    Some(request) => self.serve(request).await,
                    None => return self.release().await,
                },
            };
            let silent = self.machine.boot().saturating_sub(self.written);
            let done = match done {
                Ok(()) if silent >= TICK_NANOS => self.tick().await,
                done => done,
            };
            let done = match done {
                Ok(()) => self.keep_house().await,
                ended => ended,
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// Waits until the next sign of life, or the next step of a checkpoint.
    async fn rest(&self) {
        let silent = self.machine.boot().saturating_sub(self.written).max(0);
        let left = Duration::from_nanos(TICK_NANOS.saturating_sub(silent).max(0).unsigned_abs());
        sleep(if self.checkpoint.is_writing() { left.min(STEP) } else { left }).await;
    }

    async fn serve(&mut self, request: Request) -> Result<(), Ended> {
        let (done, reply) = match request {
            Request::Commit(batch, reply) => (self.commit(&batch).await, reply),
            Request::Confirm(reply) => (self.confirm().await.map(|()| Written::Done), reply),
        };
        let (answer, done) = match done {
            Ok(Written::Done) => (Ok(()), Ok(())),
            Ok(Written::Refused(why)) => (Err(CommitError::Refused(why)), Ok(())),
            Err(ended) => (Err(CommitError::Deposed(ended.0.clone())), Err(ended)),
        };
        // Whoever has gone away does not care.
        let _ = reply.send(answer);
        done
    }

    pub(super) async fn commit(&mut self, batch: &[u8]) -> Result<Written, Ended> {
        if batch.is_empty() {
            return self.write(None, false).await;
        }
        let clock = self.clock.boot();
        let parts = batch.len().div_ceil(MAX_ENTRY);
        for (i, part) in batch.chunks(MAX_ENTRY).enumerate() {
            let entry = Entry { term: self.term, clock, more: i + 1 < parts, ops: part.to_vec() };
            match self.write(Some(entry), false).await? {
                Written::Done => {
                    let seq = self.seq;
                    match &mut self.early {
                        Some(early) => {
                            early.push(Early { seq, clock, batch: (i + 1 == parts).then(|| batch.to_vec()) })
                        }
                        None => self.checkpoint.entry(seq, clock),
                    }
                }
                Written::Refused(why) if i == 0 => return Ok(Written::Refused(why)),
                // A batch whose beginning is stored can no more be refused; the next leader leaves the beginning out.
                Written::Refused(why) => return Err(Ended(format!("etcd has taken a part of a batch only: {why}"))),
            }
        }
        if self.early.is_none() {
            self.checkpoint.add(self.seq, clock, batch).map_err(|why| Ended(format!("commit: {why}")))?;
        }
        Ok(Written::Done)
    }

    /// A sign of life.
    async fn tick(&mut self) -> Result<(), Ended> {
        match self.write(None, false).await? {
            Written::Done => Ok(()),
            Written::Refused(why) => {
                if !self.pulse.full.swap(true, Relaxed) {
                    tracing::warn!(why, "etcd takes no writes");
                }
                self.written = self.machine.boot();
                // A takeover is a write too.
                self.confirm().await
            }
        }
    }

    /// Ends the term so that others need not wait.
    async fn release(mut self) -> Ended {
        match self.write(None, true).await {
            Ok(_) => Ended("this replica gave up the leadership".into()),
            Err(ended) => ended,
        }
    }

    /// Writes the record, with an entry if there is one.
    async fn write(&mut self, entry: Option<Entry>, free: bool) -> Result<Written, Ended> {
        let seq = self.seq + u64::from(entry.is_some());
        let mut success: Vec<_> =
            entry.map(|entry| RequestOp::put(self.keys.log(seq), entry.encode_to_vec())).into_iter().collect();
        success.push(RequestOp::put(self.keys.leader(), self.record(seq, free).encode_to_vec()));
        let txn = self.fenced(success);
        let mut is_in_doubt = false;
        let mut began;
        loop {
            began = self.machine.boot();
            match self.kv.txn(txn.clone()).await {
                Ok(response) if response.succeeded => {
                    self.revision = response.revision();
                    break;
                }
                Ok(response) => {
                    let found = response.read(0).pop();
                    match found.filter(|found| is_in_doubt && self.is_mine(found)) {
                        // An earlier attempt: nothing else was in doubt.
                        Some(found) => self.revision = found.mod_revision,
                        None => return Err(self.deposed()),
                    }
                    break;
                }
                Err(KvError::Refused(why)) if !is_in_doubt => return Ok(Written::Refused(why)),
                // An earlier attempt may still be done, which the record shows. Meanwhile the term goes on: a takeover is a write too.
                Err(KvError::Refused(_)) => match self.read_record().await? {
                    (at, Some(found)) if found.mod_revision == self.revision => {
                        self.pulse.last.store(at, SeqCst);
                        sleep(AGAIN_AFTER).await;
                    }
                    (_, Some(found)) if self.is_mine(&found) => {
                        self.revision = found.mod_revision;
                        break;
                    }
                    _ => return Err(self.deposed()),
                },
                Err(error) => {
                    is_in_doubt = true;
                    self.wait(&error).await?;
                }
            }
        }
        self.seq = seq;
        self.pulse.seq.store(seq, SeqCst);
        self.written = began;
        self.pulse.last.store(began, SeqCst);
        Ok(Written::Done)
    }

    /// Makes sure that the record is still ours.
    async fn confirm(&mut self) -> Result<(), Ended> {
        let (at, found) = self.read_record().await?;
        if found.is_none_or(|found| found.mod_revision != self.revision) {
            return Err(self.deposed());
        }
        self.pulse.last.store(at, SeqCst);
        Ok(())
    }

    /// The record of the leader, and when the machine began to read it.
    async fn read_record(&self) -> Result<(i64, Option<KeyValue>), Ended> {
        loop {
            let began = self.machine.boot();
            match self.kv.range(RangeRequest { key: self.keys.leader(), ..RangeRequest::default() }).await {
                Ok(mut read) => return Ok((began, read.kvs.pop())),
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    /// Makes a transaction that changes rows, and not the record.
    async fn write_rows(&mut self, rows: Vec<RequestOp>) -> Result<(), Ended> {
        let txn = self.fenced(rows);
        loop {
            match self.kv.txn(txn.clone()).await {
                Ok(response) if response.succeeded => return Ok(()),
                Ok(_) => return Err(self.deposed()),
                // A full etcd takes rows again later; until then nothing else does it good.
                Err(error @ KvError::Refused(_)) => {
                    self.pulse.full.store(true, Relaxed);
                    self.confirm().await?;
                    tracing::debug!(%error, "a checkpoint waits for etcd");
                    sleep(TICK).await;
                }
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    /// What is due besides calls: a step of a checkpoint, a look at the room, a compaction.
    pub(super) async fn keep_house(&mut self) -> Result<(), Ended> {
        if self.early.is_none()
            && let Some(rows) = self.checkpoint.next(&self.keys, self.seq, self.clock.boot())
        {
            self.write_rows(rows).await?;
        }
        self.pulse.log_bytes.store(self.checkpoint.bytes(), Relaxed);
        let now = self.machine.boot();
        if now >= self.next_look {
            self.next_look = now.saturating_add(LOOK_EVERY);
            if let Ok(room) = self.kv.room().await
                && self.pulse.full.swap(room.is_full(), Relaxed) != room.is_full()
            {
                tracing::warn!(
                    used = room.used,
                    quota = room.quota,
                    "etcd is {}",
                    if room.is_full() { "full" } else { "no longer full" }
                );
            }
        }
        if self.compact && now >= self.next_compaction {
            self.next_compaction = now.saturating_add(COMPACT_EVERY);
            let before = std::mem::replace(&mut self.forget_before, self.revision);
            if before > 0
                && let Err(error) = self.kv.compact(before).await
            {
                tracing::debug!(%error, "compact etcd");
            }
        }
        Ok(())
    }

    /// Waits until the next attempt.
    async fn wait(&self, error: &KvError) -> Result<(), Ended> {
        if !self.pulse.is_fresh(self.machine.boot()) {
            return Err(Ended(format!("etcd was not reached for {} s: {error}", CUT_OFF / 1_000_000_000)));
        }
        self.pulse.in_doubt.fetch_add(1, Relaxed);
        tracing::debug!(%error, "etcd is asked again");
        sleep(AGAIN_AFTER).await;
        Ok(())
    }

    fn fenced(&self, success: Vec<RequestOp>) -> TxnRequest {
        let compare = vec![Compare::mod_revision(self.keys.leader(), self.revision)];
        TxnRequest { compare, success, failure: vec![RequestOp::get(self.keys.leader())] }
    }

    fn is_mine(&self, found: &KeyValue) -> bool {
        let record = LeaderRecord::decode(&found.value[..]);
        record.is_ok_and(|record| (record.term, record.replica) == (self.term, self.me.id))
    }

    fn deposed(&self) -> Ended {
        Ended(format!("another replica has taken over from term {}", self.term))
    }

    fn record(&self, seq: u64, free: bool) -> LeaderRecord {
        record(&self.me, self.term, seq, free, &*self.clock, &*self.machine)
    }
}

/// The record of `me` as it leads.
pub(super) fn record(
    me: &Replica,
    term: u64,
    seq: u64,
    free: bool,
    clock: &dyn Clock,
    machine: &dyn Clock,
) -> LeaderRecord {
    let now = clock.now();
    LeaderRecord {
        term,
        seq,
        replica: me.id,
        address: me.address.clone(),
        format: FORMAT,
        clock: now.boot,
        wall: now.wall,
        free,
        machine: machine.boot_id(),
        machine_clock: machine.boot(),
    }
}
