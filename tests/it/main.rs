//! One binary for all integration tests: they link once.
mod cli_calls;
mod cli_hold;
mod cli_output;
mod cli_watch;
mod program;
