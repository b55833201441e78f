//! Full output pipes without a reader: no clock stops, no call waits, and every command still ends.
use crate::exec_server::client::{Client, exec_server, until_gone, until_there};
use crate::program::{Coordinator, Process, program};
use crate::support::api;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pipe that is full: every further write waits.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    fill(&writer);
    (reader, writer)
}

fn fill(mut writer: &PipeWriter) {
    let flags = fcntl_getfl(writer).unwrap();
    fcntl_setfl(writer, flags | OFlags::NONBLOCK).unwrap();
    for size in [4_096, 1] {
        while writer.write(&vec![b'x'; size]).map_err(|error| assert_eq!(error.kind(), ErrorKind::WouldBlock)).is_ok() {
        }
    }
    fcntl_setfl(writer, flags).unwrap();
}

/// A child, killed when it is dropped.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Running(command.spawn().unwrap())
    }

    fn ended(mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            match self.0.try_wait().unwrap() {
                Some(status) => return status,
                None => assert!(started.elapsed() < PATIENCE, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints a line when it runs, and ends when its standard input ends.
const READY_AND_READ: &str = "echo ready; read answer; exit 5";

/// Starts a command with standard input, a standard output that is read, and a full standard error.
fn with_full_stderr(mut command: Command) -> (Running, PipeReader) {
    let (reader, full) = full_pipe();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(full);
    let mut running = Running::start(command);
    running.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    (running, reader)
}

#[test]
fn g2_run_ends_its_command_when_its_warnings_cannot_be_written() {
    let coordinator = Coordinator::start();
    // Until the command is ready, its time does not count.
    coordinator.answer(["increment"]);
    let args = ["run", "--verbose", "--disconnect-grace", "100ms", "2", "sh", "-c", "echo ready; exec sleep 600"];
    let (run, _reader) = with_full_stderr(coordinator.command(args));
    drop(coordinator);
    assert_eq!(run.ended().code(), Some(124));
}

#[test]
fn g1_hold_renews_its_lease_after_a_warning_that_cannot_be_written() {
    let mut serve = program();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let server = Process::start(serve);
    let address = server.line().strip_prefix("listening ").unwrap().to_owned();
    let mut command = program();
    command.args(["hold", "--ttl", "6s", "--thread-id", "t", "--address", &address, "sh", "-c", READY_AND_READ]);
    let (mut hold, _reader) = with_full_stderr(command);
    // Long enough that the lease is overdue for `hold`, which warns. The server extends leases by the time that it was
    // stopped.
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(8));
    server.signal(Signal::CONT);
    let expire_time = || {
        let mut get = program();
        get.args(["get", "--output", "json", "--thread-id", "t", "--address", &address]);
        let state: serde_json::Value = serde_json::from_str(&crate::program::ended(&mut get).out).unwrap();
        let time = &state["pauseState"]["elicitations"][0]["expireTime"];
        time.as_str().expect("the thread is paused").to_owned()
    };
    let first = expire_time();
    let mut times = vec![first];
    let started = Instant::now();
    while times.len() < 4 {
        assert!(started.elapsed() < PATIENCE, "it is not renewed: {times:?}");
        std::thread::sleep(Duration::from_millis(20));
        times.push(expire_time());
        times.dedup();
    }
    drop(hold.0.stdin.take());
    assert_eq!(hold.ended().code(), Some(5));
}

#[test]
fn hold_ends_with_its_command_when_its_warnings_cannot_be_written() {
    let coordinator = Coordinator::start();
    let (mut hold, _reader) = with_full_stderr(coordinator.command(["hold", "sh", "-c", READY_AND_READ]));
    drop(coordinator);
    drop(hold.0.stdin.take());
    assert_eq!(hold.ended().code(), Some(5));
}

#[test]
fn exec_server_answers_when_its_log_cannot_be_written() {
    let (_reader, full) = full_pipe();
    let mut command = exec_server(["--no-sandbox"]);
    command.env("RUST_LOG", "trace").stderr(full);
    let mut client = Client::start(command);
    let result = client.call("shell", json!({"command": "echo done", "workdir": "/"}));
    assert!(result.to_string().contains("done"), "{result}");
    assert!(client.hang_up().success());
}

#[test]
fn exec_server_ends_commands_when_its_answers_are_not_read() {
    let (_reader, writer) = pipe().unwrap();
    let mark = format!("8{:08}.5", fastrand::u32(..100_000_000));
    let mut command = exec_server(["--no-sandbox"]);
    command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(Stdio::null());
    let mut server = Running::start(command);
    let script = format!("sleep {mark}");
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "shell",
            "arguments": {"command": script, "workdir": "/"}}}),
    ];
    let stdin = server.0.stdin.as_mut().unwrap();
    messages.iter().for_each(|message| writeln!(stdin, "{message}").unwrap());
    until_there(&mark);
    fill(&writer);
    drop(server.0.stdin.take());
    server.signal(Signal::TERM);
    server.ended();
    until_gone(&mark);
}

#[tokio::test]
async fn serve_answers_when_its_address_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("p.sock");
    let address = format!("unix:{}", socket.display());
    let ((_out, full_out), (_err, full_err)) = (full_pipe(), full_pipe());
    let mut command = program();
    command.args(["serve", "--store", "memory", "--listen", &address]).stdout(full_out).stderr(full_err);
    let server = Running::start(command);
    // The socket file exists before the server listens.
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    api(&address).await.increment("t", None).await;
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn serve_ends_with_its_error_code_when_the_error_cannot_be_written() {
    let (_reader, full) = full_pipe();
    let mut command = program();
    command.args(["serve", "--store", "memory", "--listen", "unix:/no/such/directory/p.sock"]);
    command.stdout(Stdio::null()).stderr(full);
    assert_eq!(Running::start(command).ended().code(), Some(1));
}

#[test]
fn watch_ends_by_a_signal_when_its_output_cannot_be_written() {
    let coordinator = Coordinator::start();
    coordinator.answer(["increment"]);
    let ((_out, full_out), (_err, full_err)) = (full_pipe(), full_pipe());
    let mut command = coordinator.command(["watch"]);
    command.stdout(full_out).stderr(full_err);
    let watch = Running::start(command);
    while !coordinator.answer(["increment", "--output", "json"]).contains("\"watchers\": 1") {}
    drop(coordinator);
    watch.signal(Signal::TERM);
    assert_eq!(watch.ended().code(), Some(0));
}

/// These wait for their reader, like any other program.
#[test]
fn commands_with_one_answer_go_on_when_their_output_is_read() {
    let coordinator = Coordinator::start();
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens").display().to_string();
    let token = format!("token add --prefix a {tokens}");
    for line in [
        "get",
        "list --output json",
        "increment",
        "decrement",
        "health",
        "config check /dev/null",
        "completions bash",
        "man",
        "--help",
        "get --help",
        &token,
    ] {
        let (mut reader, full) = full_pipe();
        let mut command = coordinator.command([]);
        command.args(line.split(' '));
        command.stdout(full);
        let mut running = Running::start(command);
        assert!(running.0.try_wait().unwrap().is_none(), "{line}");
        let reading = std::thread::spawn(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).map(|_| text)
        });
        assert!(running.ended().success(), "{line}");
        assert!(reading.join().unwrap().unwrap().iter().any(|byte| *byte != b'x'));
    }
}
