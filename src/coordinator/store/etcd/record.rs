//! The keys of a fleet in etcd, and their values. A tag never changes its meaning. A change that older programs must
//! not ignore raises [`FORMAT`].
use super::wire::RangeRequest;
use crate::coordinator::store::OpenError;
use crate::coordinator::store::ops::Table;

/// The format that this version writes, and the latest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// `fleet`: written once, when the first replica starts.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FleetRecord {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    /// Identifies the history of the fleet, and its clock. Never 0.
    #[prost(fixed64, tag = "2")]
    pub(crate) id: u64,
    /// The secret with which replicas prove to each other that they are replicas.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) peer_key: Vec<u8>,
}

/// `leader`: the one record that every write of a leader compares and replaces. Lock, fence, sequence, heartbeat and clock.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaderRecord {
    /// Increases with every takeover.
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    /// The number of the last log entry.
    #[prost(uint64, tag = "2")]
    pub(crate) seq: u64,
    /// Identifies the process of the leader.
    #[prost(fixed64, tag = "3")]
    pub(crate) replica: u64,
    /// Where clients and other replicas reach it.
    #[prost(string, tag = "4")]
    pub(crate) address: String,
    #[prost(uint32, tag = "5")]
    pub(crate) format: u32,
    /// The cluster clock when this was written, in nanoseconds.
    #[prost(sfixed64, tag = "6")]
    pub(crate) clock: i64,
    /// The wall clock of the leader at that time.
    #[prost(sfixed64, tag = "7")]
    pub(crate) wall: i64,
    /// The leader has stopped, and any replica may take over at once.
    #[prost(bool, tag = "8")]
    pub(crate) free: bool,
    /// The boot id of the leader's machine.
    #[prost(fixed64, tag = "9")]
    pub(crate) machine: u64,
    /// The boot-time clock of the leader's machine at that time.
    #[prost(sfixed64, tag = "10")]
    pub(crate) machine_clock: i64,
}

/// `log/SEQ`: one batch, or a part of one.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Entry {
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    /// The cluster clock when it was committed.
    #[prost(sfixed64, tag = "2")]
    pub(crate) clock: i64,
    /// The next entry continues this batch. If there is no next entry, the batch was never committed.
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) ops: Vec<u8>,
}

/// `applied`: all log entries up to this number are in the rows.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Applied {
    #[prost(uint64, tag = "1")]
    pub(crate) seq: u64,
}

/// The keys under the prefix of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Keys(String);

impl Keys {
    /// Adds a slash at the end, so that the keys of `a` do not include those of `ab`.
    pub(crate) fn under(prefix: &str) -> Self {
        Keys(format!("{}/", prefix.trim_end_matches('/')))
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0
    }

    /// The shorter prefixes whose fleets would include these keys.
    pub(crate) fn around(&self) -> impl Iterator<Item = Keys> {
        let ends = self.0.char_indices().filter(|(at, letter)| *letter == '/' && at + 1 < self.0.len());
        ends.map(|(at, _)| Keys(self.0[..=at].to_owned()))
    }

    fn named(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.0).into_bytes()
    }

    pub(crate) fn fleet(&self) -> Vec<u8> {
        self.named("fleet")
    }

    /// While this key exists, a restore is unfinished, and there is no fleet.
    pub(crate) fn restoring(&self) -> Vec<u8> {
        self.named("restoring")
    }

    pub(crate) fn leader(&self) -> Vec<u8> {
        self.named("leader")
    }

    pub(crate) fn applied(&self) -> Vec<u8> {
        self.named("applied")
    }

    pub(crate) fn log(&self, seq: u64) -> Vec<u8> {
        self.named(&format!("log/{seq:016x}"))
    }

    pub(crate) fn seq(&self, key: &[u8]) -> Option<u64> {
        let digits = std::str::from_utf8(key.strip_prefix(&*self.named("log/"))?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// The key of a row of the store. Numbers are in hexadecimal, readable for people.
    pub(crate) fn row(&self, table: Table, key: &[u8]) -> Vec<u8> {
        let mut row = self.named(&format!("row/{}/", letter(table)));
        match (table, <[u8; 8]>::try_from(key)) {
            (Table::Elicitations | Table::Memory, Ok(number)) => {
                row.extend(format!("{:016x}", u64::from_be_bytes(number)).into_bytes());
            }
            _ => row.extend_from_slice(key),
        }
        row
    }

    /// The inverse of [`Keys::row`].
    pub(crate) fn table_and_key(&self, row: &[u8]) -> Option<(Table, Vec<u8>)> {
        let (&letter_of_table, rest) = row.strip_prefix(&*self.named("row/"))?.split_first()?;
        let key = rest.strip_prefix(b"/")?;
        let table = [Table::Meta, Table::Threads, Table::Elicitations, Table::Memory];
        let table = table.into_iter().find(|table| letter(*table) as u8 == letter_of_table)?;
        let key = match table {
            Table::Meta | Table::Threads => key.to_vec(),
            Table::Elicitations | Table::Memory => {
                u64::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok()?.to_be_bytes().to_vec()
            }
        };
        Some((table, key))
    }

    /// All keys of the fleet.
    pub(crate) fn all(&self) -> RangeRequest {
        self.below("")
    }

    pub(crate) fn rows(&self) -> RangeRequest {
        self.below("row/")
    }

    pub(crate) fn entries(&self) -> RangeRequest {
        self.below("log/")
    }

    fn below(&self, name: &str) -> RangeRequest {
        let key = self.named(name);
        let mut range_end = key.clone();
        // The prefix ends in a slash, and what follows it.
        if let Some(last) = range_end.last_mut() {
            *last += 1;
        }
        RangeRequest { key, range_end, ..RangeRequest::default() }
    }
}

fn letter(table: Table) -> char {
    match table {
        Table::Meta => 'm',
        Table::Threads => 't',
        Table::Elicitations => 'e',
        Table::Memory => 'r',
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_as_they_were_written() {
        let keys = Keys::under("/a/b/");
        assert_eq!(keys.prefix(), "/a/b/");
        assert_eq!(keys.seq(&keys.log(77)), Some(77));
        let number = 9_u64.to_be_bytes();
        for (table, key) in [
            (Table::Meta, &b"revision floor"[..]),
            (Table::Threads, "thread/ä".as_bytes()),
            (Table::Threads, b"12345678"),
            (Table::Elicitations, &number),
            (Table::Memory, &number),
        ] {
            assert_eq!(keys.table_and_key(&keys.row(table, key)), Some((table, key.to_vec())));
        }
        assert_eq!(keys.table_and_key(b"/a/b/leader"), None);
    }

    #[test]
    fn a_prefix_is_within_those_that_begin_it() {
        let around = |prefix: &str| Keys::under(prefix).around().map(|keys| keys.0).collect::<Vec<_>>();
        assert_eq!(around("/a/log/x/"), ["/", "/a/", "/a/log/"]);
        assert_eq!((around("a"), around("a/b")), (vec![], vec!["a/".to_owned()]));
    }

    #[test]
    fn a_range_has_what_is_below_and_no_more() {
        let RangeRequest { key, range_end, .. } = Keys::under("p").entries();
        assert_eq!((&key[..], &range_end[..]), (&b"p/log/"[..], &b"p/log0"[..]));
    }
}
