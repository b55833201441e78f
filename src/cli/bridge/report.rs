//! Messages of the bridge to Codex, on standard error.
use crate::cli::failure;

/// The command in messages.
pub(super) const NAME: &str = "bridge codex";

/// Prints a line.
pub(super) fn say(message: &str) {
    failure::say(NAME, message);
}
