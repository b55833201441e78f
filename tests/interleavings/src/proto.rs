//! The messages of the proto.
#[allow(dead_code, clippy::all)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/pausewatch.v1.rs"));
}
