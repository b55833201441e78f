//! G7 on the wire: clients that speak HTTP/2 badly, or well and with bad intent. The server's memory stays bounded, and
//! another client's calls, from new connections too, are answered meanwhile. `cargo test --test it hostile -- --nocapture`
//! prints what was measured.
mod connections;
mod frames;
mod requests;
mod unread;

use crate::support::{Process, Report};
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Long enough for the server to close a connection, or to show that it will not.
const A_WHILE: Duration = Duration::from_millis(300);

fn serve() -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    Process::start(command)
}

fn assert_bounded(report: &Report, most: usize) {
    assert!(report.peak < most, "memory grew by {} MiB; the bound is {} MiB", report.peak / MIB, most / MIB);
    // Each of them was answered. How fast is a question of the machine: `benches/run hostile`.
    assert!(report.calls > 0, "{report:?}");
}
