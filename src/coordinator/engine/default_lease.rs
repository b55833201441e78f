//! Applies the settings of this server to leases from an earlier one: a default lease for elicitations without a lease,
//! and the maximum pause.
use crate::coordinator::settings::Settings;
use crate::core::{Record, Timestamp, cap, cut};

/// Gives elicitations without a lease the default lease (G2). It is not stored: the next start applies its own default.
/// Cuts all leases to the maximum pause (E5).
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
