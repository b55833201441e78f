//! Creates a fleet from a backup, under a prefix that has none.
//!
//! - R1: the backup is read to its end and checked before anything is written.
//! - R2: the key `restoring` is written first. The last transaction replaces it by the key `fleet`. While `restoring`
//!   exists and `fleet` does not, no replica starts, and none can create a fleet (J1).
//! - R3: every write compares `restoring`, whose value is unique to this restore. So a restore that was replaced by
//!   another one writes nothing more, and no write of a restore takes effect after its end, whenever it arrives.
//! - R4: the next restore removes what an unfinished one has left.
use super::chain::{MAX_ENTRY, Replica, record};
use super::client::Endpoints;
use super::cluster_clock::ClusterClock;
use super::image::Image;
use super::join::{Found, find, foreign, if_neither, nested, new_fleet};
use super::kv::{Kv, KvError};
use super::patient;
use super::record::{FleetRecord, Keys};
use super::wire::{Compare, RequestOp, TxnRequest};
use crate::clock::Clock;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::embedded::Summary;
use prost::Message;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestoredFleet {
    /// The content of the backup.
    pub(crate) summary: Summary,
    /// The revision that every thread has now.
    pub(crate) revision: u64,
    /// Whether the keys of an unfinished restore were removed.
    pub(crate) removed: bool,
}

/// Creates a fleet from `backup` under `prefix`. `machine`: the clock with which it begins.
///
/// # Errors
/// The backup is incomplete (nothing was changed), there is a fleet, or keys of others; etcd does not answer, or has no
/// space.
pub(crate) async fn restore(
    backup: &mut dyn Read,
    endpoints: &Endpoints,
    prefix: &str,
    machine: Arc<dyn Clock>,
) -> Result<RestoredFleet, OpenError> {
    let fleet = new_fleet()?;
    let image = Image::read(backup, (machine.boot_id(), machine.now()), fleet.id, MAX_ENTRY)?;
    let kv = patient::connect(endpoints, true, machine.clone()).await?;
    write_image(&kv, &Keys::under(prefix), machine, fleet, image).await
}

/// Writes an image that was made for this `fleet`.
pub(super) async fn write_image<K: Kv>(
    kv: &K,
    keys: &Keys,
    machine: Arc<dyn Clock>,
    fleet: FleetRecord,
    image: Image,
) -> Result<RestoredFleet, OpenError> {
    // The token is unique, because no other process knows the key of the new fleet.
    let restore = Restore { kv, keys, token: fleet.encode_to_vec() };
    let removed = restore.begin().await?;
    let Image { summary, revision, entries } = image;
    let last = entries.len() as u64;
    for (seq, entry) in (1..).zip(entries) {
        let write = RequestOp::put(keys.log(seq), entry.encode_to_vec());
        if let Err(error) = restore.write(vec![write], Step::Write).await {
            restore.clean_up().await;
            return Err(error);
        }
    }
    // The record of a leader that has resigned: the first replica takes over at once, and its clock continues from
    // here.
    let nobody = Replica { id: 0, address: String::new() };
    let clock = ClusterClock { machine: machine.clone(), offset: 0, fleet_id: fleet.id };
    let leader = record(&nobody, 0, last, true, &clock, &*machine);
    let end = vec![
        RequestOp::put(keys.leader(), leader.encode_to_vec()),
        RequestOp::put(keys.fleet(), restore.token.clone()),
        RequestOp::delete(keys.restoring(), Vec::new()),
    ];
    if let Err(error) = restore.write(end, Step::Finish).await {
        restore.clean_up().await;
        return Err(error);
    }
    Ok(RestoredFleet { summary, revision, removed })
}

#[derive(Clone, Copy)]
enum Step {
    Begin,
    Write,
    Finish,
}

/// A restore under way.
struct Restore<'a, K> {
    kv: &'a K,
    keys: &'a Keys,
    /// The value of `restoring`, and finally of `fleet`.
    token: Vec<u8>,
}

