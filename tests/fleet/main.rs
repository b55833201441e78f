//! Replicas over a real etcd: the store's contract, takeovers under faults, the clock across them, and what a start refuses.
//!
//! `cargo test --test fleet`. Needs the program `etcd`, of Debian's package etcd-server; without it, each test is skipped and says
//! so. The rules of the chain, checkpoints and takeovers have unit tests with an etcd in memory (`src/coordinator/store/etcd/`).
mod caller;
mod clocks;
mod contract;
mod etcd;
mod followers;
mod rights;
mod start;
// It has more than is needed here.
#[allow(dead_code, unused_imports, clippy::unwrap_used)]
#[path = "../it/support/mod.rs"]
mod support;
mod takeovers;
