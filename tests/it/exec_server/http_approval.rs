//! A command must not approve itself over HTTP (G8). In all of these tests it knows the token, as if it had found it somewhere.
use super::client::exec_server;
use super::http::{Answer, Server};
use super::nested::compiled;
use crate::support::skipped;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, IoSlice, Write},
    mem::MaybeUninit,
    net::{TcpStream, UdpSocket},
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, net::UnixListener},
    },
    path::Path,
    process::Command,
};
use tempfile::TempDir;

pub(super) const TOKEN: &str = "0123456789abcdef";
const RULES: &str = "prefix_rule(pattern = ['touch'], decision = 'prompt')\n";

/// Passes the token over standard input, which commands cannot read.
pub(super) fn with_token(mut command: Command) -> Server {
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(TOKEN.as_bytes()).unwrap();
    drop(write);
    command.args(["--http-token-fd", "0"]).stdin(read);
    let mut server = Server::of(command);
    server.authorization = Some(format!("Bearer {TOKEN}"));
    server
}

/// A directory with rules, and the options of a server with them.
pub(super) fn ruled() -> (TempDir, [String; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("http.rules");
    fs::write(&rules, RULES).unwrap();
    let options = ["--rules".to_owned(), rules.to_str().unwrap().to_owned()];
    (directory, options)
}

/// The same command, started by another program with these words.
fn started_by<const N: usize>(words: [&str; N], command: &Command) -> Command {
    let mut outer = Command::new(words[0]);
    outer.args(&words[1..]).arg(command.get_program()).args(command.get_args()).current_dir("/");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn has(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").output().is_ok();
    if !runs {
        skipped(program, "it is not on PATH");
    }
    runs
}

pub(super) fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "a command", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// A call of protocol version 2026-07-28, with what follows it.
fn stateless(line: &str, workdir: &Path, more: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let mut params = json!({"name": "shell", "arguments": {"command": line, "workdir": workdir}, "_meta": meta});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
}

const STATELESS: [(&str, &str); 3] =
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "shell")];

/// A line of `sh` that sends `body` with `curl`, with these options.
fn curl(address: &str, body: &Path, options: &str) -> String {
    format!(
        "curl -s -m 20 {options} -H 'Authorization: Bearer {TOKEN}' -H 'Content-Type: application/json' \
         -H 'Accept: application/json, text/event-stream' --data-binary @{} http://{address}/mcp",
        body.display()
    )
}

/// Prints only the status.
const STATUS: &str = "-o /dev/null -w '%{http_code}\\n'";

/// A text of HTTP that begins a session.
fn request() -> String {
    let body = initialize().to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The output of a command of a new session.
pub(super) fn output(server: &Server, line: &str, workdir: &Path) -> String {
    let arguments = json!({"command": line, "workdir": workdir, "timeout_ms": 60_000});
    let answer = server.call(&server.session(), "shell", arguments).outcome();
    answer["output"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_command_cannot_begin_a_session() {
    if !has("curl") {
        return;
    }
    let (directory, options) = ruled();
    let body = directory.path().join("body");
    fs::write(&body, initialize().to_string()).unwrap();
    let server = with_token({
        let mut server = exec_server(["--http", "127.0.0.1:0"]);
        server.args(&options);
        server
    });
    let curl = curl(&server.address, &body, STATUS);
    fs::write(directory.path().join("attack"), format!("sleep 0.3; {curl} > new; mv new status\n")).unwrap();
    // The daemon has left the session, and its parents have ended. The command waits for its output.
    let daemon =
        "(setsid sh attack </dev/null >/dev/null 2>&1 &); until [ -e status ]; do sleep 0.05; done; cat status";
    for line in [&*curl, &format!("sh -c {}", shlex(&curl)), daemon] {
        assert_eq!(output(&server, line, directory.path()), "403\n", "{line}");
    }
    // The same from outside the sandbox.
    let honest = Command::new("sh").args(["-c", &curl]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&honest.stdout), "200\n");
}

fn shlex(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A server in a sandbox of its own cannot tell commands by `no_new_privs`.
#[test]
fn a_command_of_a_server_without_new_privileges_is_found_by_its_parents() {
    if !has("curl") || !has("setpriv") {
        return;
    }
    let (directory, options) = ruled();
    let body = directory.path().join("body");
    fs::write(&body, initialize().to_string()).unwrap();
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.args(&options);
    let server = with_token(started_by(["setpriv", "--no-new-privs"], &command));
    assert_eq!(output(&server, &curl(&server.address, &body, STATUS), directory.path()), "403\n");
}

#[test]
fn a_connection_that_was_passed_to_a_command_is_refused() {
    let (directory, options) = ruled();
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.args(&options);
    let server = with_token(command);
    let program = compiled("http_peer.c", directory.path());
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::write(directory.path().join("request"), request()).unwrap();
    let ours = TcpStream::connect(&server.address).unwrap();
    let passed = ours.try_clone().unwrap();
    std::thread::spawn(move || {
        let (receiver, _) = listener.accept().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [passed.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&receiver, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
    });
    let line = format!("{} receive socket < request", program.display());
    assert_eq!(output(&server, &line, directory.path()), "HTTP/1.1 403 Forbidden\r\n");
    // The session is still the test's.
    drop(ours);
    assert_eq!(output(&server, "echo honest", directory.path()), "honest\n");
}

#[test]
fn a_command_over_mptcp_is_refused() {
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled").unwrap_or_default();
    if enabled.trim() != "1" {
        return skipped("mptcp", "this kernel has none, or it is disabled");
    }
    let (directory, options) = ruled();
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.args(&options);
    let server = with_token(command);
    let program = compiled("http_peer.c", directory.path());
    fs::write(directory.path().join("request"), request()).unwrap();
    let port = server.address.rsplit(':').next().unwrap();
    let line = format!("{} mptcp {port} < request", program.display());
    assert_eq!(output(&server, &line, directory.path()), "HTTP/1.1 403 Forbidden\r\n");
    // A program that is no command may use it.
    let honest = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&honest.stdout), "HTTP/1.1 200 OK\r\n");
}

/// At an address that other machines reach, too.
#[test]
fn a_command_that_uses_another_address_of_this_machine_is_refused() {
    let own = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Nothing is sent.
        socket.connect("192.0.2.1:9")?;
        Ok(socket.local_addr()?.ip())
    });
    let Some(own) = own.ok().filter(|ip| !ip.is_loopback() && !ip.is_unspecified()) else {
        return skipped("address", "this machine has no address but loopback");
    };
    if !has("curl") {
        return;
    }
    let (directory, options) = ruled();
    let body = directory.path().join("body");
    fs::write(&body, initialize().to_string()).unwrap();
    let mut command = exec_server(["--http", &format!("{own}:0"), "--insecure", "--http-trust-proxy"]);
    command.args(&options);
    let server = with_token(command);
    assert_eq!(output(&server, &curl(&server.address, &body, STATUS), directory.path()), "403\n");
}

