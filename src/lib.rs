//! `pausewatch` freezes the timeouts of an agent's commands while a person is being asked something.
//!
//! A *thread* is one conversation of an agent. An *elicitation* is one open question to a person. While a thread has open
//! elicitations, it is paused and the stopwatches of its commands stop, on every machine.
//!
//! - [`client::Client::hold`] pauses a thread while a person is being asked.
//! - [`stopwatch`] has timeouts that pause with their thread.
//! - [`server::Server`] is the coordinator, like the program `pausewatch serve`.
//! - [`testing::TestCoordinator`] is one for the tests of your program.
//!
//! A call takes one path through the server, and its change is sent to the watchers:
//!
//! ```text
//! wire -> grpc -> coordinator -> core::decide -> store.commit -> (committed changes) -> hub -> watch -> wire
//! ```
//!
//! Features: `client` (client and stopwatches; no server, no database), `server`, `etcd` (a server as a replica over etcd), `exec-server` (the MCP exec server and its
//! policy, as a library), `cli` (the program; its command `exec-server` needs that feature too). Default: the whole program.

// The exceptions are in src/exec/judge, src/exec/supervise/prepare.rs and src/coordinator/store/embedded/lower_priority.rs:
// see decisions 3, 4 and 6 in docs/decisions.
#![deny(unsafe_code)]
// docs.rs shows the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Some items serve the program alone; unused items are checked with all features enabled.
#![cfg_attr(not(all(feature = "cli", feature = "exec-server")), allow(dead_code, unused_imports, unreachable_pub))]

#[cfg(any(feature = "client", feature = "etcd"))]
mod causes;
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
#[cfg(any(feature = "server", feature = "exec-server"))]
mod escape;
#[cfg(all(feature = "supervise", unix))]
pub mod exec;
#[cfg(any(feature = "server", feature = "exec-server"))]
mod http_connections;
pub mod proto;
#[cfg(all(feature = "server", unix))]
pub mod server;
#[cfg(any(feature = "client", feature = "server"))]
mod sync;
#[doc(hidden)]
pub mod test_support;
#[cfg(all(feature = "client", feature = "server", unix))]
pub mod testing;
#[cfg(any(feature = "client", feature = "server"))]
mod trace;

#[cfg(feature = "client")]
pub use client::stopwatch;

/// The Rust code of these pages is compiled with the documentation tests.
#[cfg(all(doctest, feature = "client"))]
#[allow(rustdoc::invalid_codeblock_attributes)] // Attributes of `sh` and `console` blocks, for tests/docs.
#[doc = include_str!("../README.md")]
#[doc = include_str!("../clients/README.md")]
mod pages {}
