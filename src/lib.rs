//! wip
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod clock;
#[cfg(feature = "server")]
pub mod coordinator;
pub mod core;
#[cfg(all(feature = "client", unix))]
pub mod exec;
#[cfg(feature = "server")]
pub mod hub;
pub mod proto;
#[cfg(all(feature = "server", unix))]
pub mod server;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "client")]
pub mod stopwatch;
#[cfg(feature = "server")]
pub mod store;
