//! Checks the service against a model of it, and checks concurrent histories of the real program.
//!
//! - `service.rs` is the model. `against_model.rs` runs the rules, the engine, and the engine over the embedded store
//!   through random steps (`steps.rs`) together with the model, and compares every answer and everything that a reader
//!   sees.
//! - `histories.rs` makes several clients (`clients.rs`) call and watch the real program through a proxy that breaks
//!   connections (`proxy.rs`), and searches for one order of everything observed that the model explains (`linear.rs`).
//!
//! `cargo test --test model`. `PROPTEST_CASES` and `PAUSEWATCH_HISTORIES` make it longer, `PROPTEST_RNG_SEED` and
//! `PAUSEWATCH_HISTORY_SEED` change the seed; each test prints its seed and how to run it again.
mod against_model;
mod clients;
mod hands;
mod histories;
mod history;
mod linear;
mod linear_tests;
mod proxy;
mod service;
mod steps;
// The module has more than these tests use.
#[allow(dead_code, unused_imports, clippy::unwrap_used)]
#[path = "../it/support/mod.rs"]
mod support;
mod system;
