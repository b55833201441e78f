//! Decides which ends of long leases are stored in a fleet. After a takeover, long leases continue from the stored end.
//!
//! - A renewal is stored if it moves the end by a sixth of the length or more from the stored one. A holder that renews
//!   each third of the length has each renewal stored. The stored end lags by less than a sixth, and a takeover adds a
//!   third, so no lease ends early.
//! - When all ends have moved (E3, or E4 by more than [`DRIFT`] in total), all are stored with the next batch.
//! - A renewal that cannot be stored counts all the same, and the next one is stored.
use crate::coordinator::store::LONG_LEASE;
use crate::core::types::ElicitationId;
use crate::core::{Effect, Timestamp};
use hashbrown::HashMap;
use std::time::Duration;

/// After stalls of this total length, all ends are stored: well below a sixth of the shortest long lease.
const DRIFT: Duration = Duration::from_secs(30);

/// The ends that this process has stored.
#[derive(Debug, Default)]
pub(super) struct LongLeases {
    stored: HashMap<ElicitationId, i64>,
    moved: bool,
    drift: Duration,
}

/// Whether the end of a lease of this length is stored.
pub(super) fn is_long(lease: Option<(Duration, Timestamp)>) -> bool {
    lease.is_some_and(|(length, _)| length >= LONG_LEASE)
}

impl LongLeases {
    /// Whether this change is a renewal whose end has to be stored.
    pub(super) fn is_due(&self, effect: &Effect) -> bool {
        let Effect::Renewed { id, after: Some((length, ends)), .. } = effect else { return false };
        let step = i64::try_from(length.as_nanos() / 6).unwrap_or(i64::MAX);
        *length >= LONG_LEASE
            && self.stored.get(id).is_none_or(|stored| ends.boot.saturating_sub(*stored).saturating_abs() >= step)
    }

    /// The change is committed. `stored`: the end of the lease was stored too.
    pub(super) fn settle(&mut self, effect: &Effect, stored: bool) {
        match effect {
            Effect::Opened(open) if is_long(open.lease) => {
                let ends = open.ends().map_or(0, |ends| ends.boot);
                self.stored.insert(open.elicitation.id, ends);
            }
            Effect::Renewed { id, after: Some((length, ends)), .. } if stored && *length >= LONG_LEASE => {
                self.stored.insert(*id, ends.boot);
            }
            Effect::Closed { open, .. } => _ = self.stored.remove(&open.elicitation.id),
            Effect::Opened(_) | Effect::Renewed { .. } => {}
        }
    }

    /// All ends have moved.
    pub(super) fn move_all(&mut self) {
        self.moved = true;
    }

    /// All ends have moved by `time`.
    pub(super) fn move_by(&mut self, time: Duration) {
        self.drift += time;
        self.moved |= self.drift >= DRIFT;
    }

    pub(super) fn have_moved(&self) -> bool {
        self.moved
    }

    /// All ends were stored.
    pub(super) fn stored_all(&mut self) {
        // The next renewal of each is stored.
        *self = LongLeases::default();
    }
}
