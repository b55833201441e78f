//! `pausewatch exec-server`, as an MCP client sees it.
mod client;
mod commands;
mod pauses;
