//! `pausewatch bridge codex --socket`.
use super::fake::AppServer;
use super::{lasting, pause, resume};
use crate::program::{Coordinator, Process};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tempfile::TempDir;

const VERSION: &str = "0.169.0";

/// A bridge and its app-server, which has loaded the thread `a`.
struct Beside {
    server: AppServer,
    bridge: Process,
    _directory: TempDir,
}

impl Beside {
    fn start(coordinator: &Coordinator, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut server = AppServer::listen(&socket);
        let mut command = coordinator.command(["bridge", "codex", "--socket"]);
        command.arg(&socket).args(options);
        let bridge = Process::start(command);
        server.accept(VERSION, &["a"]);
        Self { server, bridge, _directory: directory }
    }

    /// The thread `a` is paused and counted.
    fn paused(coordinator: &Coordinator) -> Self {
        let mut beside = Self::start(coordinator, &[]);
        pause(coordinator, "a");
        beside.server.increment("a");
        beside
    }

    /// The process id of the guard.
    fn guard(&self) -> Pid {
        let pid = self.bridge.pid().as_raw_pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        Pid::from_raw(children.split_whitespace().next().expect("it has a guard").parse().unwrap()).unwrap()
    }

    /// Asserts that the guard connects and undoes the count of `a`.
    fn undone_by_the_guard(&mut self) {
        self.greet_the_guard();
        self.server.decrement("a");
        assert_eq!(self.server.next(), None);
    }

    /// The connection of the bridge ends, and the guard connects.
    fn greet_the_guard(&mut self) {
        assert_eq!(self.server.next(), None);
        let initialize = self.server.call("initialize");
        self.server.say(&json!({"id": initialize["id"], "result": {"userAgent": "fake/1"}}));
        self.server.call("initialized");
    }
}

#[test]
fn pauses_reach_the_app_server() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::paused(&coordinator);
    beside.server.start_thread("b");
    pause(&coordinator, "b");
    beside.server.increment("b");
    resume(&coordinator, "a");
    beside.server.decrement("a");
    resume(&coordinator, "b");
    beside.server.decrement("b");
}

#[test]
fn a_signal_undoes_the_counts_and_ends_with_0() {
    let coordinator = Coordinator::start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut beside = Beside::paused(&coordinator);
        beside.bridge.signal(signal);
        beside.server.decrement("a");
        assert_eq!(beside.server.next(), None);
        let ended = beside.bridge.end();
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{signal:?}");
    }
}

#[test]
fn the_guard_of_a_killed_bridge_undoes_its_counts() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::paused(&coordinator);
    beside.bridge.kill();
    beside.undone_by_the_guard();
}

#[test]
fn the_guard_undoes_more_counts_than_a_pipe_holds_by_default() {
    let coordinator = Coordinator::start();
    // In JSON, 150 of these ids have 77 kB; a pipe holds 64 KiB.
    let threads = BTreeSet::from_iter((0..150).map(|number| format!("{number:03}{}", "\"".repeat(253))));
    threads.iter().for_each(|thread| pause(&coordinator, thread));
    let mut beside = Beside::start(&coordinator, &[]);
    threads.iter().for_each(|thread| beside.server.start_thread(thread));
    let answer = |beside: &mut Beside, method: &str| {
        let call = beside.server.call(method);
        beside.server.say(&json!({"id": call["id"], "result": {"count": 1, "paused": true}}));
        call["params"]["threadId"].as_str().unwrap().to_owned()
    };
    let counted = BTreeSet::from_iter(threads.iter().map(|_| answer(&mut beside, "thread/increment_elicitation")));
    assert!(counted == threads);
    kill_process(beside.bridge.pid(), Signal::KILL).unwrap();
    beside.greet_the_guard();
    let undone = BTreeSet::from_iter(threads.iter().map(|_| answer(&mut beside, "thread/decrement_elicitation")));
    assert!(undone == threads);
    assert_eq!(beside.server.next(), None);
}

#[test]
fn a_killed_guard_is_replaced() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::start(&coordinator, &[]);
    let guard = beside.guard();
    kill_process(guard, Signal::KILL).unwrap();
    // The guard's pipe is closed once it is a zombie.
    while !std::fs::read_to_string(format!("/proc/{}/stat", guard.as_raw_pid())).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    pause(&coordinator, "a");
    beside.server.increment("a");
    assert_ne!(beside.guard(), guard);
    beside.bridge.kill();
    beside.undone_by_the_guard();
}

