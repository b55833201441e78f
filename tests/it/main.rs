//! One binary for all integration tests, so that they are linked once.
//!
//! Without the feature `exec-server`, it has only the tests that need no program: `tests/mutants/run` links it for each
//! mutant.
#![cfg_attr(not(feature = "exec-server"), allow(dead_code, unused_imports))]
#![allow(clippy::unwrap_used)] // The lint's exception for tests does not cover code that tests share.
#[cfg(feature = "exec-server")]
mod access;
#[cfg(feature = "exec-server")]
mod architecture;
#[cfg(feature = "exec-server")]
mod askers;
mod askers_end;
#[cfg(feature = "exec-server")]
mod audit;
mod await_thread;
#[cfg(feature = "exec-server")]
mod backup;
#[cfg(feature = "exec-server")]
mod bad_input;
#[cfg(feature = "exec-server")]
mod beside_timeout;
#[cfg(feature = "exec-server")]
mod bridge;
#[cfg(feature = "exec-server")]
mod cli_calls;
#[cfg(feature = "exec-server")]
mod cli_follow;
#[cfg(feature = "exec-server")]
mod cli_history;
#[cfg(feature = "exec-server")]
mod cli_hold;
#[cfg(feature = "exec-server")]
mod cli_operation;
#[cfg(feature = "exec-server")]
mod cli_output;
#[cfg(feature = "exec-server")]
mod cli_token;
#[cfg(feature = "exec-server")]
mod cli_watch;
#[cfg(feature = "exec-server")]
mod client_address;
#[cfg(feature = "exec-server")]
mod client_calls;
#[cfg(feature = "exec-server")]
mod client_certificates;
#[cfg(feature = "exec-server")]
mod client_hold;
#[cfg(feature = "exec-server")]
mod client_tls;
#[cfg(feature = "exec-server")]
mod client_watch;
#[cfg(feature = "exec-server")]
mod config;
mod coordinator;
#[cfg(feature = "exec-server")]
mod crash;
#[cfg(feature = "exec-server")]
mod dashboards;
mod deploy;
#[cfg(feature = "exec-server")]
mod drain;
mod durability;
mod engine;
#[cfg(feature = "exec-server")]
mod exec_server;
mod fake;
#[cfg(feature = "exec-server")]
mod few_files;
#[cfg(all(feature = "exec-server", target_os = "linux"))]
mod first_process;
#[cfg(feature = "exec-server")]
mod full_disk;
mod full_pipes;
#[cfg(feature = "exec-server")]
mod history;
#[cfg(feature = "exec-server")]
mod hook_claude;
#[cfg(feature = "exec-server")]
mod hook_clock;
#[cfg(feature = "exec-server")]
mod hook_events;
#[cfg(feature = "exec-server")]
mod hook_settings;
#[cfg(feature = "exec-server")]
mod hostile;
#[cfg(feature = "exec-server")]
mod http;
#[cfg(feature = "exec-server")]
mod identity;
#[cfg(feature = "exec-server")]
mod interrupted;
mod leases;
mod limits;
#[cfg(feature = "exec-server")]
mod list_watch;
#[cfg(feature = "exec-server")]
mod listeners;
#[cfg(feature = "exec-server")]
mod logs;
#[cfg(all(feature = "exec-server", target_os = "linux"))]
mod lower_priority;
mod max_wall;
#[cfg(feature = "exec-server")]
mod metrics;
#[cfg(feature = "exec-server")]
mod other_clients;
#[cfg(feature = "exec-server")]
mod policy;
#[cfg(feature = "exec-server")]
mod power_loss;
#[cfg(feature = "exec-server")]
mod program;
#[cfg(feature = "exec-server")]
mod pty;
#[cfg(feature = "exec-server")]
mod run_job_control;
#[cfg(feature = "exec-server")]
mod run_pauses;
#[cfg(feature = "exec-server")]
mod run_report;
#[cfg(feature = "exec-server")]
mod run_rules;
#[cfg(feature = "exec-server")]
mod run_terminal;
#[cfg(feature = "exec-server")]
mod run_vs_timeout;
#[cfg(feature = "exec-server")]
mod sandbox;
#[cfg(feature = "exec-server")]
mod server_tls;
mod service;
#[cfg(feature = "exec-server")]
mod service_manager;
#[cfg(feature = "exec-server")]
mod shell;
mod sleep;
mod stopwatch;
mod stopwatch_controller;
mod stopwatch_server;
mod store_contract;
mod support;
mod test_coordinator;
#[cfg(feature = "exec-server")]
mod token_renewal;
#[cfg(feature = "exec-server")]
mod traces;
mod watch;
mod watch_changing;
#[cfg(feature = "exec-server")]
mod watch_exec;
