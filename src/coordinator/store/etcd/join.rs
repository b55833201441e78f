//! Finds out what a prefix contains. The first replica creates a fleet under an empty prefix.
//!
//! - J1: a fleet is created, and a restore begins, only if there is neither a fleet nor a restore: each transaction
//!   compares both keys. So a replica never creates a fleet among the keys of a restore, and no restore writes into a
//!   fleet.
//! - J2: neither happens under a prefix inside the prefix of another fleet, which would treat the keys as its own.
use super::kv::{Kv, KvError};
use super::record::{FORMAT, FleetRecord, Keys, check_format};
use super::wire::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest};
use crate::coordinator::store::{OpenError, new_epoch};
use prost::Message;
use std::time::Duration;
use tokio::time::sleep;

/// The maximum number of attempts to join; each may take as long as an attempt of the client.
const JOIN_ATTEMPTS: u32 = 5;
const JOIN_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The content of a prefix.
pub(super) enum Found {
    Nothing,
    /// The key `fleet`.
    Fleet(KeyValue),
    /// The key `restoring`.
    Restoring(KeyValue),
    /// Keys that are not of a fleet.
    Foreign,
    /// Nothing, but the prefix lies within this other fleet.
    Within(Keys),
}

/// Looks at a prefix.
pub(super) async fn find<K: Kv>(kv: &K, keys: &Keys) -> Result<Found, KvError> {
    if let Some(fleet) = read(kv, keys.fleet()).await? {
        return Ok(Found::Fleet(fleet));
    }
    if kv.range(RangeRequest { limit: 1, ..keys.all() }).await?.kvs.is_empty() {
        return Ok(within(kv, keys).await?.map_or(Found::Nothing, Found::Within));
    }
    let restoring = read(kv, keys.restoring()).await?;
    // Read last: the fleet may have been created, or the restore finished, since the other reads.
    Ok(match (read(kv, keys.fleet()).await?, restoring) {
        (Some(fleet), _) => Found::Fleet(fleet),
        (None, Some(restoring)) => Found::Restoring(restoring),
        (None, None) => Found::Foreign,
    })
}

/// The fleet whose prefix contains this one, as far as this client may read.
async fn within<K: Kv>(kv: &K, keys: &Keys) -> Result<Option<Keys>, KvError> {
    for around in keys.around() {
        for key in [around.fleet(), around.restoring()] {
            match read(kv, key).await {
                Ok(Some(_)) => return Ok(Some(around)),
                Ok(None) => {}
                // The role of this client in etcd covers only its own prefix.
                Err(KvError::Refused(why)) => tracing::debug!(why, "look for a fleet around this one"),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(None)
}

async fn read<K: Kv>(kv: &K, key: Vec<u8>) -> Result<Option<KeyValue>, KvError> {
    Ok(kv.range(RangeRequest { key, ..RangeRequest::default() }).await?.kvs.pop())
}

/// The transaction that creates a fleet or begins a restore, if there is neither.
pub(super) fn if_neither(keys: &Keys, success: Vec<RequestOp>) -> TxnRequest {
    let compare = vec![Compare::mod_revision(keys.fleet(), 0), Compare::mod_revision(keys.restoring(), 0)];
    TxnRequest { compare, success, failure: Vec::new() }
}

/// Reads the record of the fleet, or creates it.
pub(super) async fn join<K: Kv>(kv: &K, keys: &Keys) -> Result<FleetRecord, OpenError> {
    let mut attempts = 0;
    loop {
        match try_to_join(kv, keys).await {
            Ok(Some(joined)) => return joined,
            Ok(None) => {}
            Err(KvError::Unknown(why)) if attempts < JOIN_ATTEMPTS => tracing::warn!(why, "join the fleet"),
            Err(error) => {
                return Err(OpenError::Io(format!("join the fleet under {} of etcd: {error}", keys.prefix())));
            }
        }
        attempts += 1;
        sleep(JOIN_AGAIN_AFTER).await;
    }
}

/// `None`: another replica has created the fleet meanwhile.
async fn try_to_join<K: Kv>(kv: &K, keys: &Keys) -> Result<Option<Result<FleetRecord, OpenError>>, KvError> {
    match find(kv, keys).await? {
        Found::Fleet(found) => return Ok(Some(readable(&found, keys))),
        Found::Restoring(_) => return Ok(Some(Err(unfinished(keys)))),
        Found::Foreign => return Ok(Some(Err(foreign(keys)))),
        Found::Within(around) => return Ok(Some(Err(nested(keys, &around)))),
        Found::Nothing => {}
    }
    let record = match new_fleet() {
        Ok(record) => record,
        Err(error) => return Ok(Some(Err(error))),
    };
    let txn = if_neither(keys, vec![RequestOp::put(keys.fleet(), record.encode_to_vec())]);
    Ok(kv.txn(txn).await?.succeeded.then_some(Ok(record)))
}

/// The record of a new fleet.
pub(super) fn new_fleet() -> Result<FleetRecord, OpenError> {
    let random = || -> std::io::Result<FleetRecord> {
        let mut peer_key = vec![0; 32];
        getrandom::fill(&mut peer_key).map_err(std::io::Error::other)?;
        Ok(FleetRecord { format: FORMAT, id: new_epoch()?, peer_key })
    };
    random().map_err(|error| OpenError::Io(format!("get random numbers: {error}")))
}

/// Decodes the record of a fleet.
///
/// # Errors
/// It is invalid, or of a later version.
pub(super) fn readable(found: &KeyValue, keys: &Keys) -> Result<FleetRecord, OpenError> {
    let record = FleetRecord::decode(&found.value[..]).ok().filter(|record| record.format > 0 && record.id != 0);
    let record = record.ok_or_else(|| foreign(keys))?;
    check_format(record.format, keys.prefix())?;
    Ok(record)
}

/// The error if the prefix has keys that are not of a fleet.
pub(super) fn foreign(keys: &Keys) -> OpenError {
    OpenError::Corrupt(format!(
        "etcd under {}: there are keys that are not of pausewatch. They were left as they are. Give another --etcd-prefix",
        keys.prefix()
    ))
}

/// The error if the prefix is inside that of another fleet.
pub(super) fn nested(keys: &Keys, around: &Keys) -> OpenError {
    let (prefix, around) = (keys.prefix(), around.prefix());
    OpenError::Io(format!(
        "etcd under {prefix}: this lies within the fleet {around}, which would take the keys for its own. Give another --etcd-prefix"
    ))
}

/// The error if the prefix has an unfinished restore.
pub(super) fn unfinished(keys: &Keys) -> OpenError {
    let prefix = keys.prefix();
    OpenError::Io(format!(
        "etcd under {prefix}: a restore is under way, or was not finished. Wait for its end, or run `pausewatch restore FILE --store \
         etcd` again. To begin with nothing instead: `etcdctl del --prefix {prefix}`"
    ))
}
