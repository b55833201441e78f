//! `pausewatch bridge codex -- COMMAND`.
use super::fake::{AppServer, PATIENCE, Pipes};
use super::{lasting, pause, resume};
use crate::program::{Coordinator, Process, ended, program};
use crate::shell::within_deadline;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use tempfile::TempDir;

/// A wrapper, with its client and its app-server.
struct Wrapped {
    server: AppServer,
    bridge: Process,
    _directory: TempDir,
}

impl Wrapped {
    fn start(coordinator: &Coordinator, options: &[&str]) -> Self {
        Self::of(coordinator.command(["bridge", "codex"]), options)
    }

    fn of(mut command: Command, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pipes = Pipes::new(directory.path());
        command.args(options).args(pipes.command()).stdin(Stdio::piped());
        let bridge = Process::start(command);
        Self { server: pipes.open(), bridge, _directory: directory }
    }

    /// The thread `a` is paused and counted.
    fn paused(coordinator: &Coordinator, options: &[&str]) -> Self {
        let mut wrapped = Self::start(coordinator, options);
        pause(coordinator, "a");
        wrapped.server.start_thread("a");
        wrapped.server.increment("a");
        wrapped
    }

    /// The next message that the client gets.
    fn heard(&self) -> Value {
        serde_json::from_str(&self.bridge.line()).unwrap()
    }

    /// Ends the client, and then the app-server.
    fn finish(mut self) -> crate::program::Ended {
        self.bridge.close_stdin();
        while self.server.next().is_some() {}
        self.server.close();
        self.bridge.end()
    }
}

/// A wrapper whose client and app-server exchange bytes instead of lines.
fn raw(coordinator: &Coordinator, pipes: &Pipes) -> (Child, ChildStdin, mpsc::Receiver<Vec<u8>>) {
    let mut command: Command = coordinator.command(["bridge", "codex"]);
    command.args(pipes.command()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bridge = command.spawn().unwrap();
    let (stdin, stdout) = (bridge.stdin.take().unwrap(), bridge.stdout.take().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            if stdout.read_until(b'\n', &mut line).unwrap() == 0 || sender.send(line).is_err() {
                return;
            }
        }
    });
    (bridge, stdin, received)
}

#[test]
fn all_bytes_pass_through_unchanged() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let pipes = Pipes::new(directory.path());
    let (mut bridge, mut stdin, received) = raw(&coordinator, &pipes);
    let mut server = pipes.open();
    let long = format!("{{\"id\": 1, \"result\": \"{}\"}}\n", "x".repeat(3 << 20));
    let lines: [&[u8]; 7] = [
        b"{\"id\":1, \"method\" : \"thread/start\"}\r\n",
        b"\n",
        b"no JSON\n",
        b"\xff\xfe {\n",
        b"{\"id\":\"pausewatch-1\",\"result\":{}}\n",
        b"{\"id\":5,\"method\":\"thread/started\",\"params\":{\"thread\":{\"id\":\"a\\nb\"}}}\n",
        long.as_bytes(),
    ];
    for line in lines {
        stdin.write_all(line).unwrap();
        assert!(
            server.next().as_deref() == Some(line),
            "to the app-server: {}",
            line[..line.len().min(80)].escape_ascii()
        );
        server.say_bytes(line);
        let got = received.recv_timeout(PATIENCE).unwrap();
        assert!(got == line, "to the client: {}", line[..line.len().min(80)].escape_ascii());
    }
    stdin.write_all(b"no newline").unwrap();
    drop(stdin);
    assert_eq!((server.next().as_deref(), server.next()), (Some(&b"no newline"[..]), None));
    server.say_bytes(b"the last");
    server.close();
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"the last");
    assert_eq!(bridge.wait().unwrap().code(), Some(0));
}

#[test]
fn initialize_asks_for_the_experimental_api() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::start(&coordinator, &[]);
    let mut initialize = |capabilities: Value| {
        let request =
            json!({"id": 0, "method": "initialize", "params": {"clientInfo": {}, "capabilities": capabilities}});
        wrapped.bridge.write(format!("{request}\n").as_bytes());
        wrapped.server.call("initialize")["params"]["capabilities"].clone()
    };
    assert_eq!(initialize(json!({"x": 1})), json!({"experimentalApi": true, "x": 1}));
    assert_eq!(initialize(json!({"x": 1})), json!({"x": 1}), "only the first one counts, as in Codex");
}

