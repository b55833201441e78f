//! `pausewatch` freezes the timeouts of an agent's commands while a person is being asked something.
//!
//! A *thread* is one conversation of an agent. An *elicitation* is one question put to a person. While a thread has open
//! elicitations it is paused, and the stopwatches of its commands stand still, on whatever machine they run.
//!
//! - To ask a person without running out of time: [`client::Client::hold`].
//! - To run commands under timeouts that pause: [`stopwatch`].
//! - To serve: [`server::Server`], or the program `pausewatch serve`.
//!
//! A call goes one way through the server, and what it changed comes out at the watchers:
//!
//! ```text
//! wire -> service -> coordinator -> core::decide -> store.commit -> (committed changes) -> hub -> watch -> wire
//! ```
//!
//! Features: `client` (client and stopwatches; no server, no database), `server`, `cli` (the program), `policy` (rules about
//! commands), `exec-server` (the program with its command of this name; default).
#[cfg(feature = "server")]
pub mod access;
#[cfg(all(feature = "server", unix))]
pub mod audit;
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
#[cfg(feature = "server")]
pub mod limits;
#[cfg(all(feature = "exec-server", unix))]
pub mod mcp;
#[cfg(feature = "server")]
pub mod metrics;
#[cfg(feature = "server")]
mod outlet;
#[cfg(feature = "policy")]
pub mod policy;
pub mod proto;
#[cfg(all(feature = "cli", unix))]
pub mod sandbox;
#[cfg(all(feature = "server", unix))]
pub mod server;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "client")]
pub mod stopwatch;
#[cfg(feature = "server")]
pub mod store;
#[cfg(any(feature = "client", feature = "server"))]
mod sync;
#[cfg(any(feature = "client", feature = "server"))]
mod trace;

/// The Rust of the pages is compiled with the documentation tests.
#[cfg(all(doctest, feature = "client"))]
#[allow(rustdoc::invalid_codeblock_attributes)] // Those for tests/docs, behind `sh` and `console`.
#[doc = include_str!("../README.md")]
#[doc = include_str!("../clients/README.md")]
mod pages {}
