//! Why `token` fails.
use crate::cli::failure;
use std::io;
use std::path::Path;

/// Why there is no token: wrong usage, or a failure.
pub(super) enum Problem {
    Usage(String),
    Failed(String),
}

pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::Failed(format!("{what} {}: {}", path.display(), failure::without_number(&error.to_string())))
}
