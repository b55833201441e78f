//! G7 over the network: clients that violate HTTP/2, and hostile clients that respect it. The server's memory stays
//! bounded, and calls of another client, also over new connections, are answered meanwhile. `cargo test --test it
//! hostile -- --nocapture` prints the measurements.
mod connections;
mod floods;
mod frames;
mod held;
mod loops;
mod maximum;
mod requests;
mod unread;

use crate::support::{Process, Report};
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Long enough for the server to close a connection; if it is open afterwards, it stays open.
const A_WHILE: Duration = Duration::from_millis(300);

fn serve() -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let mut server = Process::start(command);
    server.listen();
    server
}

fn assert_bounded(report: &Report, most: usize) {
    assert!(report.peak < most, "memory grew by {} MiB; the bound is {} MiB", report.peak / MIB, most / MIB);
    // Only that calls were answered: how fast depends on the machine, and `benches/run hostile` measures it.
    assert!(report.calls > 0, "{report:?}");
}

/// Whether the attack used all of the budget of `memory_budget.rs`. If the server refused the calls, its memory would be
/// bounded too.
async fn assert_budget_is_used_up(server: Process) {
    server.hears("exceed 134217728 bytes: connections are closed").await;
}
