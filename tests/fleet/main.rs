//! Replicas over a real etcd: the store's contract, takeovers under faults, histories through partitions, a storm of
//! mixed faults, the clock across replicas, backup and restore, the health of a fleet, and what a start refuses.
//!
//! `cargo test --test fleet`. Needs the program `etcd`, from Debian's package etcd-server; without it, each test is
//! skipped and prints that. The rules of the chain, checkpoints and takeovers have unit tests with an etcd in memory
//! (`src/coordinator/store/etcd/`). For a storm of half an hour: `PAUSEWATCH_STORM_FAULTS=1000 cargo test --test fleet
//! storm -- --nocapture`.
mod backups;
mod caller;
mod certificates;
// The clients of histories, and the search for an order that explains what they observed.
#[allow(dead_code)]
#[path = "../model/clients.rs"]
mod clients;
mod clocks;
mod concurrent;
mod contract;
mod etcd;
mod followers;
mod health;
mod histories;
#[allow(dead_code)]
#[path = "../model/history.rs"]
mod history;
mod hostile;
#[path = "../model/linear.rs"]
mod linear;
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../it/program.rs"]
mod program;
mod proxy;
mod rights;
#[allow(dead_code)]
#[path = "../model/service.rs"]
mod service;
mod site;
mod start;
mod storm;
// The module has more than these tests use.
#[allow(dead_code, unused_imports, clippy::unwrap_used)]
#[path = "../it/support/mod.rs"]
mod support;
mod takeovers;
