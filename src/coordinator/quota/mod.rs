//! Limits in total and per caller.
//!
//! By default one caller may have half of the total, so that the other half stays available to others. The rate of
//! calls is not limited, because a caller may be the proxy in front of many clients. [`CallerKey`] identifies a caller.
mod account;
mod rate;

pub(crate) use account::{Account, StreamPermit, Weight};
pub use account::{Accounts, CallerKey};
pub(crate) use rate::Rate;

pub(crate) use crate::core::{Exceeded, Limit};

/// A limit in total and per caller; `None`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPair {
    /// All callers together.
    pub in_all: Option<u64>,
    /// Each caller.
    pub per_caller: Option<u64>,
}

impl LimitPair {
    /// The total, and half of it for each caller.
    pub const fn halves(in_all: u64) -> Self {
        LimitPair { in_all: Some(in_all), per_caller: Some(in_all / 2) }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections; fewer where the system allows fewer files.
    pub connections: LimitPair,
    /// Streams: watches, and those of health and reflection.
    pub streams: LimitPair,
    /// Thread ids that watches name.
    pub watched: LimitPair,
    /// Open elicitations.
    pub open: LimitPair,
    /// Known threads: those that are paused, or were within a day.
    pub threads: LimitPair,
    /// Calls a second.
    pub calls: LimitPair,
    /// Increments that are remembered: as many at once, and then as many in 10 minutes.
    pub remembered: LimitPair,
}

impl Default for Limits {
    /// Suits a fleet without any option. The memory of each resource: `docs/limits.md`.
    fn default() -> Self {
        Limits {
            connections: LimitPair::halves(65_536),
            streams: LimitPair::halves(262_144),
            watched: LimitPair::halves(1_000_000),
            open: LimitPair::halves(1_000_000),
            threads: LimitPair::halves(1_000_000),
            calls: LimitPair { in_all: None, per_caller: None },
            remembered: LimitPair::halves(1_000_000),
        }
    }
}