impl<K: Kv> Restore<'_, K> {
    /// Writes `restoring`. Returns whether the keys of another restore were removed.
    async fn begin(&self) -> Result<bool, OpenError> {
        let Restore { kv, keys, token } = self;
        let mut removed = false;
        loop {
            let mark = RequestOp::put(keys.restoring(), token.clone());
            let txn = match find(*kv, keys).await {
                Ok(Found::Fleet(_)) => return Err(self.occupied()),
                Ok(Found::Foreign) => return Err(foreign(keys)),
                Ok(Found::Within(around)) => return Err(nested(keys, &around)),
                // An attempt with an unknown outcome has succeeded.
                Ok(Found::Restoring(mine)) if mine.value == *token => return Ok(removed),
                Ok(Found::Restoring(other)) => {
                    removed = true;
                    let compare = vec![Compare::mod_revision(keys.restoring(), other.mod_revision)];
                    TxnRequest { compare, success: [self.removal(), vec![mark]].concat(), failure: Vec::new() }
                }
                Ok(Found::Nothing) => if_neither(keys, vec![mark]),
                Err(error) => {
                    self.wait(error, Step::Begin).await?;
                    continue;
                }
            };
            match kv.txn(txn).await {
                // Otherwise the prefix is no longer empty.
                Ok(response) if response.succeeded => return Ok(removed),
                Ok(_) => {}
                Err(error) => self.wait(error, Step::Begin).await?,
            }
        }
    }

    /// Makes a transaction, if `restoring` still has our token. The last transaction writes `fleet` and deletes
    /// `restoring`.
    async fn write(&self, success: Vec<RequestOp>, step: Step) -> Result<(), OpenError> {
        let keys = self.keys;
        let compare = vec![Compare::value(keys.restoring(), self.token.clone())];
        let txn = TxnRequest { compare, success, failure: vec![RequestOp::get(keys.fleet())] };
        loop {
            match self.kv.txn(txn.clone()).await {
                Ok(response) if response.succeeded => return Ok(()),
                // An earlier attempt has succeeded.
                Ok(response) if response.clone().read(0).iter().any(|fleet| fleet.value == self.token) => return Ok(()),
                Ok(_) => {
                    return Err(OpenError::Io(format!(
                        "etcd under {}: another restore has begun, or the keys of this one were deleted. Nothing of it is served",
                        keys.prefix()
                    )));
                }
                Err(error) => self.wait(error, step).await?,
            }
        }
    }

    /// Removes what was written, if that is possible.
    async fn clean_up(&self) {
        let compare = vec![Compare::value(self.keys.restoring(), self.token.clone())];
        let restoring = RequestOp::delete(self.keys.restoring(), Vec::new());
        let success = [self.removal(), vec![restoring]].concat();
        if let Err(error) = self.kv.txn(TxnRequest { compare, success, failure: Vec::new() }).await {
            tracing::debug!(%error, "remove an unfinished restore");
        }
    }

    /// The operations that remove everything that a restore writes, except `restoring`.
    fn removal(&self) -> Vec<RequestOp> {
        let entries = self.keys.entries();
        vec![RequestOp::delete(entries.key, entries.range_end)]
    }

    /// Waits until the next attempt.
    async fn wait(&self, error: KvError, step: Step) -> Result<(), OpenError> {
        if let KvError::Unknown(why) = error {
            tracing::warn!(why, "restore to etcd");
            sleep(AGAIN_AFTER).await;
            return Ok(());
        }
        let outcome = match step {
            Step::Begin | Step::Write => "Nothing of it is served",
            Step::Finish => "Whether it was finished is unknown: if so, the next one says that there is a fleet",
        };
        let prefix = self.keys.prefix();
        Err(OpenError::Io(format!("restore to {prefix} of etcd: {error}. {outcome}. Run it again")))
    }

    fn occupied(&self) -> OpenError {
        let prefix = self.keys.prefix();
        OpenError::Io(format!(
            "etcd under {prefix}: there is a fleet already, and it was left as it is. Give another --etcd-prefix; or stop all its \
             replicas and remove it: `etcdctl del --prefix {prefix}`"
        ))
    }
}
