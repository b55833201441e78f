//! Reads the rows and the log: a follower reads everything, at one revision; a new leader reads what it has to move
//! into rows.
use super::checkpoint::Checkpoint;
use super::kv::{Kv, KvError};
use super::record::{Applied, Entry, Keys, LeaderRecord, check_format};
use super::standby::{Standby, codec, whole};
use super::wire::{KeyValue, RangeRequest, RangeResponse};
use crate::coordinator::store::Contents;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::contents::RecordBuilder;
use crate::coordinator::store::ops::{self, FLOOR_KEY, Table};
use crate::coordinator::store::rows::ElicitationRow;
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// The maximum of keys in the first page. Log entries have up to 512 KiB.
const FIRST_PAGE: i64 = 64;
const LARGEST_PAGE: i64 = 10_000;
/// The size of a page that makes up for its round trip, in bytes.
const GOOD_PAGE: usize = 4 << 20;
/// The maximum growth of the number of keys from one page to the next.
const MOST_GROWTH: i64 = 4;
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// All rows with the log applied.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(super) rows: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
    /// Above the number of every row that was read.
    next_row: u64,
    /// The last entry.
    seq: u64,
    /// The first parts of an incomplete batch at the end of the log.
    begun: Option<Entry>,
    /// The revision of etcd at which everything was read.
    pub(super) revision: i64,
}

/// Why nothing was loaded.
#[derive(Debug)]
pub(super) enum LoadError {
    /// etcd has compacted the revision meanwhile: load again.
    Compacted,
    Damaged(OpenError),
}

impl From<OpenError> for LoadError {
    fn from(error: OpenError) -> Self {
        LoadError::Damaged(error)
    }
}

/// Reads everything at one revision, while others may write.
///
/// # Errors
/// The stored data contradicts itself, or was compacted. While etcd does not answer, it is asked again.
pub(super) async fn load<K: Kv>(kv: &K, keys: &Keys) -> Result<Loaded, LoadError> {
    let damaged = |why: &str| damaged(keys, why);
    let one = |key| RangeRequest { key, ..RangeRequest::default() };
    let mut record = pages(kv, one(keys.leader()), |_| Ok(())).await?;
    let mut loaded = Loaded { revision: record.revision(), ..Loaded::default() };
    let last = record.kvs.pop().map(|found| LeaderRecord::decode(&found.value[..])).transpose();
    let last = last.map_err(|_| damaged("the leader record is invalid"))?.unwrap_or_default();
    check_format(last.format, keys.prefix())?;
    let last = last.seq;
    let at = |range| RangeRequest { revision: loaded.revision, ..range };
    let applied = applied(kv, keys, loaded.revision).await?;
    let (all_rows, all_entries) = (at(keys.rows()), at(keys.entries()));
    let next_row = &mut loaded.next_row;
    let mut see = |table, key: &[u8]| {
        if let (Table::Elicitations | Table::Memory, Ok(number)) = (table, <[u8; 8]>::try_from(key)) {
            *next_row = (*next_row).max(u64::from_be_bytes(number).saturating_add(1));
        }
    };
    let rows = &mut loaded.rows;
    pages(kv, all_rows, |KeyValue { key, value, .. }| {
        let (table, key) = keys.table_and_key(&key).ok_or_else(|| damaged("a row has a strange key"))?;
        see(table, &key);
        rows.insert((table, key), value);
        Ok(())
    })
    .await?;
    loaded.begun = entries(kv, keys, all_entries, (applied, last), |_, _, whole| {
        let Some(whole) = whole else { return Some(()) };
        for ((table, key), value) in ops::decode([whole])? {
            see(table, key);
            match value {
                Some(value) => _ = rows.insert((table, key.to_vec()), value.to_vec()),
                None => _ = rows.remove(&(table, key.to_vec())),
            }
        }
        Some(())
    })
    .await?;
    loaded.seq = last;
    Ok(loaded)
}

/// The entries that are in the log and not in the rows, for the leader that took over at `revision`, when the last entry was `last`.
/// `next_row`: above the number of every row that was ever used.
///
/// # Errors
/// As [`load`].
pub(super) async fn checkpoint<K: Kv>(
    kv: &K,
    keys: &Keys,
    (revision, last): (i64, u64),
    next_row: u64,
) -> Result<Checkpoint, LoadError> {
    let applied = applied(kv, keys, revision).await?;
    let mut checkpoint = Checkpoint::new(applied, next_row);
    entries(kv, keys, RangeRequest { revision, ..keys.entries() }, (applied, last), |seq, clock, whole| {
        checkpoint.entry(seq, clock);
        whole.map_or(Some(()), |whole| checkpoint.add(seq, clock, whole).ok())
    })
    .await?;
    Ok(checkpoint)
}

/// The last entry that is in the rows.
async fn applied<K: Kv>(kv: &K, keys: &Keys, revision: i64) -> Result<u64, LoadError> {
    let mut applied =
        pages(kv, RangeRequest { key: keys.applied(), revision, ..RangeRequest::default() }, |_| Ok(())).await?;
    let applied = applied.kvs.pop().map(|found| Applied::decode(&found.value[..])).transpose();
    Ok(applied.map_err(|_| damaged(keys, "the key \"applied\" is invalid"))?.unwrap_or_default().seq)
}

