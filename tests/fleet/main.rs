//! Replicas over a real etcd: the store's contract, takeovers under faults, histories through partitions, a storm of mixed faults, the
//! clock across replicas, backup and restore, what the health of a fleet shows, and what a start refuses.
//!
//! `cargo test --test fleet`. Needs the program `etcd`, of Debian's package etcd-server; without it, each test is skipped and says so. The
//! rules of the chain, checkpoints and takeovers have unit tests with an etcd in memory (`src/coordinator/store/etcd/`). A storm of half an
//! hour: `PAUSEWATCH_STORM_FAULTS=1000 cargo test --test fleet storm -- --nocapture`.
mod backups;
mod caller;
mod certificates;
// The clients of histories, and the search for an order that explains what they saw.
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
// It has more than is needed here.
#[allow(dead_code, unused_imports, clippy::unwrap_used)]
#[path = "../it/support/mod.rs"]
mod support;
mod takeovers;
