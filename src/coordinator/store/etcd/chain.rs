//! The writer of a leader: one transaction after the other, each of which compares and replaces the leader record.
//!
//! - F1: every write of a term compares the revision of the previous write. So once another replica has replaced the
//!   record, no write of this one has an effect, whenever it arrives.
//! - F2: a write with an unknown outcome is sent again until the outcome is known; the comparison makes it idempotent.
//!   No other write is sent meanwhile.
//! - F3: a leader that has not reached etcd for [`CUT_OFF`] ends its term. Its last write may still take effect; its
//!   callers learn that the outcome is unknown.
use super::checkpoint::Checkpoint;
use super::checkpoints::Checkpoints;
use super::housekeeping::Housekeeping;
use super::kv::{Kv, KvError};
use super::load::{self, LoadError};
use super::pulse::{CUT_OFF, Pulse};
use super::record::{Entry, FORMAT, Keys, LeaderRecord};
use super::wire::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest};
use crate::clock::Clock;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;
use tokio::time::sleep;

/// How often an idle leader writes its record.
pub(super) const TICK: Duration = Duration::from_millis(200);
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The time after which refused rows are sent again, in nanoseconds.
const ROWS_AGAIN_AFTER: i64 = 1_000_000_000;
/// The maximum size of one entry in bytes; etcd refuses requests of 1.5 MiB.
pub(super) const MAX_ENTRY: usize = 512 << 10;

/// This process, as the leader record names it.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) address: String,
}

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
    pub(super) checkpoints: Checkpoints,
    /// Rows of a checkpoint that etcd has refused, and when they are tried again, on the clock of the machine.
    refused: Option<(Vec<RequestOp>, i64)>,
    pub(super) housekeeping: Housekeeping,
    pub(super) pulse: Arc<Pulse>,
    /// When the record was last written, or etcd refused to write it, on the clock of the machine.
    pub(super) written: i64,
}

impl<K: Kv> Chain<K> {
    /// The chain after a takeover at `revision`, whose attempt began at `began` on the clock of the machine.
    #[allow(clippy::too_many_arguments)] // One line each.
    pub(super) fn new(
        kv: K,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        machine: Arc<dyn Clock>,
        me: Replica,
        (term, seq, revision, began): (u64, u64, i64, i64),
        compact: bool,
    ) -> Self {
        let pulse = Arc::new(Pulse { seq: AtomicU64::new(seq), ..Pulse::at(began) });
        let (checkpoints, housekeeping) = (Checkpoints::default(), Housekeeping::new(machine.boot(), compact));
        Chain {
            kv,
            keys,
            clock,
            machine,
            me,
            term,
            seq,
            revision,
            checkpoints,
            refused: None,
            housekeeping,
            pulse,
            written: began,
        }
    }

    /// Reads the log entries that earlier terms have not moved into rows, for a checkpoint. `next_row`: above the
    /// number of every row that was ever used.
    pub(super) fn left_behind(&self, next_row: u64) -> impl Future<Output = Result<Checkpoint, LoadError>> + use<K> {
        let (kv, keys, at) = (self.kv.clone(), self.keys.clone(), (self.revision, self.seq));
        async move { load::checkpoint(&kv, &keys, at, next_row).await }
    }

    /// From now on checkpoints are made.
    pub(super) fn begin_checkpoints(&mut self, left_behind: Checkpoint) -> Result<(), Ended> {
        self.checkpoints.begin(left_behind).map_err(|why| Ended(format!("commit: {why}")))
    }