/// Reads the log. Calls `take` with the number and the clock of each entry, and with the batch that the entry
/// completes, if any. `take` returns `None` if the batch is invalid. Returns the first parts of an incomplete batch at
/// the end.
async fn entries<K: Kv>(
    kv: &K,
    keys: &Keys,
    range: RangeRequest,
    (applied, last): (u64, u64),
    mut take: impl FnMut(u64, i64, Option<&[u8]>) -> Option<()>,
) -> Result<Option<Entry>, LoadError> {
    let damaged = |why: &str| damaged(keys, why);
    let (mut begun, mut before) = (None, None);
    pages(kv, range, |KeyValue { key, value, .. }| {
        let seq = keys.seq(&key).ok_or_else(|| damaged("a log entry has a strange key"))?;
        // The log may begin with entries that are in the rows already, but at the latest with the one after them.
        let is_gap = before.map_or(seq > applied + 1, |before: u64| before + 1 != seq);
        if is_gap {
            return Err(damaged(&format!("the log has no entry {}", seq - 1)));
        }
        before = Some(seq);
        let nonsense = || damaged(&format!("log entry {seq} is invalid"));
        let entry = Entry::decode(&value[..]).map_err(|_| nonsense())?;
        let entry = whole(begun.take(), entry);
        take(seq, entry.clock, (!entry.more).then_some(&*entry.ops)).ok_or_else(nonsense)?;
        begun = entry.more.then_some(entry);
        Ok(())
    })
    .await?;
    if before.unwrap_or(applied) != last {
        return Err(damaged(&format!("the log ends at entry {}, not {last}", before.unwrap_or(applied))).into());
    }
    Ok(begun)
}

/// Calls `take` with every key of a range. If the range is a single key, returns the answer instead.
pub(super) async fn pages<K: Kv>(
    kv: &K,
    mut range: RangeRequest,
    mut take: impl FnMut(KeyValue) -> Result<(), OpenError>,
) -> Result<RangeResponse, LoadError> {
    range.limit = FIRST_PAGE;
    let mut has_failed = false;
    loop {
        let page = match kv.range(range.clone()).await {
            Ok(page) => page,
            Err(KvError::Refused(why)) => return Err(OpenError::Io(format!("read from etcd: {why}")).into()),
            Err(KvError::Compacted) => return Err(LoadError::Compacted),
            Err(KvError::Unknown(why)) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(why, "cannot read from etcd: retrying");
                }
                // The page may be too large to arrive in time, or at all.
                range.limit = (range.limit / 2).max(1);
                sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        if range.range_end.is_empty() {
            return Ok(page);
        }
        let Some(last) = page.kvs.last() else { return Ok(page) };
        range.key = [&last.key[..], &[0]].concat();
        let size: usize = page.kvs.iter().map(|key_value| key_value.key.len() + key_value.value.len()).sum();
        let average = size / page.kvs.len();
        let good = i64::try_from(GOOD_PAGE / average.max(1)).unwrap_or(LARGEST_PAGE).clamp(1, LARGEST_PAGE);
        // The next entries may be much larger than these.
        range.limit = good.min(range.limit * MOST_GROWTH);
        page.kvs.into_iter().try_for_each(&mut take)?;
        if !page.more {
            return Ok(RangeResponse::default());
        }
    }
}

impl Loaded {
    /// Converts the rows to the records of the fleet with the id `epoch`.
    ///
    /// # Errors
    /// The rows are invalid.
    pub(super) fn contents(&self, epoch: u64, keys: &Keys) -> Result<Contents, OpenError> {
        let threads = self.rows.keys().filter(|(table, _)| *table == Table::Threads).count();
        let mut builder = RecordBuilder::new(codec(epoch), threads);
        for ((table, key), value) in &self.rows {
            builder.add(*table, key, value).map_err(|error| damaged(keys, &error.to_string()))?;
        }
        let (records, next_row) = builder.finish().map_err(|error| damaged(keys, &error.to_string()))?;
        let floor = self.rows.get(&(Table::Meta, FLOOR_KEY.as_bytes().to_vec()));
        let floor = floor.map_or(Some(0), |floor| Some(u64::from_be_bytes(floor[..].try_into().ok()?)));
        let floor = floor.ok_or_else(|| damaged(keys, "the revision floor is invalid"))?;
        Ok(Contents { records, floor, next_row: next_row.max(self.next_row), epoch })
    }

    /// Converts the rows to the form in which a follower keeps them.
    ///
    /// # Errors
    /// As [`Loaded::contents`].
    pub(super) fn standby(self, epoch: u64, keys: &Keys) -> Result<Standby, OpenError> {
        let contents = self.contents(epoch, keys)?;
        let ends =
            self.rows.iter().filter(|((table, _), _)| *table == Table::Elicitations).filter_map(|((_, row), value)| {
                let end = codec(epoch).stored_end(&ElicitationRow::decode(&value[..]).ok()?)?;
                Some((u64::from_be_bytes(row[..].try_into().ok()?), end))
            });
        Ok(Standby::new(contents, ends.collect(), self.seq, self.begun))
    }
}

pub(super) fn damaged(keys: &Keys, why: &str) -> OpenError {
    OpenError::Corrupt(format!(
        "etcd under {}: {why}. What is stored is damaged, and was left as it is. Restore a snapshot of etcd, or give another \
         --etcd-prefix to start with nothing: every thread then runs, at count 0",
        keys.prefix()
    ))
}
