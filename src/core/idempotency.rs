//! The memory of a thread for the last 10 minutes: request ids with their answers, and the ids of closed elicitations. So a call
//! that is sent again counts once, and a late decrement learns how its elicitation ended.
//!
//! At most the latest 1,024 of each are remembered, so that no caller makes the memory of one thread grow without
//! bound. Within a batch the lists may be longer, because a batch can be reverted; lookups ignore the excess.
use super::accounting::Timestamp;
use super::pause_end::PauseEnd;
use super::types::ElicitationId;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

/// How long request ids and closed elicitations are remembered.
pub(crate) const MEMORY_SPAN: Duration = Duration::from_secs(10 * 60);
/// The latest of each kind that a thread remembers.
const MEMORY_LENGTH: usize = 1_024;

/// A closed elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedClosing {
    /// Its id.
    pub id: ElicitationId,
    /// How it was closed.
    pub how: PauseEnd,
    /// When.
    pub at: Timestamp,
    /// Where the store keeps this.
    pub row: u64,
}

/// The RPCs that take request ids; each has a scope of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rpc {
    /// `IncrementElicitation`.
    Increment,
    /// `DecrementElicitation`.
    Decrement,
}

/// A request id and the answer to its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedRequest {
    /// Which RPC.
    pub rpc: Rpc,
    /// The id.
    pub request_id: Box<str>,
    /// The fingerprint of the call's content: see `fingerprint`.
    pub fingerprint: u128,
    /// The answer.
    pub answer: RememberedAnswer,
    /// When.
    pub at: Timestamp,
    /// Where the store keeps this.
    pub row: u64,
}

/// The data, besides the call itself, that is needed to repeat its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedAnswer {
    /// The count.
    pub count: u32,
    /// The revision.
    pub revision: u64,
    /// The elicitation that an increment opened, and the end of its lease.
    pub opened: Option<(ElicitationId, Option<Timestamp>)>,
}

/// The calls that one thread remembers. Most threads remember none most of the time: then this is a null pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdempotencyCache(Option<Box<Lists>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lists {
    closings: VecDeque<RememberedClosing>,
    requests: VecDeque<RememberedRequest>,
}

impl IdempotencyCache {
    /// The closed elicitation of this id.
    pub fn closing(&self, id: ElicitationId, now: Timestamp) -> Option<&RememberedClosing> {
        let found = self.0.as_ref()?.closings.iter().rev().take(MEMORY_LENGTH).find(|closing| closing.id == id)?;
        (now.since(found.at) < MEMORY_SPAN).then_some(found)
    }

    /// The elicitation that was closed last.
    pub fn last_closing(&self) -> Option<&RememberedClosing> {
        self.0.as_ref()?.closings.back()
    }

    /// The call of this request id.
    pub fn request(&self, rpc: Rpc, request_id: &str, now: Timestamp) -> Option<&RememberedRequest> {
        let same = |known: &&RememberedRequest| known.rpc == rpc && *known.request_id == *request_id;
        let found = self.0.as_ref()?.requests.iter().rev().take(MEMORY_LENGTH).find(same)?;
        (now.since(found.at) < MEMORY_SPAN).then_some(found)
    }

    /// Remembers a closed elicitation, as the latest.
    pub fn push_closing(&mut self, closing: RememberedClosing) {
        self.0.get_or_insert_default().closings.push_back(closing);
    }

    /// Remembers a request id, as the latest.
    pub fn push_request(&mut self, request: RememberedRequest) {
        self.0.get_or_insert_default().requests.push_back(request);
    }

    pub(super) fn pop_closing(&mut self) {
        if let Some(lists) = &mut self.0 {
            lists.closings.pop_back();
        }
        self.shed();
    }

    pub(super) fn pop_request(&mut self) {
        if let Some(lists) = &mut self.0 {
            lists.requests.pop_back();
        }
        self.shed();
    }

    /// Turns empty lists into the null pointer, so that [`IdempotencyCache::is_empty`] and the comparison of records
    /// work.
    fn shed(&mut self) {
        if self.0.as_ref().is_some_and(|lists| lists.closings.is_empty() && lists.requests.is_empty()) {
            self.0 = None;
        }
    }

    /// Drops entries that are too old, or exceed the maximum number, and passes the store row of each to `forgotten`.
    pub fn forget(&mut self, now: Timestamp, mut forgotten: impl FnMut(u64)) {
        let Some(lists) = &mut self.0 else { return };
        let outdated = |at: Timestamp, length: usize| length > MEMORY_LENGTH || now.since(at) >= MEMORY_SPAN;
        while let Some(first) = lists.closings.front().filter(|first| outdated(first.at, lists.closings.len())) {
            forgotten(first.row);
            lists.closings.pop_front();
        }
        while let Some(first) = lists.requests.front().filter(|first| outdated(first.at, lists.requests.len())) {
            forgotten(first.row);
            lists.requests.pop_front();
        }
        self.shed();
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// A fingerprint of a call's content: 128 bits over the length and bytes of each part. It is the same in every process,
/// because it is stored. A caller who forges a collision affects only its own calls.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u128 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { boot: seconds * 1_000_000_000, wall: 0 }
    }

    fn closing(id: u128, seconds: i64) -> RememberedClosing {
        RememberedClosing { id: ElicitationId(id), how: PauseEnd::Decremented, at: at(seconds), row: id as u64 }
    }

    #[test]
    fn the_latest_1024_closings_are_remembered_for_10_minutes() {
        let mut memory = IdempotencyCache::default();
        (0..1_030).for_each(|i| memory.push_closing(closing(i, 0)));
        // Within a batch too, before anything is forgotten.
        assert!(memory.closing(ElicitationId(5), at(1)).is_none() && memory.closing(ElicitationId(6), at(1)).is_some());
        let mut rows = Vec::new();
        memory.forget(at(1), |row| rows.push(row));
        assert_eq!(rows, [0, 1, 2, 3, 4, 5]);
        assert!(memory.closing(ElicitationId(5), at(1)).is_none());
        assert!(memory.closing(ElicitationId(6), at(599)).is_some());
        assert!(memory.closing(ElicitationId(6), at(600)).is_none());
        assert!(!memory.is_empty());
        memory.forget(at(600), |_| ());
        assert!(memory.is_empty());
    }

    #[test]
    fn a_fingerprint_knows_where_a_part_ends() {
        let of = |parts: [&str; 2]| fingerprint(parts.map(str::as_bytes));
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
        assert_eq!(of(["a", "b"]), 224_203_931_220_717_469_065_384_890_792_379_203_043, "stored: it must never change");
    }
}
