//! `pausewatch bridge codex` between a fake client and a fake app-server; `tests/agents/codex` uses the real one.
mod fake;
mod publish;
mod socket;
mod wrapper;

use crate::program::Coordinator;
use std::path::Path;

/// A coordinator that keeps its address and its state across restarts.
pub(crate) fn lasting(directory: &Path) -> Coordinator {
    let listen = format!("unix:{}", directory.join("coordinator").display());
    let data = directory.join("data");
    Coordinator::start_with(["--listen", &listen, "--data-dir", data.to_str().unwrap()])
}

/// Pauses `thread`.
fn pause(coordinator: &Coordinator, thread: &str) {
    coordinator.answer(["increment", "--thread-id", thread]);
}

/// Ends the pause of `thread`.
fn resume(coordinator: &Coordinator, thread: &str) {
    coordinator.answer(["decrement", "--thread-id", thread]);
}