    /// Makes a batch durable, in one entry or several. An empty batch checks whether a batch would be accepted.
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
                    let whole = (i + 1 == parts).then_some(batch);
                    let noted = self.checkpoints.entry(self.seq, clock, whole);
                    noted.map_err(|why| Ended(format!("commit: {why}")))?;
                }
                Written::Refused(why) if i == 0 => return Ok(Written::Refused(why)),
                // A batch whose beginning is stored can no longer be refused; the next leader ignores the beginning.
                Written::Refused(why) => {
                    return Err(Ended(format!("etcd accepted the first part of a batch only: {why}")));
                }
            }
        }
        Ok(Written::Done)
    }

    /// Writes the record, with an entry if there is one.
    pub(super) async fn write(&mut self, entry: Option<Entry>, free: bool) -> Result<Written, Ended> {
        let seq = self.seq + u64::from(entry.is_some());
        let mut success: Vec<_> =
            entry.map(|entry| RequestOp::put(self.keys.log(seq), entry.encode_to_vec())).into_iter().collect();
        success.push(RequestOp::put(self.keys.leader(), self.record(seq, free).encode_to_vec()));
        let txn = self.fenced(success);
        let mut is_in_doubt = false;
        let first = self.machine.boot();
        let mut began = first;
        // When the successful attempt began. If several attempts may have succeeded, the first one.
        let written = loop {
            match self.kv.txn(txn.clone()).await {
                Ok(response) if response.succeeded => {
                    self.revision = response.revision();
                    break began;
                }
                Ok(response) => {
                    let found = response.read(0).pop();
                    match found.filter(|found| is_in_doubt && self.is_mine(found)) {
                        // An earlier attempt succeeded: nothing else was in doubt.
                        Some(found) => self.revision = found.mod_revision,
                        None => return Err(self.deposed()),
                    }
                    break first;
                }
                Err(KvError::Refused(why)) if !is_in_doubt => return Ok(Written::Refused(why)),
                // An earlier attempt may still take effect; the record shows whether it has. Meanwhile the term
                // continues, because a takeover is a write too.
                Err(KvError::Refused(_)) => match self.read_record().await? {
                    (at, Some(found)) if found.mod_revision == self.revision => {
                        self.pulse.read_at(at);
                        sleep(AGAIN_AFTER).await;
                    }
                    (_, Some(found)) if self.is_mine(&found) => {
                        self.revision = found.mod_revision;
                        break first;
                    }
                    _ => return Err(self.deposed()),
                },
                Err(error) => {
                    is_in_doubt = true;
                    self.wait(&error).await?;
                }
            }
            began = self.machine.boot();
        };
        self.seq = seq;
        self.pulse.seq.store(seq, SeqCst);
        self.written = written;
        if !free {
            self.pulse.written.store(written, SeqCst);
        }
        self.pulse.last.store(began, SeqCst);
        Ok(Written::Done)
    }

    /// Checks that the record is still ours.
    pub(super) async fn confirm(&mut self) -> Result<(), Ended> {
        let (at, found) = self.read_record().await?;
        if found.is_none_or(|found| found.mod_revision != self.revision) {
            return Err(self.deposed());
        }
        self.pulse.read_at(at);
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

    /// Makes the next transaction of a checkpoint, if one is due: it changes rows, and not the record. If etcd refuses
    /// it, for example because it is full, it is kept for later, and the term continues.
    pub(super) async fn write_rows(&mut self) -> Result<(), Ended> {
        let now = self.machine.boot();
        let (next, was_refused) = match self.refused.take_if(|(_, again)| *again <= now) {
            Some((rows, _)) => (Some(rows), true),
            None if self.is_refused() => (None, true),
            None => (self.checkpoints.next(&self.keys, self.seq, self.clock.boot()), false),
        };
        let Some(rows) = next else { return Ok(()) };
        let txn = self.fenced(rows.clone());
        loop {
            match self.kv.txn(txn.clone()).await {
                Ok(response) if response.succeeded => return Ok(()),
                Ok(_) => return Err(self.deposed()),
                Err(KvError::Refused(why)) => {
                    if !was_refused {
                        tracing::warn!(
                            why,
                            "etcd refuses a checkpoint: retrying each second. Until etcd accepts it, the log grows"
                        );
                    }
                    self.refused = Some((rows, now.saturating_add(ROWS_AGAIN_AFTER)));
                    return Ok(());
                }
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    /// Whether etcd has refused rows, which are sent again later.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Waits until the next attempt.
    async fn wait(&self, error: &KvError) -> Result<(), Ended> {
        if !self.pulse.is_fresh(self.machine.boot()) {
            return Err(Ended(format!("etcd was not reached for {} s: {error}", CUT_OFF / 1_000_000_000)));
        }
        self.pulse.in_doubt.fetch_add(1, Relaxed);
        tracing::debug!(%error, "retrying a call of etcd");
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

/// The leader record of `me`.
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
