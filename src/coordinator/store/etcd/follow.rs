//! Follows the leader, and waits for the leadership.
//!
//! The entries that the leader commits are applied to our own records and shown to our own watchers (`standby.rs`,
//! `progress.rs`). So a takeover reads nothing: it only needs the last entry to be applied.
//!
//! - M1: clocks only decide when to try. etcd decides who leads: a challenge replaces the record only if it is still
//!   the one that was read, so a leader that has written meanwhile stays.
//! - M2: an outage of etcd deposes nobody: the silence of a leader counts only while reads succeed.
//! - M3: a fleet that was deleted, or replaced by another one, is no longer followed. The leader record alone may never
//!   show that the fleet is gone, so the record of the fleet is read too.
use super::chain::{Chain, Replica, TICK, record};
use super::client::ATTEMPT;
use super::cluster_clock::{ClusterClock, LeaderClock, offset};
use super::kv::{Kv, KvError};
use super::load;
use super::progress::Progress;
use super::record::{Entry, FleetRecord, Keys, LeaderRecord, check_format};
use super::standby::Standby;
use super::tail::{LogEvent, LogFollower};
use super::wire::{Compare, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest};
use crate::clock::Clock;
use crate::coordinator::store::OpenError;
use crate::core::Timestamp;
use prost::Message;
use std::mem::{Discriminant, discriminant};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The longest time between two reads of the leader record.
const READ_EVERY: Duration = Duration::from_millis(100);
/// How often a follower checks whether the fleet still exists.
const LOOK_FOR_FLEET_EVERY: Duration = Duration::from_secs(1);
/// If an entry that is known to be written does not arrive within this time (nanoseconds), the log is followed anew, at
/// another member.
const STALLED: i64 = 700_000_000;
/// A leader whose record has not changed for this long (nanoseconds) is challenged. It writes five times as often.
const SILENCE: i64 = 1_000_000_000;
/// For this long (nanoseconds) after a leader began to write its record, no other replica can have decided anything,
/// because a challenger must have seen the record unchanged for [`SILENCE`].
pub(crate) const SURE_FOR: i64 = SILENCE - 100_000_000;
/// If one member of etcd hangs, the leader is not challenged for that reason: there is also time for an attempt at the
/// next member.
const _: () = {
    let sure_for = Duration::from_nanos(SURE_FOR.unsigned_abs()).as_millis();
    assert!(TICK.as_millis() + ATTEMPT.as_millis() + 200 <= sure_for);
};
/// For this long (nanoseconds) before a challenge, reads must have succeeded.
const READS_SUCCEED: i64 = 400_000_000;

/// The leader, as far as a follower knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    /// Its term.
    pub term: u64,
    /// Names its process.
    pub replica: u64,
    /// Where it is reached.
    pub address: String,
}

/// A replica that does not lead.
pub(super) struct Follower<K: Kv> {
    pub(super) kv: K,
    pub(super) keys: Arc<Keys>,
    pub(super) machine: Arc<dyn Clock>,
    pub(super) me: Replica,
    pub(super) fleet: FleetRecord,
    pub(super) leader_clock: Arc<LeaderClock>,
    pub(super) compact: bool,
    /// Set if this replica must never challenge.
    pub(super) abstains: Arc<AtomicBool>,
}

/// The record that was read last.
struct Seen {
    revision: i64,
    record: Option<LeaderRecord>,
    /// Since when it was seen unchanged, on the clock of the machine.
    since: i64,
}

/// The result of winning the leadership.
pub(super) struct Won<K: Kv> {
    pub(super) chain: Chain<K>,
    pub(super) clock: Arc<ClusterClock>,
    /// The records as the last leader has left them.
    pub(super) standby: Standby,
}

