//! A copy of a fleet at one moment, while its replicas run or while none does.
//!
//! - A1: everything is read at one revision of etcd, which includes every change that was acknowledged before. The copy
//!   is the state after one of the leader's commits.
//! - A2: log entries are applied to the rows as a starting replica does it (`load.rs`). A batch without its last part
//!   was never committed, and is not in the copy.
//! - A3: the result is checked as a starting replica checks it, before anything is written.
use super::client::Endpoints;
use super::join::{readable, unfinished};
use super::kv::Kv;
use super::load::{self, LoadError, Loaded};
use super::patient;
use super::record::Keys;
use super::wire::RangeRequest;
use crate::clock::Clock;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::embedded::{BackupWriter, Summary};
use std::io;
use std::sync::Arc;

/// The maximum number of attempts, because a compaction can interrupt a read. A leader compacts once a minute what is a
/// minute old, so only a read that takes longer is interrupted.
const ATTEMPTS: u32 = 3;

/// A fleet at one revision of etcd.
#[derive(Debug)]
pub(crate) struct FleetSnapshot(Loaded);

impl FleetSnapshot {
    /// Reads the fleet under `prefix`.
    ///
    /// # Errors
    /// etcd does not answer, there is no fleet, or its data is damaged, of a later version, or forgotten while it is read.
    pub(crate) async fn take(endpoints: &Endpoints, prefix: &str, machine: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let kv = patient::connect(endpoints, false, machine).await?;
        Self::of(&kv, &Keys::under(prefix)).await
    }

    pub(super) async fn of<K: Kv>(kv: &K, keys: &Keys) -> Result<Self, OpenError> {
        for _ in 0..ATTEMPTS {
            match Self::try_to_take(kv, keys).await {
                Err(LoadError::Compacted) => {}
                Err(LoadError::Damaged(error)) => return Err(error),
                Ok(snapshot) => return Ok(snapshot),
            }
        }
        Err(OpenError::Io(format!(
            "etcd under {}: it was compacted while it was read, {ATTEMPTS} times. Run this again; if that does not help, compact etcd \
             less often",
            keys.prefix()
        )))
    }

    async fn try_to_take<K: Kv>(kv: &K, keys: &Keys) -> Result<Self, LoadError> {
        let read = async |key, revision| {
            let found = load::pages(kv, RangeRequest { key, revision, ..RangeRequest::default() }, |_| Ok(())).await;
            found.map(|mut page| page.kvs.pop())
        };
        let no_fleet = || {
            let what = "there is no fleet. Give the --etcd-prefix and --etcd-endpoints of its replicas";
            LoadError::from(OpenError::Io(format!("etcd under {}: {what}", keys.prefix())))
        };
        // Checked before the log is read: the log of an unfinished restore is incomplete.
        const LATEST: i64 = 0;
        if read(keys.fleet(), LATEST).await?.is_none() {
            let is_unfinished = read(keys.restoring(), LATEST).await?.is_some();
            return Err(if is_unfinished { unfinished(keys).into() } else { no_fleet() });
        }
        let loaded = load::load(kv, keys).await?;
        let fleet = read(keys.fleet(), loaded.revision).await?.ok_or_else(no_fleet)?;
        let fleet = readable(&fleet, keys)?;
        loaded.contents(fleet.id, keys)?;
        Ok(FleetSnapshot(loaded))
    }

    /// Writes the snapshot as a backup with the time `taken` (nanoseconds of the wall clock).
    ///
    /// # Errors
    /// `out` cannot be written. The written part must not be used.
    pub(crate) fn write(&self, taken: i64, out: &mut dyn io::Write) -> io::Result<Summary> {
        let mut writer = BackupWriter::begin(taken, out)?;
        for ((table, key), value) in &self.0.rows {
            writer.put(*table, key, value)?;
        }
        writer.end()
    }
}
