//! One binary for all integration tests: they link once.
#![allow(clippy::unwrap_used)] // The lint's own exception for tests does not see what tests share.
mod cli_calls;
mod cli_hold;
mod cli_output;
mod cli_watch;
mod client_calls;
mod client_hold;
mod client_watch;
mod drain;
mod engine;
mod fake;
mod leases;
mod listeners;
mod program;
mod run_job_control;
mod run_pauses;
mod run_vs_timeout;
mod service;
mod shell;
mod stopwatch;
mod stopwatch_controller;
mod stopwatch_server;
mod store_contract;
mod support;
mod watch;
