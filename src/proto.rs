//! The generated messages and stubs of `proto/pausewatch/v1`: the only file that names generated code.
//!
//! `clients/rust/generate` generates it, and CI checks that it is up to date.

/// Package `pausewatch.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    include!("proto/messages.rs");
    #[cfg(feature = "client")]
    include!("proto/client.rs");
    #[cfg(feature = "server")]
    include!("proto/server.rs");
}

/// The encoded `FileDescriptorSet` of the package and what it imports, for reflection and the JSON mapping.
pub const DESCRIPTORS: &[u8] = include_bytes!("proto/descriptors.bin");
