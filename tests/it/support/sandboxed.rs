//! Commands in the sandbox.
use pausewatch::test_support::sandbox::Sandbox;
use std::{ffi::OsStr, process::Command};

/// A command that runs `program` in the sandbox, as the exec server starts it.
pub(crate) fn sandboxed<A: AsRef<OsStr>>(
    sandbox: &Sandbox,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["exec-child", "--parent", &std::process::id().to_string(), "--sandbox"]);
    for root in sandbox.writable() {
        command.arg("--writable").arg(root);
    }
    command.arg("--").arg(program).args(arguments);
    command
}
