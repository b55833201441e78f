//! The metrics that a replica of a fleet exports beyond a single server (`docs/fleet.md`).
use super::text::{Kind, Text};
use std::time::Duration;

/// A replica at the time of a scrape.
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only replicas make one"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetState {
    /// Whether it leads.
    pub leads: bool,
    /// The term that it knows.
    pub term: u64,
    /// Log entries that it knows of and does not show yet.
    pub lag: u64,
    /// How long ago it was sure of the latest state.
    pub age: Duration,
    /// How far its clock may be from the leader's.
    pub clock_error: Duration,
    /// Terms that it has led.
    pub takeovers: u64,
    /// Attempts at etcd whose outcome was unknown.
    pub in_doubt: u64,
    /// Bytes of the log that are not in rows, at the leader.
    pub log_bytes: u64,
}

pub(super) fn show(text: &mut Text, fleet: &FleetState) {
    let FleetState { leads, term, lag, age, clock_error, takeovers, in_doubt, log_bytes } = *fleet;
    let help = "1 at the replica that leads, 0 at the others.";
    text.single("pausewatch_fleet_leader", Kind::Gauge, help, u8::from(leads));
    text.single("pausewatch_fleet_term", Kind::Gauge, "The term that the replica knows.", term);
    let help = "Log entries that the replica knows of and does not show yet.";
    text.single("pausewatch_fleet_lag_entries", Kind::Gauge, help, lag);
    let help = "How long ago the replica was sure of the latest state; above 3 it ends its watches.";
    text.single("pausewatch_fleet_state_age_seconds", Kind::Gauge, help, age.as_secs_f64());
    let help = "How far the clock of the replica may be from the leader's.";
    text.single("pausewatch_fleet_clock_error_seconds", Kind::Gauge, help, clock_error.as_secs_f64());
    text.single("pausewatch_fleet_takeovers_total", Kind::Counter, "Terms that the replica has led.", takeovers);
    let help = "Attempts of the leader at etcd whose outcome was unknown.";
    text.single("pausewatch_fleet_in_doubt_total", Kind::Counter, help, in_doubt);
    let help = "Bytes of the log that are not in rows yet, at the leader.";
    text.single("pausewatch_fleet_log_bytes", Kind::Gauge, help, log_bytes);
}
