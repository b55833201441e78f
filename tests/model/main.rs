//! The service against a model of it, and concurrent histories of the real program.
//!
//! - `service.rs` is the model. `against_model.rs` takes the rules, the engine, and the engine over the embedded store
//!   through random steps (`steps.rs`) together with it, and compares every answer and all that a reader sees.
//! - `histories.rs` lets several clients (`clients.rs`) call and watch the real program through a proxy that breaks
//!   connections (`proxy.rs`), and looks for one order of all that they saw that the model explains (`linear.rs`).
//!
//! `cargo test --test model`. `PROPTEST_CASES` and `PAUSEWATCH_HISTORIES` make it longer, `PROPTEST_RNG_SEED` and
//! `PAUSEWATCH_HISTORY_SEED` other; each test prints its seed and how to run it again.
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
// It has more than is needed here.
#[allow(dead_code, unused_imports, clippy::unwrap_used)]
#[path = "../it/support/mod.rs"]
mod support;
mod system;
