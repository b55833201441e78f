//! `pausewatch follow --stdio`.
use crate::program::{Coordinator, Process, program};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead, BufReader, Read, Write, pipe},
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, its input and its lines; killed when it is dropped.
struct Follow {
    child: Child,
    input: Option<ChildStdin>,
    lines: std::sync::mpsc::Receiver<Value>,
}

impl Follow {
    fn start(coordinator: &Coordinator) -> Self {
        let mut child = Self::spawn(coordinator.command(["follow", "--stdio"]).stdout(Stdio::piped()));
        let (to, lines) = std::sync::mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| to.send(serde_json::from_str(&line).unwrap()))
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    fn spawn(command: &mut Command) -> Child {
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn start_timeout(&mut self, id: &str, thread_id: &str, limit: &str) {
        self.say(&json!({"do": "start", "id": id, "thread_id": thread_id, "limit": limit}).to_string());
    }

    fn line(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    #[track_caller]
    fn expect(&self, event: &str, id: &str) -> Value {
        let line = self.line();
        assert_eq!((&line["event"], &line["id"]), (&json!(event), &json!(id)), "{line}");
        line
    }

    fn ended(&mut self) -> Option<i32> {
        drop(self.input.take());
        ended(&mut self.child)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code(),
            None => assert!(started.elapsed() < PATIENCE, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_coordinator_that_is_not_there_is_reported_once() {
    let mut command = program();
    command.args(["follow", "--stdio", "--address", "unix:/proc/nonexistent/p.sock"]).stdin(Stdio::piped());
    let mut follow = Process::start(command);
    let start = json!({"do": "start", "id": "1", "thread_id": "t", "limit": "10ms", "grace": "200ms"});
    follow.write(format!("{start}\n").as_bytes());
    let warning = follow.error_line();
    assert!(
        warning.starts_with("pausewatch follow: warning: no coordinator at unix:/proc/nonexistent/p.sock: "),
        "{warning}"
    );
    assert_eq!(warning.matches("unix:/proc/nonexistent/p.sock").count(), 1, "{warning}");
    assert!(warning.ends_with(". The time limit holds, plus at most 0.2s"), "{warning}");
    while !follow.line().contains("expired") {}
    follow.close_stdin();
    let ended = follow.end();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn g3_a_timeout_stands_still_through_a_pause_and_a_restart_of_the_coordinator() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();
    let (listen, data) = (format!("unix:{path}/p.sock"), format!("{path}/data"));
    let serve = || Coordinator::start_with(["--listen", &listen, "--data-dir", &data]);
    let coordinator = serve();
    coordinator.answer(["increment"]);
    let mut child = Follow::spawn(coordinator.command(["follow", "--stdio"]).stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"do": "start", "id": "1", "thread_id": "t", "limit": "4s"})).unwrap();
    assert_eq!(line(), json!({"event": "started", "id": "1"}));
    assert_eq!(line(), json!({"event": "frozen", "id": "1"}));
    // Kills it.
    drop(coordinator);
    let coordinator = serve();
    std::thread::sleep(Duration::from_secs(5));
    coordinator.answer(["decrement"]);
    assert_eq!(line(), json!({"event": "running", "id": "1"}));
    let last = line();
    assert_eq!((&last["event"], &last["ended_by"]), (&json!("expired"), &json!("limit")), "{last}");
    let (charged, wall) = (last["charged_ms"].as_u64().unwrap(), last["wall_ms"].as_u64().unwrap());
    assert!(charged >= 4_000 && wall >= charged + 4_900, "{last}");
    drop(input);
    assert_eq!(ended(&mut child), Some(0));
}

/// Invalid values are refused as on the command line.
#[test]
fn a_limit_of_0_is_none() {
    let coordinator = Coordinator::start();
    let mut follow = Follow::start(&coordinator);
    follow.say(r#"{"do": "start", "id": "1", "thread_id": "t", "limit": "0", "max_wall": "0"}"#);
    follow.expect("started", "1");
    follow.say(r#"{"do": "start", "id": "2", "thread_id": "t", "limit": "0", "max_wall": "10ms"}"#);
    let first = follow.line();
    let last = if first["event"] == "started" { follow.line() } else { first };
    assert_eq!((&last["id"], &last["ended_by"]), (&json!("2"), &json!("max_wall")), "{last}");
    follow.say(r#"{"do": "stop", "id": "1"}"#);
    follow.expect("stopped", "1");
}

#[test]
fn a_wrong_line_is_answered_by_an_error_and_changes_nothing_else() {
    let coordinator = Coordinator::start();
    let mut follow = Follow::start(&coordinator);
    follow.start_timeout("1", "t", "1h");
    follow.expect("started", "1");
    let long = format!("{{\"do\": \"{}\"}}", "x".repeat(70_000));
    for (wrong, id, part) in [
        ("garbage", Value::Null, "not a JSON object"),
        ("", Value::Null, "not a JSON object"),
        ("[1]", Value::Null, "not a JSON object"),
        (&long, Value::Null, "longer than 65536 bytes"),
        (r#"{"do": "dance", "id": "2"}"#, json!("2"), "dance"),
        (r#"{"do": "start", "id": "2"}"#, json!("2"), "thread_id"),
        (r#"{"do": "start", "id": "2", "thread_id": "", "limit": "1s"}"#, json!("2"), "thread_id"),
        (r#"{"do": "start", "id": "2", "thread_id": "t", "limit": "soon"}"#, json!("2"), "limit \"soon\""),
        (r#"{"do": "start", "id": "2", "thread_id": "t", "limit": "1s", "max": "1s"}"#, json!("2"), "max"),
        (r#"{"do": "start", "id": "1", "thread_id": "t", "limit": "1s"}"#, json!("1"), "is open"),
        (r#"{"do": "stop", "id": "2"}"#, json!("2"), "no timeout"),
    ] {
        follow.say(wrong);
        let line = follow.line();
        assert_eq!((&line["event"], &line["id"]), (&json!("error"), &id), "{wrong:.80}: {line}");
        assert!(line["message"].as_str().unwrap().contains(part), "{wrong:.80}: {line}");
    }
    follow.say(r#"{"do": "stop", "id": "1"}"#);
    let stopped = follow.expect("stopped", "1");
    assert!(stopped["charged_ms"].is_u64() && stopped["wall_ms"].is_u64(), "{stopped}");
    follow.say(r#"{"do": "start", "id": "1", "thread_id": "t", "limit": "1h", "max_wall": "10ms", "grace": "1s"}"#);
    // If the timeout has already expired, there is no `started`.
    let first = follow.line();
    let last = if first["event"] == "started" { follow.line() } else { first };
    assert_eq!((&last["event"], &last["ended_by"]), (&json!("expired"), &json!("max_wall")), "{last}");
    assert_eq!(follow.ended(), Some(0));
}

#[test]
fn a_thousand_timeouts_expire_each_once() {
    let coordinator = Coordinator::start();
    let mut follow = Follow::start(&coordinator);
    for number in 0..1_000 {
        follow.start_timeout(&number.to_string(), &format!("thread-{number}"), "500ms");
    }
    let mut expired = BTreeSet::new();
    while expired.len() < 1_000 {
        let line = follow.line();
        if line["event"] == "expired" {
            assert!(line["charged_ms"].as_u64().unwrap() >= 500, "{line}");
            assert!(expired.insert(line["id"].as_str().unwrap().to_owned()), "{line}");
        } else {
            assert_eq!(line["event"], "started", "{line}");
        }
    }
    assert_eq!(follow.ended(), Some(0));
}

#[test]
fn g7_only_graces_of_open_timeouts_count() {
    let coordinator = Coordinator::start();
    let mut follow = Follow::start(&coordinator);
    let start = |follow: &mut Follow, number: u32| {
        let (id, grace) = (number.to_string(), format!("{number}s"));
        follow.say(&json!({"do": "start", "id": id, "thread_id": "t", "limit": "1h", "grace": grace}).to_string());
        follow.line()
    };
    for number in 1..=16 {
        assert_eq!(start(&mut follow, number)["event"], "started");
    }
    let refused = start(&mut follow, 17);
    assert_eq!((&refused["event"], &refused["id"]), (&json!("error"), &json!("17")), "{refused}");
    follow.say(r#"{"do": "stop", "id": "3"}"#);
    follow.expect("stopped", "3");
    assert_eq!(start(&mut follow, 17)["event"], "started");
    assert_eq!(follow.ended(), Some(0));
}

#[test]
fn it_ends_with_its_input_when_nobody_reads_its_output() {
    let coordinator = Coordinator::start();
    let (_reader, writer) = pipe().unwrap();
    let mut child = Follow::spawn(coordinator.command(["follow", "--stdio"]).stdout(writer));
    let mut input = child.stdin.take().unwrap();
    // Far more lines than the pipe and the queue can hold.
    for _ in 0..20_000 {
        writeln!(input, "garbage").unwrap();
    }
    drop(input);
    assert_eq!(ended(&mut child), Some(0));
}

#[test]
fn it_ends_as_a_failure_when_its_output_cannot_be_written() {
    let coordinator = Coordinator::start();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = Follow::spawn(coordinator.command(["follow", "--stdio"]).stdout(full).stderr(Stdio::piped()));
    // The input stays open.
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"do": "start", "id": "1", "thread_id": "t", "limit": "1h"})).unwrap();
    assert_eq!(ended(&mut child), Some(1));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(errors.starts_with("pausewatch follow: write to standard output: "), "{errors}");
    // It is not a failure if the reader has gone away.
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut child = Follow::spawn(coordinator.command(["follow", "--stdio"]).stdout(writer));
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "garbage").unwrap();
    // It may have ended by now.
    let _ = writeln!(input, "garbage");
    drop(input);
    assert_eq!(ended(&mut child), Some(0));
}
