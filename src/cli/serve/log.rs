//! The log of `serve`: to standard error, as text or as JSON. A slow reader delays no call: what exceeds the buffer is dropped
//! and counted.
use crate::cli::stderr;
use tracing_subscriber::prelude::*;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// Starts the log on standard error, because standard output has the addresses. `RUST_LOG` sets the levels; the default
/// is `info`.
pub(super) fn start(format: Format) {
    let registry = tracing_subscriber::registry().with(stderr::targets("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr::Log);
    // Fails only if a subscriber is already set.
    let _ = match format {
        Format::Text => registry.with(lines.with_ansi(stderr::has_colors())).try_init(),
        Format::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
