//! The generated messages and stubs of `proto/pausewatch/v1`: the only file that names generated code.

/// Package `pausewatch.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("pausewatch.v1");
    #[cfg(feature = "server")]
    include!(concat!(env!("OUT_DIR"), "/server/pausewatch.v1.rs"));
}

/// The encoded `FileDescriptorSet` of the package and what it imports, for reflection and the JSON mapping.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pausewatch.bin"));
