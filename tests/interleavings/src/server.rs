//! The part of the server that the cases need: messages to commands and back, and refusals to statuses.
#[path = "server_access.rs"]
pub(crate) mod access;
#[path = "../../../src/server/status.rs"]
#[allow(dead_code)]
pub(crate) mod status;
#[path = "../../../src/server/grpc/wire.rs"]
#[allow(dead_code)]
pub(crate) mod wire;