impl<K: Kv> Follower<K> {
    /// Waits until this replica leads. Until then, `leader` shows which replica leads, and `progress` shows which
    /// entries are applied.
    ///
    /// # Errors
    /// The fleet is not the one that this replica has joined, its format is newer, or the stored data is damaged.
    pub(super) async fn until_leading(
        &self,
        leader: &watch::Sender<Option<Leader>>,
        progress: &Progress,
    ) -> Result<Won<K>, OpenError> {
        let mut seen: Option<Seen> = None;
        let mut standby: Option<Standby> = None;
        let mut reading_since = None;
        let mut refused = None;
        // An entry that is known to be written and has not arrived, and since when.
        let mut missing: Option<(u64, i64)> = None;
        let mut log = LogFollower::follow(self.kv.clone(), self.keys.clone(), self.fleet.id);
        let mut reading = Box::pin(self.read(progress));
        let mut gone = pin!(self.until_gone());
        loop {
            let now = || self.machine.boot();
            tokio::select! {
                // The read takes longer than the other events, so they are not starved.
                biased;
                error = &mut gone => return Err(error),
                read = &mut reading => {
                    reading = Box::pin(self.read(progress));
                    match read {
                        Ok(mut read) => {
                            let found = read.kvs.pop();
                            let revision = found.as_ref().map_or(0, |found| found.mod_revision);
                            if seen.as_ref().is_none_or(|seen| seen.revision != revision) {
                                let record = found.map(|found| self.readable(&found.value)).transpose()?;
                                leader.send_if_modified(|known| replace(known, record.as_ref().and_then(in_charge)));
                                seen = Some(Seen { revision, record, since: now() });
                            }
                            let record = seen.as_ref().and_then(|seen| seen.record.as_ref());
                            let last = record.map_or(0, |record| record.seq);
                            progress.reads.succeed(last);
                            reading_since.get_or_insert(now());
                            let applied = standby.as_ref().map_or(u64::MAX, |standby| standby.seq);
                            if missing.is_none_or(|(seq, _)| applied >= seq) {
                                missing = (applied < last).then(|| (last, now()));
                            } else if missing.take_if(|(_, since)| now().saturating_sub(*since) >= STALLED).is_some() {
                                log.stalled.notify_one();
                            }
                        }
                        Err(error) => {
                            tracing::debug!(%error, "read the leader record");
                            reading_since = None;
                        }
                    }
                }
                news = log.news.recv() => match news {
                    Some(LogEvent::Loaded(loaded)) => {
                        show(&loaded, self.machine.now(), progress);
                        standby = Some(*loaded);
                    }
                    Some(LogEvent::Entries(entries)) => {
                        if let Some(standby) = &mut standby {
                            self.apply(entries, standby, progress)?;
                        }
                    }
                    Some(LogEvent::Unusable(error)) => return Err(error),
                    None => return Err(OpenError::Io("the task that follows the log has ended".into())),
                },
            }
            if let (Some(seen), Some(reading_since)) = (&seen, reading_since)
                && self.may_challenge(seen, reading_since, now())
                && let Some(mut ready) = standby.take_if(|standby| standby.seq == seen.last())
            {
                ready.led_until = seen.record.as_ref().map(|record| record.clock);
                match self.challenge(seen, &mut refused).await? {
                    Some((chain, clock)) => {
                        progress.end();
                        return Ok(Won { chain, clock, standby: ready });
                    }
                    None => standby = Some(ready),
                }
            }
        }
    }

    /// Reads the leader record, as a round that callers may wait for.
    async fn read(&self, progress: &Progress) -> Result<RangeResponse, KvError> {
        progress.reads.begin(READ_EVERY, || self.machine.boot()).await;
        self.kv.range(RangeRequest { key: self.keys.leader(), ..RangeRequest::default() }).await
    }