/// As root, the other tests run as root.
#[test]
fn a_command_of_another_user_is_refused_and_a_client_of_that_user_is_not() {
    if !has("curl") || !has("setpriv") || !rustix::process::geteuid().is_root() {
        return skipped("setpriv", "only root can become another user");
    }
    let (directory, options) = ruled();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.args(&options).env("XDG_RUNTIME_DIR", directory.path()).env("HOME", directory.path());
    let reachable = started_by(user, &{
        let mut test = Command::new(command.get_program());
        test.arg("--version");
        test
    });
    if !{ reachable }.output().is_ok_and(|output| output.status.success()) {
        return skipped("setpriv", "another user cannot execute the program that is tested");
    }
    let server = with_token(started_by(user, &command));
    let (begins, calls) = (directory.path().join("begins"), directory.path().join("calls"));
    fs::write(&begins, initialize().to_string()).unwrap();
    let inner = curl(&server.address, &begins, STATUS);
    let environ = format!("tr '\\0' '\\n' < /proc/{}/environ; ", server.process.pid().as_raw_pid());
    let line = format!("{inner}; {environ} true");
    fs::write(&calls, stateless(&line, directory.path(), json!({})).to_string()).unwrap();
    let headers = STATELESS.map(|(name, value)| format!("-H '{name}: {value}'")).join(" ");
    let mut honest = Command::new("sh");
    honest.args(["-c", &curl(&server.address, &calls, &headers)]);
    let answered = started_by(user, &honest).output().unwrap();
    let text = String::from_utf8_lossy(&answered.stdout);
    assert!(text.contains("\"output\":\"403\\n"), "{text}");
    assert!(
        text.contains("Permission denied") && !text.contains("XDG_RUNTIME_DIR"),
        "it reads the environment: {text}"
    );
}

/// The same token, the same session, another process.
#[test]
fn a_session_belongs_to_the_process_that_began_it() {
    if !has("curl") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = with_token(exec_server(["--http", "127.0.0.1:0"]));
    let session = server.session();
    let body = directory.path().join("body");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    fs::write(&body, list.to_string()).unwrap();
    let named = format!("-H 'Mcp-Session-Id: {session}' -H 'MCP-Protocol-Version: 2025-11-25'");
    for more in ["", "-X DELETE"] {
        let line = curl(&server.address, &body, &format!("{STATUS} {named} {more}"));
        let other = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&other.stdout), "404\n", "{more}");
    }
    assert_eq!(server.call(&session, "sessions", json!({})).status, 200, "it is still there");
}

/// The answers of the next newer protocol have no session: each is valid for the process that was asked only.
#[test]
fn another_process_cannot_answer_a_question() {
    if !has("curl") {
        return;
    }
    let (directory, options) = ruled();
    let mut command = exec_server(["--http", "127.0.0.1:0"]);
    command.args(&options);
    let server = with_token(command);
    let line = "touch made";
    let asked = message(server.post(&STATELESS, &stateless(line, directory.path(), json!({}))));
    let state = &asked["result"]["requestState"];
    assert!(state.is_string(), "{asked}");
    let yes = json!({"approval": {"action": "accept", "content": {"run": "yes"}}});
    let reply = stateless(line, directory.path(), json!({"requestState": state, "inputResponses": yes}));
    let body = directory.path().join("body");
    fs::write(&body, reply.to_string()).unwrap();
    let headers = STATELESS.map(|(name, value)| format!("-H '{name}: {value}'")).join(" ");
    let other = Command::new("sh").args(["-c", &curl(&server.address, &body, &headers)]).output().unwrap();
    let text = String::from_utf8_lossy(&other.stdout);
    assert!(text.contains("belongs to another request"), "{text}");
    let approved = message(server.post(&STATELESS, &reply));
    assert_eq!(approved["result"]["structuredContent"]["exit_code"], 0, "{approved}");
    assert!(directory.path().join("made").exists());
}

/// The message with the result, of a response that is one document or a stream of events.
fn message(answer: Answer) -> Value {
    let mut messages = messages(answer);
    messages.find(|message| message.get("result").is_some()).expect("a result")
}

pub(super) fn messages(answer: Answer) -> impl Iterator<Item = Value> {
    let lines = answer.reader.lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(&line)).ok())
}
