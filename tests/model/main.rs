//! The service against a model of it.
//!
//! - `service.rs` is the model. `against_model.rs` takes the rules, the engine, and the engine over the embedded store
//!   through random steps (`steps.rs`) together with it.
//!
//! `cargo test --test model`. `PROPTEST_CASES` makes it longer; a failure prints its seed and how to replay it.
mod against_model;
mod hands;
mod service;
mod steps;
mod system;