#[test]
fn pauses_reach_the_app_server_and_its_answers_stay_with_the_bridge() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::start(&coordinator, &[]);
    wrapped.server.start_thread("a");
    assert_eq!(wrapped.heard()["method"], "thread/started");
    for _ in 0..2 {
        pause(&coordinator, "a");
        wrapped.server.increment("a");
        pause(&coordinator, "a");
        resume(&coordinator, "a");
        resume(&coordinator, "a");
        wrapped.server.decrement("a");
    }
    wrapped.server.say(&json!({"id": 1, "result": {"thread": {"id": "b"}}}));
    assert_eq!(wrapped.heard()["id"], 1, "only this reaches the client");
    pause(&coordinator, "b");
    wrapped.server.increment("b");
    wrapped.server.say(&json!({"method": "thread/closed", "params": {"threadId": "b"}}));
    assert_eq!(wrapped.heard()["method"], "thread/closed");
    resume(&coordinator, "b");
    pause(&coordinator, "a");
    wrapped.server.increment("a");
    resume(&coordinator, "a");
    wrapped.server.decrement("a");
    let ended = wrapped.finish();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "", ""));
}

#[test]
fn a_thread_that_is_paused_when_codex_loads_it_is_counted() {
    let coordinator = Coordinator::start();
    let wrapped = Wrapped::paused(&coordinator, &[]);
    drop(wrapped);
    let mut wrapped = Wrapped::start(&coordinator, &["--thread-prefix", "codex/"]);
    pause(&coordinator, "codex/a");
    wrapped.server.start_thread("a");
    wrapped.server.increment("a");
}

#[test]
fn counts_are_undone_before_the_end_of_input() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::paused(&coordinator, &[]);
    wrapped.bridge.close_stdin();
    wrapped.server.decrement("a");
    assert_eq!(wrapped.server.next(), None);
    wrapped.server.close();
    assert_eq!(wrapped.bridge.end().code, Some(0));
}

