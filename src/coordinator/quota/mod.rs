//! How much one caller, and all together, may have of a server.
//!
//! By default one caller may have half of what there is, so that the other half is always there for the others; how many
//! calls a second is not limited, since a caller may be the proxy in front of a whole fleet. Who a caller is:
//! [`CallerKey`].
mod account;
mod rate;

pub(crate) use account::{Account, StreamPermit, Weight};
pub use account::{Accounts, CallerKey};
pub(crate) use rate::Rate;

pub(crate) use crate::core::{Exceeded, Limit};

/// What is in all, and what one caller may have of it; `None`: as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPair {
    /// Of all callers together.
    pub in_all: Option<u64>,
    /// Of each.
    pub per_caller: Option<u64>,
}

impl LimitPair {
    /// So much, half of it for each caller.
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
}

impl Default for Limits {
    /// So that a fleet works without any option. What each takes at its limit: `docs/limits.md`.
    fn default() -> Self {
        Limits {
            connections: LimitPair::halves(65_536),
            streams: LimitPair::halves(262_144),
            watched: LimitPair::halves(1_000_000),
            open: LimitPair::halves(1_000_000),
            threads: LimitPair::halves(1_000_000),
            calls: LimitPair { in_all: None, per_caller: None },
        }
    }
}
