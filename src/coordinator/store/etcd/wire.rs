//! The messages of etcd's v3 API that a fleet needs, with only the fields that it uses.
//!
//! They are defined here because etcd's own definitions depend on the tools of a Go project, and a client library adds
//! leases, locks, watches and authentication, which are not used.
#![allow(missing_docs, reason = "the fields are etcd's; only simulations of an etcd see them")]

/// A key with its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ResponseHeader {
    /// The id of the cluster, never 0. All members of a cluster send the same one.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// Reads keys from `key` up to `range_end`, or `key` alone if that is empty. Linearizable.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// The revision to read at; 0: the latest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub operation: Option<Operation>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ResponseOp {
    #[prost(oneof = "Outcome", tags = "1")]
    pub outcome: Option<Outcome>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Outcome {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
}

/// A condition: a key was last written at a revision, or has a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Compare {
    /// 0: equal.
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "Expected", tags = "6, 7")]
    pub expected: Option<Expected>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Expected {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// Opens a watch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The first revision whose changes are wanted.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// 1: no deletions.
    #[prost(int32, repeated, tag = "5")]
    pub filters: Vec<i32>,
    /// Split a response that is too large for one message: the default limit of clients is 4 MiB.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Not 0: the requested revisions are compacted.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// A request without fields.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Nothing {}

/// An answer of which only the header is used.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Done {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// Bytes in use, without free pages.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// Since etcd 3.6; 0: unknown.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

/// An answer of a member.
pub trait Answer {
    fn header(&self) -> Option<ResponseHeader>;
}

macro_rules! answers {
    ($($answer:ty),*) => {$(
        impl Answer for $answer {
            fn header(&self) -> Option<ResponseHeader> {
                self.header
            }
        }
    )*};
}

answers!(RangeResponse, TxnResponse, WatchResponse, StatusResponse, Done);

impl Compare {
    /// `key` was last written at `revision`; 0: it does not exist.
    pub fn mod_revision(key: Vec<u8>, revision: i64) -> Self {
        Compare { result: 0, target: 2, key, expected: Some(Expected::ModRevision(revision)) }
    }

    pub fn value(key: Vec<u8>, value: Vec<u8>) -> Self {
        Compare { result: 0, target: 3, key, expected: Some(Expected::Value(value)) }
    }
}

impl RangeResponse {
    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}

impl RequestOp {
    pub fn get(key: Vec<u8>) -> Self {
        RequestOp { operation: Some(Operation::Range(RangeRequest { key, ..RangeRequest::default() })) }
    }

    pub fn put(key: Vec<u8>, value: Vec<u8>) -> Self {
        RequestOp { operation: Some(Operation::Put(PutRequest { key, value })) }
    }

    /// Deletes `key`, or all keys from it up to `range_end`.
    pub fn delete(key: Vec<u8>, range_end: Vec<u8>) -> Self {
        RequestOp { operation: Some(Operation::Delete(DeleteRangeRequest { key, range_end })) }
    }
}

impl TxnResponse {
    /// The key-values that the operation `index` has read.
    pub fn read(self, index: usize) -> Vec<KeyValue> {
        match self.responses.into_iter().nth(index).and_then(|response| response.outcome) {
            Some(Outcome::Range(range)) => range.kvs,
            None => Vec::new(),
        }
    }

    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}
