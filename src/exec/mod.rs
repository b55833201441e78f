//! Running commands: process groups and signals, the sandbox, the policy about commands, judging what they execute, and the MCP exec server.
//!
//! May import `client`; of the rest of the crate, nothing.
#[cfg(feature = "exec-server")]
pub(crate) mod judge;
#[cfg(feature = "exec-server")]
pub(crate) mod mcp;
#[cfg(feature = "exec-server")]
pub mod policy;
#[cfg(feature = "exec-server")]
pub(crate) mod sandbox;
pub(crate) mod supervise;