#[test]
fn after_a_lost_connection_counts_are_undone_and_counted_again() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::paused(&coordinator);
    beside.server.close();
    let lost = beside.bridge.error_line();
    assert!(lost.contains("the connection to the app-server at ") && lost.ends_with("; trying again"), "{lost}");
    assert_eq!(beside.server.next(), None);
    beside.server.accept(VERSION, &["a"]);
    assert_eq!(beside.bridge.error_line(), "pausewatch bridge codex: connected to the app-server again");
    beside.server.decrement("a");
    beside.server.increment("a");
}

#[test]
fn a_thread_that_was_closed_while_the_connection_was_lost_is_forgotten() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::paused(&coordinator);
    beside.server.close();
    assert_eq!(beside.server.next(), None);
    beside.server.accept(VERSION, &["b"]);
    // Nothing is requested about `a`.
    pause(&coordinator, "b");
    beside.server.increment("b");
}

#[test]
fn a_lost_coordinator_pauses_for_the_grace_only() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = lasting(directory.path());
    let mut beside = Beside::start(&coordinator, &["--disconnect-grace", "100ms"]);
    pause(&coordinator, "a");
    beside.server.increment("a");
    drop(coordinator);
    beside.server.decrement("a");
}

#[test]
fn without_an_app_server_it_fails_and_says_what_to_do() {
    let ended = Coordinator::start().run(["bridge", "codex", "--socket", "/proc/nonexistent/socket"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.err,
        "pausewatch bridge codex: no app-server at /proc/nonexistent/socket: No such file or directory (os error 2); start one with \
         `codex app-server --listen unix:///proc/nonexistent/socket`\n"
    );
}

#[test]
fn an_app_server_without_the_methods_ends_it_with_both_versions() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut server = AppServer::listen(&socket);
    pause(&coordinator, "a");
    let mut command = coordinator.command(["bridge", "codex", "--socket"]);
    command.arg(&socket);
    let bridge = Process::start(command);
    server.accept("0.42.1", &["a"]);
    let error = json!({"error": {"code": -32601, "message": "Method not found"}});
    server.answer_with("thread/increment_elicitation", "a", &error);
    let ended = bridge.end();
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("Codex 0.42.1 does not know") && ended.err.contains("Codex 0.169.0"), "{}", ended.err);
}

/// Starts a bridge to an app-server; the test answers all its messages, from the first one.
fn start_unaccepted(coordinator: &Coordinator, directory: &TempDir) -> (AppServer, Process) {
    let socket = directory.path().join("socket");
    let server = AppServer::listen(&socket);
    let mut command = coordinator.command(["bridge", "codex", "--socket"]);
    command.arg(&socket);
    (server, Process::start(command))
}

/// Answers the next call, which must be of `method`, with `rest`.
fn answer(server: &mut AppServer, method: &str, rest: &Value) {
    let mut answer = json!({"id": server.call(method)["id"]});
    answer.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    server.say(&answer);
}

#[test]
fn an_app_server_that_begins_otherwise_ends_it_with_both_versions() {
    let coordinator = Coordinator::start();
    let unknown = json!({"error": {"code": -32600, "message": "Invalid request: unknown variant"}});
    for list in [&unknown, &json!({"result": {"threads": ["a"]}})] {
        let directory = tempfile::tempdir().unwrap();
        let (mut server, bridge) = start_unaccepted(&coordinator, &directory);
        answer(&mut server, "initialize", &json!({"result": {"userAgent": "fake/0.42.1 (test)"}}));
        server.call("initialized");
        answer(&mut server, "thread/loaded/list", list);
        let ended = bridge.end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for part in ["Codex 0.42.1", "thread/loaded/list", "Codex 0.169.0"] {
            assert!(ended.err.contains(part), "{part}: {ended:?}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut server, bridge) = start_unaccepted(&coordinator, &directory);
    answer(&mut server, "initialize", &unknown);
    let ended = bridge.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for part in ["an unknown version", "initialize", "Codex 0.169.0"] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn another_version_after_a_restart_ends_it_with_both_versions() {
    let coordinator = Coordinator::start();
    let mut beside = Beside::paused(&coordinator);
    beside.server.close();
    assert_eq!(beside.server.next(), None);
    answer(&mut beside.server, "initialize", &json!({"result": {"userAgent": "fake/0.42.1 (test)"}}));
    beside.server.call("initialized");
    let error = json!({"error": {"code": -32601, "message": "Method not found"}});
    answer(&mut beside.server, "thread/loaded/list", &error);
    let ended = beside.bridge.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("Codex 0.42.1") && ended.err.contains("Codex 0.169.0"), "{ended:?}");
}
