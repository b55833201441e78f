//! Exit codes of the program itself.

/// The coordinator refused the call or did not respond, or the system refused something.
pub(crate) const FAILED: u8 = 1;
/// Bad usage, for all commands except `run` and `hold`.
pub const USAGE: u8 = 2;
/// Bad usage or a failure of our own, for `run` and `hold`: other codes are those of the command that they run.
pub(crate) const OWN_FAILURE: u8 = 125;
