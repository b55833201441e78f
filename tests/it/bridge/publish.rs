//! `pausewatch bridge codex --publish`.
use super::{fake::AppServer, lasting};
use crate::program::{Coordinator, Process};
use serde_json::json;
use tempfile::TempDir;

/// A bridge whose app-server has the thread `t`.
fn start(coordinator: &Coordinator, options: &[&str]) -> (AppServer, Process, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut server = AppServer::listen(&socket);
    let mut command = coordinator.command(["bridge", "codex", "--socket"]);
    command.arg(&socket).args(options);
    let bridge = Process::start(command);
    server.accept("0.169.0", &["t"]);
    (server, bridge, directory)
}

fn waits(server: &mut AppServer, flags: &[&str]) {
    let status = json!({"type": "active", "activeFlags": flags});
    server.say(&json!({"method": "thread/status/changed", "params": {"threadId": "t", "status": status}}));
}

#[test]
fn the_thread_is_paused_while_codex_waits_for_a_person() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let (mut server, _bridge, _directory) = start(&coordinator, &["--publish"]);
    for (flag, reason) in [("waitingOnApproval", "an approval"), ("waitingOnUserInput", "an answer")] {
        waits(&mut server, &[flag]);
        watching.wait_for(1);
        let listed = coordinator.answer(["list"]);
        assert!(listed.contains(&format!("codex   Codex waits for {reason}")), "{listed}");
        server.increment("t");
        waits(&mut server, &[]);
        watching.wait_for(0);
        server.decrement("t");
    }
}

#[test]
fn what_was_published_ends_with_the_bridge() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let (mut server, bridge, _directory) = start(&coordinator, &["--publish"]);
    waits(&mut server, &["waitingOnApproval"]);
    watching.wait_for(1);
    server.increment("t");
    bridge.signal(rustix::process::Signal::TERM);
    server.decrement("t");
    watching.wait_for(0);
    assert_eq!(bridge.end().code, Some(0));
}

#[test]
fn nothing_is_published_without_the_option() {
    let coordinator = Coordinator::start();
    let (mut server, _bridge, _directory) = start(&coordinator, &[]);
    waits(&mut server, &["waitingOnApproval"]);
    coordinator.answer(["increment"]);
    server.increment("t");
    assert_eq!(coordinator.count(), 1);
}

/// An app-server that has gone cannot report that it no longer waits.
#[test]
fn what_was_published_ends_with_the_connection_to_the_app_server() {
    let coordinator = Coordinator::start();
    let watching = coordinator.watch();
    let (mut server, _bridge, _directory) = start(&coordinator, &["--publish"]);
    waits(&mut server, &["waitingOnApproval"]);
    watching.wait_for(1);
    server.increment("t");
    server.close();
    watching.wait_for(0);
}

#[test]
fn a_wait_that_began_without_a_coordinator_is_published_when_there_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = lasting(directory.path());
    let (mut server, bridge, _directory) = start(&coordinator, &["--publish"]);
    drop(coordinator);
    assert!(bridge.error_line().contains("no coordinator at"), "the connection is lost");
    waits(&mut server, &["waitingOnApproval"]);
    let failed = bridge.error_line();
    assert!(failed.contains("cannot publish that Codex waits for an approval in thread t"), "{failed}");
    let coordinator = lasting(directory.path());
    // The thread is paused, so the bridge stops the clocks of Codex too.
    server.increment("t");
    assert_eq!(coordinator.count(), 1);
    let watching = coordinator.watch();
    waits(&mut server, &[]);
    watching.wait_for(0);
}
