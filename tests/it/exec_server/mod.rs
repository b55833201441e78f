//! `pausewatch exec-server`, as an MCP client sees it.
mod client;
mod commands;
mod http;
mod load;
mod pauses;
mod prompts;
