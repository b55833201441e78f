//! The inputs of the program, as functions of arbitrary bytes: each panics if a guarantee is broken, and returns
//! otherwise.
//!
//! `tests/it/bad_input.rs` calls them with a few thousand inputs in every `cargo test`; `fuzz/run` lets libFuzzer
//! search for any length of time, guided by coverage.
mod access;
mod address;
mod audit;
mod bridge;
mod config;
mod duration;
mod hook;
mod http;
mod pinentry;
mod policy;
mod store;
mod wire;

/// One input of the program.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Checks the guarantees for one input.
    pub(crate) check: fn(&[u8]),
    /// Initial inputs that get past the first checks.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// The number of inputs in a short run: about a second's worth.
    pub(crate) rounds: u64,
}

pub(crate) const TARGETS: [Target; 12] = [
    Target { name: "access", check: access::check, seeds: access::seeds, rounds: 4_000 },
    Target { name: "address", check: address::check, seeds: address::seeds, rounds: 20_000 },
    Target { name: "audit", check: audit::check, seeds: audit::seeds, rounds: 10_000 },
    Target { name: "bridge", check: bridge::check, seeds: bridge::seeds, rounds: 20_000 },
    Target { name: "duration", check: duration::check, seeds: duration::seeds, rounds: 50_000 },
    Target { name: "hook", check: hook::check, seeds: hook::seeds, rounds: 10_000 },
    Target { name: "http", check: http::check, seeds: http::seeds, rounds: 2_000 },
    Target { name: "pinentry", check: pinentry::check, seeds: pinentry::seeds, rounds: 20_000 },
    Target { name: "config", check: config::check, seeds: config::seeds, rounds: 4_000 },
    Target { name: "wire", check: wire::check, seeds: wire::seeds, rounds: 4_000 },
    Target { name: "policy", check: policy::check, seeds: policy::seeds, rounds: 1_000 },
    Target { name: "store", check: store::check, seeds: store::seeds, rounds: 120 },
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
