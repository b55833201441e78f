//! Elicitations that were opened without a lease, while the server had no default lease.
use crate::core::{Record, Timestamp};
use std::time::Duration;

/// Gives what asked for no ttl, and has no lease, the lease that it would be opened with now (G2). It is not stored: the next
/// start gives it that of its own.
pub(super) fn give_leases(records: &mut [Record], anonymous_ttl: Option<Duration>, now: Timestamp) {
    let Some(ttl) = anonymous_ttl else { return };
    let open = records.iter_mut().flat_map(|record| &mut record.open);
    for open in open.filter(|open| open.anonymous && open.lease.is_none()) {
        open.lease = Some((ttl, now.after(ttl)));
    }
}
