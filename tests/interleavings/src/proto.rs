//! The messages of the proto.
#[allow(dead_code, clippy::all)]
pub mod v1 {
    include!("../../../src/proto/messages.rs");
}
