//! The fields of the leader record and of a log entry that the oracle checks.
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaderRecord {
    #[prost(uint64, tag = "1")]
    pub(super) term: u64,
    #[prost(uint64, tag = "2")]
    pub(super) seq: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) replica: u64,
    #[prost(sfixed64, tag = "6")]
    pub(super) clock: i64,
    #[prost(fixed64, tag = "9")]
    pub(super) machine: u64,
    #[prost(sfixed64, tag = "10")]
    pub(super) machine_clock: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(uint64, tag = "1")]
    pub(super) term: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) ops: Vec<u8>,
}
