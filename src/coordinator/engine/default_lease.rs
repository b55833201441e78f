//! Prepares the leases that an earlier process has stored: they restart when everything is loaded, elicitations without
//! a lease get the default lease, and the maximum pause applies.
use crate::coordinator::settings::Settings;
use crate::core::{Record, Timestamp, cap, cut};

/// Restarts the leases that the store has restarted at `began`: loading takes seconds if there are many.
pub(super) fn restart_leases(records: &mut [Record], began: Timestamp, now: Timestamp) {
    for (length, ends) in records.iter_mut().flat_map(|record| &mut record.open).filter_map(|open| open.lease.as_mut())
    {
        if ends.boot == began.after(*length).boot {
            *ends = now.after(*length);
        }
    }
}

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
