//! Over HTTP: which requests are accepted, and what happens to commands when a client disconnects.
use super::client::{exec_server, process_with, until_gone, until_there};
use crate::program::{Process, ended};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

pub(super) struct Server {
    pub(super) process: Process,
    pub(super) address: String,
    /// A header of every request.
    pub(super) authorization: Option<String>,
}

impl Server {
    pub(super) fn start(options: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", options)
    }

    fn start_at(address: &str, options: &[&str]) -> Self {
        let mut command = exec_server(["--http", address]);
        command.args(options).stdin(Stdio::null());
        Self::of(command)
    }

    pub(super) fn of(command: Command) -> Self {
        let process = Process::start(command);
        let line = process.line();
        let address = line.strip_prefix("listening http://").and_then(|url| url.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, address, authorization: None }
    }

    pub(super) fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        Answer::of(self.send(headers, body))
    }

    /// Sends a request, without waiting.
    fn send(&self, headers: &[(&str, &str)], body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = body.to_string();
        let mut head = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let usual = [
            ("Host", "localhost"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Connection", "close"),
        ];
        let replaced = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let authorization = self.authorization.as_deref().map(|value| ("Authorization", value));
        for (name, value) in usual.iter().filter(|(name, _)| !replaced(name)).chain(headers).chain(&authorization) {
            head += &format!("{name}: {value}\r\n");
        }
        write!(stream, "{head}\r\n{body}").unwrap();
        stream
    }

    fn delete(&self, session: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Answer::of(stream)
    }

    /// Initializes a session; returns its id.
    pub(super) fn session(&self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        let id = answer.header("mcp-session-id");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], &initialized).status, 202);
        id
    }

    pub(super) fn call(&self, session: &str, tool: &str, arguments: Value) -> Answer {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"threadId": "t"}});
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        self.post(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")], &request)
    }

    /// Calls a tool without a session, as from 2026-07-28 on.
    fn call_once(&self, tool: &str, arguments: Value) -> Answer {
        Answer::of(self.begin_once(tool, arguments))
    }

    fn begin_once(&self, tool: &str, arguments: Value) -> TcpStream {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        self.send(&headers, &request)
    }
}

pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) reader: BufReader<TcpStream>,
}

impl Answer {
    /// Reads the head of the response; the rest is read on demand.
    pub(super) fn of(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            head += &std::mem::take(&mut line);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, reader }
    }

    pub(super) fn header(&self, name: &str) -> String {
        let lower = self.head.to_lowercase();
        let line = lower.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head)).to_owned()
    }

    /// The answer of the tool, whether the response is one document or a stream of events.
    pub(super) fn outcome(mut self) -> Value {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        let found = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line)).find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            message.get("result").map(|result| result["structuredContent"].clone())
        });
        found.unwrap_or_else(|| panic!("{} {text}", self.head))
    }
}

fn mark() -> String {
    format!("5{:08}.5", fastrand::u32(..100_000_000))
}

#[test]
fn both_protocol_versions_are_served_and_sessions_are_isolated() {
    let server = Server::start(&[]);
    let echo = json!({"command": "echo hello", "workdir": "/"});
    let (one, other) = (server.session(), server.session());
    assert_eq!(server.call(&one, "shell", echo.clone()).outcome()["output"], "hello\n");
    assert_eq!(server.call_once("shell", echo).outcome()["output"], "hello\n");
    let hang = json!({"command": "sleep 60", "yield_time_ms": 0});
    let (id, shared) = (
        server.call(&one, "exec_command", hang.clone()).outcome()["session_id"].clone(),
        server.call_once("exec_command", hang).outcome()["session_id"].clone(),
    );
    let ids = |sessions: Value| -> Vec<Value> {
        sessions["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].clone()).collect()
    };
    assert_eq!(ids(server.call(&one, "sessions", json!({})).outcome()), std::slice::from_ref(&id));
    assert_eq!(ids(server.call(&other, "sessions", json!({})).outcome()), [] as [Value; 0]);
    assert_eq!(ids(server.call_once("sessions", json!({})).outcome()), std::slice::from_ref(&shared));
    let killed = server.call_once("kill", json!({"session_id": shared})).outcome();
    assert_eq!(killed["exit_code"], 143);
}

#[test]
fn commands_end_with_their_session_or_with_the_connection_of_their_request() {
    let server = Server::start(&[]);
    let (deleted, cut) = (mark(), mark());
    let session = server.session();
    server.call(&session, "exec_command", json!({"command": format!("sleep {deleted}"), "yield_time_ms": 0})).outcome();
    let request = server.begin_once("shell", json!({"command": format!("sleep {cut}"), "workdir": "/"}));
    until_there(&deleted);
    until_there(&cut);
    drop(request);
    until_gone(&cut);
    server.delete(&session);
    until_gone(&deleted);
}

/// Without the tracking of deletions, both would end only after the 5 s that the library waits for the response.
#[test]
fn deleting_a_session_ends_its_commands_at_once_even_during_a_call() {
    let server = Server::start(&[]);
    let (session, mark) = (server.session(), mark());
    server.call(&session, "exec_command", json!({"command": format!("sleep {mark}"), "yield_time_ms": 0})).outcome();
    // The head of the response is sent before the command ends.
    let flight = server.call(&session, "shell", json!({"command": format!("sleep 0; sleep 1{mark}"), "workdir": "/"}));
    until_there(&format!("sleep 1{mark}"));
    let started = Instant::now();
    assert_eq!(server.delete("no-such-session").status, 202);
    assert!(process_with(&mark).is_some(), "the command of another session is still running");
    assert_eq!(server.delete(&session).status, 202);
    until_gone(&mark);
    assert!(started.elapsed() < Duration::from_millis(4_900), "{:?}", started.elapsed());
    drop(flight);
}

/// Begins sessions over one connection, so that its sender is looked up once.
fn begin_sessions(address: &str, count: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    for _ in 0..count {
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Accept: application/json, text/event-stream\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let (mut response, mut part) = (Vec::new(), [0; 4096]);
        while !response.ends_with(b"\r\n0\r\n\r\n") {
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&response));
            response.extend_from_slice(&part[..length]);
        }
        assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response));
    }
}