    /// Waits until the fleet that this replica has joined is no longer there.
    async fn until_gone(&self) -> OpenError {
        loop {
            sleep(LOOK_FOR_FLEET_EVERY).await;
            match self.kv.range(RangeRequest { key: self.keys.fleet(), ..RangeRequest::default() }).await {
                Ok(read) if !self.is_mine(&read.kvs) => return self.gone(),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "read the record of the fleet"),
            }
        }
    }

    fn is_mine(&self, fleet: &[KeyValue]) -> bool {
        fleet.first().is_some_and(|fleet| fleet.value == self.fleet.encode_to_vec())
    }

    fn gone(&self) -> OpenError {
        OpenError::Corrupt(format!(
            "etcd under {}: the fleet that this replica had joined is gone, or another one is in its place. Restart this replica to join the new one",
            self.keys.prefix()
        ))
    }

    /// Applies and shows entries; those that were part of the load are skipped.
    fn apply(&self, entries: Vec<(u64, Entry)>, standby: &mut Standby, progress: &Progress) -> Result<(), OpenError> {
        for (seq, entry) in entries {
            let damaged = |why: &str| load::damaged(&self.keys, &format!("log entry {seq}: {why}"));
            if seq <= standby.seq {
                continue;
            }
            if seq != standby.seq + 1 {
                return Err(damaged(&format!("it follows entry {}", standby.seq)));
            }
            // The parts of a batch are shown together, with the last one.
            let clock = if entry.more { i64::MIN } else { entry.clock };
            let committed = standby.apply(entry).map_err(damaged)?;
            progress.hub().publish(committed);
            progress.applied(seq, clock);
        }
        Ok(())
    }

    fn may_challenge(&self, seen: &Seen, reading_since: i64, now: i64) -> bool {
        match &seen.record {
            _ if self.abstains.load(SeqCst) => false,
            None => true,
            Some(record) if record.free => true,
            Some(_) => now.saturating_sub(seen.since) >= SILENCE && now.saturating_sub(reading_since) >= READS_SUCCEED,
        }
    }

    /// Tries to replace the record `seen`. `refused`: how the last attempt failed, which is logged once, because there
    /// are ten attempts per second while etcd is full.
    async fn challenge(
        &self,
        seen: &Seen,
        refused: &mut Option<Discriminant<KvError>>,
    ) -> Result<Option<(Chain<K>, Arc<ClusterClock>)>, OpenError> {
        let (last, machine) = (seen.record.as_ref(), &self.machine);
        let (term, seq) = last.map_or((1, 0), |last| (last.term + 1, last.seq));
        let now = machine.now();
        let offset = offset(last, seen.since, now, machine.boot_id(), &self.leader_clock);
        let clock = Arc::new(ClusterClock { machine: machine.clone(), offset, fleet_id: self.fleet.id });
        let mine = record(&self.me, term, seq, false, &*clock, &**machine).encode_to_vec();
        let keys = &self.keys;
        let txn = TxnRequest {
            compare: vec![
                Compare::mod_revision(keys.leader(), seen.revision),
                Compare::value(keys.fleet(), self.fleet.encode_to_vec()),
            ],
            success: vec![RequestOp::put(keys.leader(), mine.clone())],
            failure: vec![RequestOp::get(keys.leader()), RequestOp::get(keys.fleet())],
        };
        let revision = match self.kv.txn(txn).await {
            Ok(response) if response.succeeded => response.revision(),
            Ok(response) => {
                *refused = None;
                return if self.is_mine(&response.read(1)) { Ok(None) } else { Err(self.gone()) };
            }
            // If it did succeed, the next record that is read is of this term, and is challenged like any silent one.
            Err(error) => {
                let how = Some(discriminant(&error));
                if std::mem::replace(refused, how) != how {
                    tracing::warn!(%error, "cannot take over the leadership: retrying");
                }
                return Ok(None);
            }
        };
        // This sample is used if this replica leads again, and the leader in between has never answered it.
        self.leader_clock.sample(term, now.boot, clock.at(now.boot), now.boot);
        tracing::info!(term, after = last.map(|last| &*last.address), "this replica leads the fleet");
        let (kv, me) = (self.kv.clone(), self.me.clone());
        let at = (term, seq, revision, now.boot);
        Ok(Some((Chain::new(kv, keys.clone(), clock.clone(), machine.clone(), me, at, self.compact), clock)))
    }

    fn readable(&self, value: &[u8]) -> Result<LeaderRecord, OpenError> {
        let prefix = self.keys.prefix();
        let record = LeaderRecord::decode(value);
        let record =
            record.map_err(|_| OpenError::Corrupt(format!("etcd under {prefix}: the leader record is invalid")))?;
        check_format(record.format, prefix)?;
        Ok(record)
    }
}

impl Seen {
    /// The last entry.
    fn last(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.seq)
    }
}

/// Publishes the loaded records; watches continue.
fn show(loaded: &Standby, now: Timestamp, progress: &Progress) {
    progress.hub().load(loaded.records(), loaded.floor, loaded.epoch(), now);
    progress.applied(loaded.seq, i64::MIN);
}

fn in_charge(record: &LeaderRecord) -> Option<Leader> {
    let LeaderRecord { term, replica, address, free, .. } = record.clone();
    (!free).then_some(Leader { term, replica, address })
}

fn replace(known: &mut Option<Leader>, by: Option<Leader>) -> bool {
    let is_new = *known != by;
    *known = by;
    is_new
}
