//! Running commands: process groups and signals, the sandbox, the policy about commands, judging what they execute, and the MCP exec server.
//!
//! Of the rest of the crate it imports only `client`, `escape` and `http_connections`.
#[cfg(feature = "exec-server")]
pub(crate) mod judge;
#[cfg(feature = "exec-server")]
pub(crate) mod mcp;
#[cfg(feature = "exec-server")]
pub mod policy;
#[cfg(feature = "exec-server")]
pub(crate) mod sandbox;
pub(crate) mod supervise;
