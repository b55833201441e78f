//! Waits for the leadership.
//!
//! - M1: clocks decide only when to try. Who leads is decided by etcd: a challenge replaces the record only if it is still the one
//!   that was read, so a leader that has written meanwhile stays.
//! - M2: an outage of etcd deposes nobody: the silence of a leader counts only while reads succeed.
use super::chain::{Chain, Replica, record};
use super::cluster_clock::{ClusterClock, LeaderClock, offset};
use super::kv::{Kv, KvError};
use super::record::{FORMAT, FleetRecord, Keys, LeaderRecord};
use super::wire::{Compare, RangeRequest, RequestOp, TxnRequest};
use crate::clock::Clock;
use crate::coordinator::store::OpenError;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often the leader record is read.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A leader whose record has not changed for this long (nanoseconds) is challenged. It writes five times as often.
const SILENCE: i64 = 1_000_000_000;
/// Reads must have succeeded for this long before.
const READS_SUCCEED: i64 = 400_000_000;

/// Who leads, as far as a follower knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leader {
    pub(crate) term: u64,
    pub(crate) replica: u64,
    pub(crate) address: String,
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
}

/// The record that was read last.
struct Seen {
    revision: i64,
    record: Option<LeaderRecord>,
    /// Since when, on the clock of the machine.
    since: i64,
}

impl<K: Kv> Follower<K> {
    /// Waits until this replica leads; `leader` is told who does until then. Returns the writer of the term, and its clock.
    ///
    /// # Errors
    /// The fleet is not the one that this replica has joined, or its format is newer.
    pub(super) async fn until_leading(
        &self,
        leader: &watch::Sender<Option<Leader>>,
    ) -> Result<(Chain<K>, Arc<dyn Clock>), OpenError> {
        let mut seen: Option<Seen> = None;
        let mut reading_since = None;
        loop {
            match self.kv.range(RangeRequest { key: self.keys.leader(), ..RangeRequest::default() }).await {
                Ok(mut read) => {
                    let now = self.machine.boot();
                    let found = read.kvs.pop();
                    let revision = found.as_ref().map_or(0, |found| found.mod_revision);
                    if seen.as_ref().is_none_or(|seen| seen.revision != revision) {
                        let record = found.map(|found| self.readable(&found.value)).transpose()?;
                        leader.send_if_modified(|known| replace(known, record.as_ref().and_then(in_charge)));
                        seen = Some(Seen { revision, record, since: now });
                    }
                    let reading_since = *reading_since.get_or_insert(now);
                    if let Some(seen) = &seen
                        && self.may_challenge(seen, reading_since, now)
                        && let Some(won) = self.challenge(seen).await?
                    {
                        return Ok(won);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "read the leader record");
                    reading_since = None;
                    leader.send_if_modified(|known| replace(known, None));
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn may_challenge(&self, seen: &Seen, reading_since: i64, now: i64) -> bool {
        match &seen.record {
            None => true,
            Some(record) if record.free => true,
            Some(_) => now.saturating_sub(seen.since) >= SILENCE && now.saturating_sub(reading_since) >= READS_SUCCEED,
        }
    }

    /// Tries to replace the record that was seen.
    async fn challenge(&self, seen: &Seen) -> Result<Option<(Chain<K>, Arc<dyn Clock>)>, OpenError> {
        let (last, machine) = (seen.record.as_ref(), &self.machine);
        let (term, seq) = last.map_or((1, 0), |last| (last.term + 1, last.seq));
        let looked = last.and_then(|last| self.leader_clock.offset(last.term));
        let offset = offset(last, machine.now(), machine.boot_id(), looked);
        let clock: Arc<dyn Clock> =
            Arc::new(ClusterClock { machine: machine.clone(), offset, fleet_id: self.fleet.id });
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
                let fleet = response.clone().read(1).pop();
                if fleet.is_none_or(|fleet| fleet.value != self.fleet.encode_to_vec()) {
                    return Err(OpenError::Corrupt(format!(
                        "etcd under {}: the fleet that this replica had joined is gone, or another one is in its place. Start \
                         again to join that",
                        keys.prefix()
                    )));
                }
                return Ok(None);
            }
            // Should it have been done, the record that is seen next is of this term, and as silent as any.
            Err(KvError::Unknown(why) | KvError::Refused(why)) => {
                tracing::warn!(why, "take over the leadership");
                return Ok(None);
            }
        };
        tracing::info!(term, after = last.map(|last| &*last.address), "this replica leads the fleet");
        let (kv, me) = (self.kv.clone(), self.me.clone());
        let at = (term, seq, revision);
        Ok(Some((Chain::new(kv, keys.clone(), clock.clone(), machine.clone(), me, at, self.compact), clock)))
    }

    fn readable(&self, value: &[u8]) -> Result<LeaderRecord, OpenError> {
        let prefix = self.keys.prefix();
        let record = LeaderRecord::decode(value);
        let record =
            record.map_err(|_| OpenError::Corrupt(format!("etcd under {prefix}: the leader record makes no sense")))?;
        check_format(record.format, prefix)?;
        Ok(record)
    }
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

/// # Errors
/// Only a later version can read it.
pub(super) fn check_format(format: u32, prefix: &str) -> Result<(), OpenError> {
    match format {
        ..=FORMAT => Ok(()),
        later => Err(OpenError::Newer(format!(
            "etcd under {prefix}: written by a later pausewatch (format {later}, this one reads up to {FORMAT}). Run that version, or \
             give another --etcd-prefix"
        ))),
    }
}
