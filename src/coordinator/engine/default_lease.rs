//! Elicitations that were opened without a lease, while the server had no default lease; and leases that were given by a server
//! with another maximum pause.
use crate::coordinator::settings::Settings;
use crate::core::{Record, Timestamp, cap, cut};

/// Gives what asked for no ttl, and has no lease, the lease that it would be opened with now (G2). It is not stored: the next
/// start gives it that of its own. Cuts all leases to the maximum pause (E5).
pub(super) fn give_leases(records: &mut [Record], settings: &Settings, now: Timestamp) {
    let default = settings.anonymous_ttl.or(settings.max_pause);
    for record in records {
        let cap = cap(&record.header.pause, settings.max_pause);
        for open in &mut record.open {
            if let (None, true, Some(ttl)) = (open.lease, open.anonymous, default) {
                open.lease = Some((ttl, now.after(ttl)));
            }
            if let Some((_, ends)) = &mut open.lease {
                *ends = cut(*ends, cap);
            }
        }
    }
}
