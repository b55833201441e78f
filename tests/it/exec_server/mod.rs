//! `pausewatch exec-server`, as an MCP client sees it.
mod attacks;
pub(crate) mod client;
mod commands;
mod ends;
mod git_settings;
mod http;
mod http_approval;
mod http_tokens;
mod load;
pub(crate) mod nested;
mod pauses;
mod prompts;
mod workdir;
