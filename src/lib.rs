//! wip
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(all(feature = "client", unix))]
pub mod exec;
pub mod proto;
#[cfg(feature = "client")]
pub mod stopwatch;
