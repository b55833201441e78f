//! The result of everything that may fail.

/// Any error ends the benchmark: it is printed, not handled.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
