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
//! Features: `client` (client and stopwatches; no server, no database), `server`, `exec-server` (the MCP exec server and its
//! policy, as a library), `cli` (the program; its command `exec-server` needs that feature too). Default: the whole program.

// Some parts of a module serve the program alone: what is unused is checked with all features on.
#![cfg_attr(not(all(feature = "cli", feature = "exec-server")), allow(dead_code, unused_imports, unreachable_pub))]

#[cfg(feature = "cli")]
#[allow(missing_docs)]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
#[allow(missing_docs)]
mod clock;
#[cfg(feature = "server")]
#[allow(missing_docs)]
mod coordinator;
#[allow(missing_docs)]
mod core;
#[cfg(all(feature = "supervise", unix))]
pub mod exec;
pub mod proto;
#[cfg(all(feature = "server", unix))]
pub mod server;
#[cfg(any(feature = "client", feature = "server"))]
mod sync;
#[doc(hidden)]
pub mod test_support;
#[cfg(any(feature = "client", feature = "server"))]
mod trace;

#[cfg(feature = "client")]
pub use client::stopwatch;

/// The Rust of the pages is compiled with the documentation tests.
#[cfg(all(doctest, feature = "client"))]
#[allow(rustdoc::invalid_codeblock_attributes)] // Those for tests/docs, behind `sh` and `console`.
#[doc = include_str!("../README.md")]
#[doc = include_str!("../clients/README.md")]
mod pages {}