#[test]
fn counts_are_undone_before_a_signal_is_passed_on() {
    let coordinator = Coordinator::start();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut wrapped = Wrapped::paused(&coordinator, &[]);
        wrapped.bridge.signal(signal);
        wrapped.server.decrement("a");
        assert_eq!(wrapped.server.next(), None);
        assert_eq!(wrapped.bridge.end().status.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_signal_ends_a_wrapper_whose_client_does_not_read() {
    let coordinator = Coordinator::start();
    // More than a pipe holds beside what the wrapper has read, so the wrapper cannot write all of it.
    let script = "head -c 150000 /dev/zero; echo written >&2; exec sleep 1000";
    let mut command = coordinator.command(["bridge", "codex"]);
    command.args(["--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bridge = command.spawn().unwrap();
    let mut errors = BufReader::new(bridge.stderr.take().unwrap()).lines();
    assert_eq!(errors.next().unwrap().unwrap(), "written");
    let _unread = bridge.stdout.take();
    rustix::process::kill_process(Pid::from_child(&bridge), Signal::TERM).unwrap();
    assert_eq!(within_deadline(&mut bridge).signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn a_killed_wrapper_takes_the_app_server_along() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let (input, terminated) = (directory.path().join("input"), directory.path().join("terminated"));
    let script = "trap 'echo >\"$1\"; exit' TERM; echo ready; cat >\"$0\" & while :; do sleep 0.05; done";
    let mut command = coordinator.command(["bridge", "codex", "--", "sh", "-c", script]);
    command.args([&input, &terminated]).stdin(Stdio::piped());
    let mut bridge = Process::start(command);
    assert_eq!(bridge.line(), "ready");
    bridge.kill();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !terminated.exists() {
        assert!(std::time::Instant::now() < deadline, "the app-server outlives the wrapper");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_killed_wrapper_ends_the_input_of_the_app_server() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::paused(&coordinator, &[]);
    wrapped.bridge.kill();
    assert_eq!(wrapped.server.next(), None);
}

#[test]
fn a_lost_coordinator_pauses_for_the_grace_only() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = lasting(directory.path());
    let mut wrapped = Wrapped::paused(&coordinator, &["--disconnect-grace", "100ms"]);
    drop(coordinator);
    wrapped.server.decrement("a");
    let lost = wrapped.bridge.error_line();
    assert!(lost.starts_with("pausewatch bridge codex: no coordinator at unix:"), "{lost}");
    assert!(
        wrapped
            .bridge
            .error_line()
            .starts_with("pausewatch bridge codex: thread a resumes: its state is unknown for 0.1s")
    );
    let coordinator = lasting(directory.path());
    wrapped.server.increment("a");
    resume(&coordinator, "a");
    wrapped.server.decrement("a");
    assert_eq!(wrapped.bridge.error_line(), "pausewatch bridge codex: connected to the coordinator again");
}

/// It is not taken for a lost coordinator, which would hide the loss of the coordinator for the other threads.
#[test]
fn a_thread_that_the_token_does_not_open_is_reported_and_the_others_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    let added = ended(program().args(["token", "add", "--prefix", "a"]).arg(&tokens));
    let coordinator =
        Coordinator::start_with(["--listen", "127.0.0.1:0", "--store", "memory", "--tokens", tokens.to_str().unwrap()]);
    let with_token = |args: &[&str]| {
        let mut command = coordinator.command([]);
        command.args(args).env("PAUSEWATCH_TOKEN", added.out.trim_end());
        command
    };
    let mut wrapped = Wrapped::of(with_token(&["bridge", "codex"]), &["--disconnect-grace", "1h"]);
    wrapped.server.start_thread("b");
    let refused = wrapped.bridge.error_line();
    let expected = format!("pausewatch bridge codex: the coordinator at {} refuses thread b: ", coordinator.address);
    assert!(refused.starts_with(&expected), "{refused}");
    assert_eq!(ended(&mut with_token(&["increment", "--thread-id", "a"])).code, Some(0));
    wrapped.server.start_thread("a");
    wrapped.server.increment("a");
    drop(coordinator);
    let lost = wrapped.bridge.error_line();
    assert!(lost.starts_with("pausewatch bridge codex: no coordinator at "), "{lost}");
}

#[test]
fn a_coordinator_that_returns_within_the_grace_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let coordinator = lasting(directory.path());
    let mut wrapped = Wrapped::paused(&coordinator, &["--disconnect-grace", "1h"]);
    drop(coordinator);
    assert!(wrapped.bridge.error_line().contains("Paused threads resume in 1h"));
    let coordinator = lasting(directory.path());
    assert_eq!(wrapped.bridge.error_line(), "pausewatch bridge codex: connected to the coordinator again");
    resume(&coordinator, "a");
    wrapped.server.decrement("a");
}

#[test]
fn an_app_server_without_the_methods_is_reported_once_with_both_versions() {
    let coordinator = Coordinator::start();
    for (code, message) in [
        (-32601, "Method not found"),
        (-32600, "Invalid request: unknown variant `thread/increment_elicitation`, expected one of `initialize`"),
    ] {
        let mut wrapped = Wrapped::start(&coordinator, &[]);
        wrapped.server.say(&json!({"id": 0, "result": {"userAgent": "tui/0.42.1 (Debian)"}}));
        wrapped.heard();
        for thread in ["a", "b"] {
            pause(&coordinator, thread);
            wrapped.server.start_thread(thread);
            wrapped.heard();
            if thread == "a" {
                let error = json!({"error": {"code": code, "message": message}});
                wrapped.server.answer_with("thread/increment_elicitation", "a", &error);
            }
        }
        wrapped.bridge.write(b"{\"id\":1,\"method\":\"thread/list\"}\n");
        wrapped.server.call("thread/list");
        let ended = wrapped.finish();
        assert_eq!(ended.code, Some(0));
        assert_eq!(
            ended.err,
            "pausewatch bridge codex: Codex 0.42.1 does not know thread/increment_elicitation, which Codex 0.169.0 does (the \
             tested version): use a version that knows it; its commands are not paused, everything else works as without the \
             bridge\n"
        );
        resume(&coordinator, "a");
        resume(&coordinator, "b");
    }
}

#[test]
fn a_client_without_the_experimental_api_is_reported() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::start(&coordinator, &[]);
    pause(&coordinator, "a");
    wrapped.server.start_thread("a");
    let message = "thread/increment_elicitation requires experimentalApi capability";
    let error = json!({"error": {"code": -32600, "message": message}});
    wrapped.server.answer_with("thread/increment_elicitation", "a", &error);
    let ended = wrapped.finish();
    assert!(ended.err.contains("`initialize` with capabilities.experimentalApi false"), "{}", ended.err);
    assert!(ended.err.contains("tested with 0.169.0"), "{}", ended.err);
}

#[test]
fn a_busy_app_server_is_asked_again() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::start(&coordinator, &[]);
    pause(&coordinator, "a");
    wrapped.server.start_thread("a");
    let busy = json!({"error": {"code": -32001, "message": "Server overloaded; retry later."}});
    wrapped.server.answer_with("thread/increment_elicitation", "a", &busy);
    wrapped.server.increment("a");
    resume(&coordinator, "a");
    wrapped.server.answer_with("thread/decrement_elicitation", "a", &busy);
    wrapped.server.decrement("a");
}

#[test]
fn a_refused_increment_is_reported_once_with_both_versions() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::start(&coordinator, &[]);
    wrapped.server.say(&json!({"id": 0, "result": {"userAgent": "tui/0.200.3 (Debian)"}}));
    let error = json!({"error": {"code": -32600, "message": "Invalid request: missing field `elicitationId`"}});
    for thread in ["a", "b"] {
        pause(&coordinator, thread);
        wrapped.server.start_thread(thread);
        wrapped.server.answer_with("thread/increment_elicitation", thread, &error);
    }
    let ended = wrapped.finish();
    assert_eq!((ended.code, ended.err.lines().count()), (Some(0), 1), "{ended:?}");
    for part in ["Codex 0.200.3", "missing field `elicitationId`", "Codex 0.169.0"] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

/// Codex's count has no lease: a thread whose decrement failed would stay frozen for ever.
#[test]
fn a_decrement_that_fails_is_tried_again() {
    let coordinator = Coordinator::start();
    let mut wrapped = Wrapped::paused(&coordinator, &[]);
    resume(&coordinator, "a");
    let error = json!({"error": {"code": -32603, "message": "internal error"}});
    for _ in 0..2 {
        wrapped.server.answer_with("thread/decrement_elicitation", "a", &error);
    }
    wrapped.server.decrement("a");
    let ended = wrapped.finish();
    assert_eq!((ended.code, ended.err.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.err.contains("internal error") && ended.err.contains("Codex 0.169.0"), "{ended:?}");
}

#[test]
fn without_a_coordinator_the_traffic_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let pipes = Pipes::new(directory.path());
    let mut command = program();
    command
        .args(["bridge", "codex", "--address", "unix:/proc/nonexistent/p.sock"])
        .args(pipes.command())
        .stdin(Stdio::piped());
    let mut bridge = Process::start(command);
    let mut server = pipes.open();
    server.start_thread("a");
    assert!(bridge.line().contains("thread/started"));
    assert!(bridge.error_line().contains("no coordinator at unix:/proc/nonexistent/p.sock: No such file or directory"));
    bridge.write(b"on\n");
    assert_eq!(server.next().as_deref(), Some(&b"on\n"[..]));
    bridge.close_stdin();
    assert_eq!(server.next(), None);
    server.close();
    assert_eq!(bridge.end().code, Some(0));
}

#[test]
fn the_environment_of_the_command_names_the_coordinator_and_no_thread() {
    let coordinator = Coordinator::start();
    let shown = "echo \"$PAUSEWATCH_ADDRESS [$PAUSEWATCH_THREAD_ID]\"";
    let mut command = program();
    command.args(["bridge", "codex", "--address", &coordinator.address, "--", "sh", "-c", shown]);
    command.env("PAUSEWATCH_THREAD_ID", "stray");
    assert_eq!(ended(&mut command).out, format!("{} []\n", coordinator.address));
}

#[test]
fn the_wrapper_ends_as_its_command_did() {
    let coordinator = Coordinator::start();
    let code = |command: &[&str]| ended(coordinator.command(["bridge", "codex", "--"]).args(command)).code;
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["/proc/nonexistent/codex"]), Some(127));
    assert_eq!(code(&["/"]), Some(126));
    let usage = |args: &[&str]| ended(coordinator.command(["bridge", "codex"]).args(args));
    for args in [&[][..], &["--socket", "p", "--", "codex"], &["--thread-prefix", "a\nb", "--", "codex"]] {
        let ended = usage(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(!ended.err.is_empty(), "{args:?}");
    }
}

#[test]
fn output_after_the_client_has_closed_its_end_is_passed_on() {
    let coordinator = Coordinator::start();
    // More than a pipe can hold: without a reader, the command would never end.
    let script = "cat >/dev/null; head -c 1000000 /dev/zero";
    let mut command = coordinator.command(["bridge", "codex", "--", "sh", "-c", script]);
    let mut bridge = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(bridge.stdin.take());
    let mut text = Vec::new();
    bridge.stdout.take().unwrap().read_to_end(&mut text).unwrap();
    assert_eq!((text.len(), bridge.wait().unwrap().code()), (1_000_000, Some(0)));
}
