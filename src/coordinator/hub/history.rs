//! The latest ended pauses, in bounded memory. A restart forgets them; the audit trail has all.
//!
//! - P1: at most [`MAX_PAUSES`] are kept, in at most [`MAX_BYTES`]; the oldest is dropped first.
//! - P2: pauses are numbered in the order in which they end, so that a reader can continue below a number while others
//!   end.
//! - P3: the closed elicitations of open pauses are bounded per pause and in total; those that do not fit are only
//!   counted.
use crate::core::types::ThreadId;
use crate::core::{Elicitation, PauseEnd, Timestamp};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of ended pauses that are kept: some days of one person's agents. A scan of all of them takes less
/// than a millisecond.
pub(super) const MAX_PAUSES: usize = 4_096;
/// Bytes of ended pauses that are kept: texts of callers may be 1.5 kB for each elicitation.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Closed elicitations that are kept per pause: more than people are asked at once. With every text at its limit, a
/// pause takes a fortieth of the memory.
pub(super) const MAX_ELICITATIONS: usize = 16;
/// Bytes of closed elicitations of all open pauses.
pub(super) const MAX_OPEN_BYTES: usize = 1 << 20;

/// An elicitation that is no longer open.
#[derive(Clone, Debug)]
pub struct ClosedElicitation {
    /// The elicitation.
    pub elicitation: Arc<Elicitation>,
    /// When it was closed.
    pub closed: Timestamp,
    /// How it was closed.
    pub how: PauseEnd,
}

impl ClosedElicitation {
    /// Its size in memory, the counts of its `Arc` included.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.elicitation.reason.len() + self.elicitation.holder.len();
        size_of::<Self>() + size_of::<Elicitation>() + 2 * size_of::<usize>() + texts
    }
}

/// A pause that has ended.
#[derive(Debug)]
pub struct EndedPause {
    /// Its number. Numbers are consecutive.
    pub number: u64,
    /// The thread.
    pub thread: ThreadId,
    /// When it began.
    pub since: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub how: PauseEnd,
    /// Its elicitations in the order in which they were closed.
    pub elicitations: SmallVec<[ClosedElicitation; 1]>,
    /// How many more there were.
    pub omitted: u32,
}

impl EndedPause {
    /// How long it was.
    pub fn length(&self) -> Duration {
        self.ended.since(self.since)
    }

    fn bytes(&self) -> usize {
        let elicitations = self.elicitations.iter().map(ClosedElicitation::bytes).sum::<usize>();
        size_of::<Self>() + 3 * size_of::<usize>() + self.thread.as_str().len() + elicitations
    }
}

/// The closed elicitations of an open pause.
#[derive(Debug, Default)]
pub struct ClosedSoFar {
    kept: SmallVec<[ClosedElicitation; 1]>,
    omitted: u32,
}

/// The pauses that have ended.
#[derive(Debug, Default)]
pub struct History {
    /// In the order of their numbers, without a gap.
    pauses: VecDeque<Arc<EndedPause>>,
    pub(super) bytes: usize,
    /// Pauses that have ended: the number of the last one.
    ended: u64,
    /// Bytes that open pauses remember.
    pub(super) open_bytes: usize,
    /// When the history began. Pauses that ended before are not known.
    began: Timestamp,
    /// No pause that ended after this is missing, in nanoseconds of the wall clock.
    complete_from: i64,
}

impl History {
    pub(super) fn begin(&mut self, now: Timestamp) {
        (self.began, self.complete_from) = (now, now.wall);
    }

    pub(super) fn began(&self) -> Timestamp {
        self.began
    }

    pub(super) fn complete_from(&self) -> i64 {
        self.complete_from
    }

    /// Records an elicitation that was closed while the pause continues.
    pub(super) fn remember(&mut self, so_far: &mut ClosedSoFar, closed: ClosedElicitation) {
        let bytes = self.open_bytes + closed.bytes();
        if so_far.kept.len() + 1 < MAX_ELICITATIONS && bytes <= MAX_OPEN_BYTES {
            self.open_bytes = bytes;
            so_far.kept.push(closed);
        } else {
            so_far.omitted = so_far.omitted.saturating_add(1);
        }
    }

    /// Adds a pause that ended when `last` was closed.
    pub fn end(
        &mut self,
        thread: &ThreadId,
        since: Timestamp,
        so_far: Option<Box<ClosedSoFar>>,
        last: ClosedElicitation,
    ) {
        let ClosedSoFar { kept: mut elicitations, omitted } = so_far.map_or_else(Default::default, |so_far| *so_far);
        self.open_bytes -= elicitations.iter().map(ClosedElicitation::bytes).sum::<usize>();
        let (ended, how) = (last.closed, last.how);
        elicitations.push(last);
        self.ended += 1;
        let pause = EndedPause { number: self.ended, thread: thread.clone(), since, ended, how, elicitations, omitted };
        self.bytes += pause.bytes();
        self.pauses.push_back(Arc::new(pause));
        while self.pauses.len() > MAX_PAUSES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.pauses.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.complete_from = self.complete_from.max(oldest.ended.wall.saturating_add(1));
        }
    }

    /// The pauses with numbers below `below`, the last one first.
    pub(super) fn below(&self, below: u64) -> impl Iterator<Item = &Arc<EndedPause>> {
        let newer = self.ended.saturating_add(1).saturating_sub(below);
        self.pauses.iter().rev().skip(usize::try_from(newer).unwrap_or(usize::MAX))
    }
}
