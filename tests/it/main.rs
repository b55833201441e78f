//! The integration tests: one binary, so that they link once.
mod drain;
mod engine;
mod leases;
mod listeners;
mod service;
mod support;
mod watch;