/// Many clients begin sessions and never delete them; after a thousand, nobody could begin another for a day.
#[test]
fn a_new_session_takes_the_place_of_the_one_that_was_not_used_for_longest() {
    let server = Server::start(&[]);
    let (busy, unused, used) = (server.session(), server.session(), server.session());
    let sleep = json!({"command": "sleep 1000", "yield_time_ms": 0});
    assert!(server.call(&busy, "exec_command", sleep).outcome()["session_id"].is_string());
    let status = |session: &str| server.call(session, "sessions", json!({})).status;
    let begin = |count: usize| {
        let address = server.address.as_str();
        std::thread::scope(|scope| (0..10).for_each(|_| _ = scope.spawn(move || begin_sessions(address, count / 10))));
    };
    begin(700);
    assert_eq!(status(&used), 200);
    begin(400);
    assert_eq!([&unused, &busy, &used].map(|session| status(session)), [404, 200, 200]);
}

#[test]
fn the_bound_address_is_an_allowed_host() {
    let server = Server::start_at("127.0.0.2:0", &[]);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let (host, own) = (("Host", server.address.as_str()), format!("http://{}", server.address));
    let refused = server.post(&[("Host", "127.0.0.3")], &list).status;
    assert_eq!(refused, 403);
    for headers in [&[host][..], &[host, ("Origin", &own)]] {
        assert_ne!(server.post(headers, &list).status, 403, "{headers:?}");
    }
}

#[test]
fn g7_connections_without_an_accepted_request_give_way_to_new_ones() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "0123456789abcdef").unwrap();
    let server = Server::start(&["--http-token-file", token.to_str().unwrap()]);
    let mut attacks = Vec::new();
    for i in 0..620 {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let half = match i % 3 {
            // The second request gets an answer, which is a refusal; the connection is kept alive.
            0 => "POST /mcp HTTP/1.1\r\nHost: ",
            1 => "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
            _ => "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
        };
        stream.write_all(half.as_bytes()).unwrap();
        attacks.push(stream);
    }
    let authorization = [("Authorization", "Bearer 0123456789abcdef")];
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let honest = server.send(&authorization, &ping);
    // Incomplete requests are dropped after 30 s: that would be too late here.
    honest.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_ne!(Answer::of(honest).status, 401);
    let mut oldest = attacks.swap_remove(0);
    oldest.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(oldest.read(&mut [0; 1]).unwrap_or(0), 0);
    let youngest = &mut attacks[618];
    youngest.set_nonblocking(true).unwrap();
    assert!(youngest.read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn a_server_that_was_started_by_nohup_does_not_end_with_the_terminal() {
    for (trap, ends) in [("trap '' HUP", false), ("true", true)] {
        let mut command = Command::new("sh");
        let server = exec_server(["--http", "127.0.0.1:0"]);
        command.args(["-c", &format!("{trap}; exec \"$0\" \"$@\"")]).arg(server.get_program()).args(server.get_args());
        server.get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
        command.stdin(Stdio::null()).current_dir("/");
        let server = Server::of(command);
        server.process.signal(Signal::HUP);
        if ends {
            assert_eq!(server.process.end().code, Some(0));
            continue;
        }
        // When this has run, the server has handled the signal. Commands do not ignore it.
        let line = json!({"command": "(sleep 0.3; kill -HUP $$) & sleep 1000; echo", "workdir": "/"});
        let ended = server.call_once("shell", line).outcome();
        assert_eq!(ended["exit_code"], 129, "{ended}");
    }
}

#[test]
fn web_pages_foreign_hosts_and_missing_tokens_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let open = Server::start(&[]);
    for header in [("Origin", "https://example.com"), ("Origin", "http://localhost"), ("Host", "example.com")] {
        assert_eq!(open.post(&[header], &list).status, 403, "{header:?}");
    }
    let own = format!("http://{}", open.address);
    assert_ne!(open.post(&[("Origin", &own)], &list).status, 403);
    let closed = Server::start(&["--http-token-file", file.to_str().unwrap()]);
    let bearer = |token: &str| closed.post(&[("Authorization", token)], &list).status;
    assert_eq!(closed.post(&[], &list).status, 401);
    for wrong in ["Bearer 0123456789abcdeX", "Bearer 0123456789abcde", "Bearer ", "Basic 0123456789abcdef", "é"] {
        assert_eq!(bearer(wrong), 401, "{wrong}");
    }
    assert_ne!(bearer("Bearer 0123456789abcdef"), 401);
    let refused = ended(&mut exec_server(["--http", "0.0.0.0:0"]));
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("not loopback"), "{}", refused.err);
    std::fs::write(&file, "short").unwrap();
    let refused = ended(&mut exec_server(["--http", "127.0.0.1:0", "--http-token-file", file.to_str().unwrap()]));
    assert!(refused.code == Some(1) && refused.err.contains("a token is one line"), "{}", refused.err);
}
