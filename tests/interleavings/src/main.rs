//! The concurrent parts of pausewatch under shuttle: thousands of orders of their steps, each of which can be replayed.
//!
//! The sources are those of the project, built a second time: `crate::sync` gives them shuttle's locks and threads, and
//! the crate that is called tokio here gives them tasks of its scheduler and a clock that the cases move. Between the
//! client and the server, in place of the network, stands `world/client.rs`.
//!
//! A case fails if an assertion does, if everybody waits and nobody is left to wake them (a lost wake-up, a deadlock),
//! or if it takes far more steps than it should (a wait that turns in circles).
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

/// Where the sources look for it.
use world::client;

fn main() -> std::process::ExitCode {
    runner::run(cases::ALL)
}
