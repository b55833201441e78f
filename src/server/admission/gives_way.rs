//! Which connection is closed when all connections together hold too much memory.
//!
//! 1. A caller that holds more than [`LARGE_SHARE`] gives way first, the largest one before others; of its connections,
//!    the one that holds the most. Many small connections of one caller are a large share.
//! 2. If no caller does, many callers hold the memory, and each has a small share: then the size of a share says
//!    nothing. An attacker with thousands of addresses would make one normal answer the largest share. The connection
//!    gives way whose memory has moved least: which has held some for the longest time without reading
//!    ([`Held::since`]). To turn this against another caller, an attacker would have to move all of the budget while
//!    that caller reads one answer.
use std::cmp::Reverse;
use std::collections::HashMap;

/// The share of a caller that is large however many callers there are, in bytes: several of the largest answers at
/// once, each counted twice.
pub(super) const LARGE_SHARE: usize = 32 << 20;

/// The memory that a connection holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The number of the connection.
    pub(super) number: u64,
    /// Identifies the caller.
    pub(super) caller: usize,
    pub(super) bytes: usize,
    /// The count of events when the connection began to hold memory, or last read a part of an answer.
    pub(super) since: u64,
}

/// The number of the connection that gives way; `None`: no connection holds any.
pub(super) fn next(by_caller: &HashMap<usize, usize>, held: impl Iterator<Item = Held>) -> Option<u64> {
    let (caller, share) = by_caller.iter().max_by_key(|(_, bytes)| **bytes)?;
    if *share > LARGE_SHARE {
        held.filter(|held| held.caller == *caller).max_by_key(|held| held.bytes).map(|held| held.number)
    } else {
        held.min_by_key(|held| (held.since, Reverse(held.bytes))).map(|held| held.number)
    }
}
