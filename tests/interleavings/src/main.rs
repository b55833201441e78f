//! The concurrent parts of pausewatch under shuttle: thousands of orders of their steps, each of which can be replayed.
//!
//! The sources of the project are compiled a second time: `crate::sync` gives them shuttle's locks and threads, and the
//! crate that is called tokio here gives them tasks of shuttle's scheduler and a clock that the cases advance.
//! `world/client.rs` replaces the network between the client and the server.
//!
//! A case fails if an assertion fails, if all tasks wait and none can wake them (a lost wake-up, a deadlock), or if it
//! takes far more steps than it should (an endless loop).
mod cases;
mod proto;
mod runner;
mod server;
mod sync;
mod world;

#[path = "../../../src/causes.rs"]
#[allow(dead_code)]
mod causes;
#[path = "../../../src/clock.rs"]
#[allow(dead_code)]
mod clock;
#[path = "../../../src/coordinator/mod.rs"]
#[allow(dead_code, unused_imports)]
mod coordinator;
#[path = "../../../src/core/mod.rs"]
#[allow(dead_code, unused_imports)]
mod core;
#[path = "../../../src/coordinator/store/etcd/progress.rs"]
#[allow(dead_code)]
mod progress;
#[path = "../../../src/trace/mod.rs"]
#[allow(dead_code, unused_imports)]
mod trace;

/// The sources import it from here.
use world::client;

fn main() -> std::process::ExitCode {
    runner::run(cases::ALL)
}
