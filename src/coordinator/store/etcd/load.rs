//! Reads the rows and the log. Only who leads may trust what it reads: nobody else writes meanwhile.
use super::checkpoint::Checkpoint;
use super::kv::{Kv, KvError};
use super::record::{Applied, Entry, Keys};
use super::wire::{KeyValue, RangeRequest};
use crate::coordinator::store::Contents;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::contents::RecordBuilder;
use crate::coordinator::store::ops::{self, FLOOR_KEY, Table};
use crate::coordinator::store::rows::RowCodec;
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

/// Keys of the first page. Log entries have up to 512 KiB.
const FIRST_PAGE: i64 = 64;
const LARGEST_PAGE: i64 = 10_000;
/// The size of a page that is worth its round trip, in bytes.
const GOOD_PAGE: usize = 4 << 20;
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// All rows as the log leaves them.
#[derive(Debug, Default)]
pub(crate) struct Rows(pub(super) BTreeMap<(Table, Vec<u8>), Vec<u8>>);

/// Reads everything. `last`: the number of the last log entry, as the leader record says.
///
/// # Errors
/// What is stored contradicts itself. While etcd does not answer, it is asked again.
pub(super) async fn load<K: Kv>(kv: &K, keys: &Keys, last: u64) -> Result<(Rows, Checkpoint), OpenError> {
    let damaged = |why: &str| damaged(keys, why);
    let applied = pages(kv, RangeRequest { key: keys.applied(), ..RangeRequest::default() }, |_| Ok(())).await?;
    let applied = applied.map(|key_value| Applied::decode(&key_value.value[..])).transpose();
    let applied = applied.map_err(|_| damaged("the key \"applied\" makes no sense"))?.unwrap_or_default().seq;
    let mut rows = BTreeMap::new();
    let mut first_unwritten = 0;
    pages(kv, keys.rows(), |KeyValue { key, value, .. }| {
        let (table, key) = keys.table_and_key(&key).ok_or_else(|| damaged("a row has a strange key"))?;
        if let (Table::Elicitations, Ok(number)) = (table, <[u8; 8]>::try_from(&key[..])) {
            first_unwritten = first_unwritten.max(u64::from_be_bytes(number) + 1);
        }
        rows.insert((table, key), value);
        Ok(())
    })
    .await?;
    let mut checkpoint = Checkpoint::new(applied, first_unwritten);
    let mut parts: Option<Entry> = None;
    let mut before = None;
    pages(kv, keys.entries(), |KeyValue { key, value, .. }| {
        let seq = keys.seq(&key).ok_or_else(|| damaged("a log entry has a strange key"))?;
        if before.is_some_and(|before: u64| before + 1 != seq) {
            return Err(damaged(&format!("the log has no entry {}", seq - 1)));
        }
        before = Some(seq);
        let entry = Entry::decode(&value[..]).map_err(|_| damaged(&format!("log entry {seq} makes no sense")))?;
        checkpoint.entry(seq, entry.clock);
        // A leader that was deposed in the middle of a batch has left the beginning of it.
        let begun = parts.take().filter(|begun| begun.term == entry.term);
        let whole = match begun {
            Some(begun) => Entry { ops: [begun.ops, entry.ops].concat(), ..entry },
            None => entry,
        };
        if whole.more {
            parts = Some(whole);
            return Ok(());
        }
        let mut changes = ops::Changes::new();
        let nonsense = || damaged(&format!("log entry {seq} makes no sense"));
        ops::decode(&whole.ops, &mut changes).ok_or_else(nonsense)?;
        for ((table, key), value) in changes {
            match value {
                Some(value) => _ = rows.insert((table, key.to_vec()), value.to_vec()),
                None => _ = rows.remove(&(table, key.to_vec())),
            }
        }
        checkpoint.add(seq, whole.clock, &whole.ops).map_err(|_| nonsense())
    })
    .await?;
    if before.unwrap_or(applied) != last {
        return Err(damaged(&format!("the log ends at entry {}, not {last}", before.unwrap_or(applied))));
    }
    Ok((Rows(rows), checkpoint))
}

/// Gives every key of a range to `take`; returns the last one if the range is one key.
async fn pages<K: Kv>(
    kv: &K,
    mut range: RangeRequest,
    mut take: impl FnMut(KeyValue) -> Result<(), OpenError>,
) -> Result<Option<KeyValue>, OpenError> {
    range.limit = FIRST_PAGE;
    loop {
        let mut page = match kv.range(range.clone()).await {
            Ok(page) => page,
            Err(KvError::Refused(why)) => return Err(OpenError::Io(format!("read from etcd: {why}"))),
            Err(KvError::Unknown(why)) => {
                tracing::warn!(why, "read from etcd");
                sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        if range.range_end.is_empty() {
            return Ok(page.kvs.pop());
        }
        let Some(last) = page.kvs.last() else { return Ok(None) };
        range.key = [&last.key[..], &[0]].concat();
        let size: usize = page.kvs.iter().map(|key_value| key_value.key.len() + key_value.value.len()).sum();
        let average = size / page.kvs.len();
        range.limit = i64::try_from(GOOD_PAGE / average.max(1)).unwrap_or(LARGEST_PAGE).clamp(1, LARGEST_PAGE);
        page.kvs.into_iter().try_for_each(&mut take)?;
        if !page.more {
            return Ok(None);
        }
    }
}

impl Rows {
    /// As records, with every lease begun anew at the moment of `codec`.
    ///
    /// # Errors
    /// They make no sense.
    pub(super) fn contents(self, codec: RowCodec, epoch: u64, keys: &Keys) -> Result<Contents, OpenError> {
        let threads = self.0.keys().filter(|(table, _)| *table == Table::Threads).count();
        let mut builder = RecordBuilder::new(codec, threads);
        for ((table, key), value) in &self.0 {
            builder.add(*table, key, value).map_err(|error| damaged(keys, &error.to_string()))?;
        }
        let (records, next_row) = builder.finish().map_err(|error| damaged(keys, &error.to_string()))?;
        let floor = self.0.get(&(Table::Meta, FLOOR_KEY.as_bytes().to_vec()));
        let floor = floor.map_or(Some(0), |floor| Some(u64::from_be_bytes(floor[..].try_into().ok()?)));
        let floor = floor.ok_or_else(|| damaged(keys, "the revision floor makes no sense"))?;
        Ok(Contents { records, floor, next_row, epoch })
    }
}

fn damaged(keys: &Keys, why: &str) -> OpenError {
    OpenError::Corrupt(format!(
        "etcd under {}: {why}. What is stored is damaged, and was left as it is. Restore a snapshot of etcd, or give another \
         --etcd-prefix to start with nothing: every thread then runs, at count 0",
        keys.prefix()
    ))
}
