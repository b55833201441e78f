//! Exit codes of the program itself.

/// The coordinator refused the call or did not respond, or the system refused something.
pub(crate) const FAILED: u8 = 1;
/// Bad usage, for most commands: `cli/mod.rs` has the exceptions.
pub const USAGE: u8 = 2;
/// Bad usage or our own failure, for commands that run another one, whose exit codes they return otherwise.
pub(crate) const OWN_FAILURE: u8 = 125;
