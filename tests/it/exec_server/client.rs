//! An MCP client that sees every message: it runs `pausewatch exec-server` as a process and exchanges lines with it.
//!
//! 1. Nothing waits for ever: a message that does not arrive within [`PATIENCE`] is a failure, which prints the other
//!    messages.
use crate::program::program;
use crate::support::PATIENCE;
use serde_json::{Value, json};
use std::{
    env,
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// An initialized client.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: mpsc::Receiver<Value>,
    /// Messages that arrived while waiting for others.
    pub(crate) others: Vec<Value>,
    next: u64,
    /// Sent with every request, as 2026-07-28 requires.
    meta: Value,
}

/// The program with these arguments, with permission to run commands in every directory.
pub(crate) fn exec_server<const N: usize>(args: [&str; N]) -> Command {
    let mut command = program();
    command.arg("exec-server").args(args);
    // `cargo test` sets the first one. Commands may be able to write there, and then nothing would leave the sandbox.
    command.current_dir("/").env_remove("LD_LIBRARY_PATH").env_remove("XDG_RUNTIME_DIR");
    command
}

/// PATH without the directories of a clone below the directory for temporary files: commands can write there, so no
/// line would be allowed to leave the sandbox.
pub(crate) fn path_of_the_system() -> OsString {
    let path = env::var_os("PATH").expect("cargo test has it");
    let temporary = env::temp_dir();
    env::join_paths(env::split_paths(&path).filter(|directory| !directory.starts_with(&temporary))).expect("no colons")
}

impl Client {
    /// Starts a client of the previous protocol version, which supports elicitation.
    pub(crate) fn start(command: Command) -> Self {
        Self::with(command, "2025-11-25", json!({"elicitation": {}}))
    }

    pub(crate) fn with(command: Command, version: &str, capabilities: Value) -> Self {
        let mut client = Self::connect(command);
        let client_info = json!({"name": "test", "version": "1"});
        if version < "2026" {
            let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client_info});
            let id = client.request("initialize", params);
            let result = client.result(id);
            assert_eq!(result["protocolVersion"], version);
            client.notify("notifications/initialized", json!({}));
        } else {
            client.meta = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": client_info,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
        }
        client
    }

    fn connect(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, messages) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| to.send(serde_json::from_str(&line).expect("JSON")))
        });
        let stdin = child.stdin.take();
        Self { child, stdin, messages, others: Vec::new(), next: 0, meta: json!({}) }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("the client is connected"), "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        for (key, value) in self.meta.as_object().unwrap() {
            params["_meta"][key] = value.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// Answers a request of the server.
    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Answers a request of the server with an error.
    pub(crate) fn respond_with_error(&mut self, request: &Value, code: i32) {
        let error = json!({"code": code, "message": "no"});
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }

    /// Calls a tool in a thread, without waiting.
    pub(crate) fn begin(&mut self, tool: &str, thread: &str, arguments: Value) -> u64 {
        let meta = json!({"pausewatch/threadId": thread, "progressToken": format!("token {}", self.next + 1)});
        self.request("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    /// Waits for the wanted message; keeps the others.
    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.others.iter().position(&wanted) {
            return self.others.remove(at);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match self.messages.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) if wanted(&message) => return message,
                Ok(message) => self.others.push(message),
                Err(error) => panic!("no {what}: {error}; there are {:#?}", self.others),
            }
        }
    }

    fn response(&mut self, id: u64) -> Value {
        self.wait_for("response", |message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for the result of a request.
    pub(crate) fn result(&mut self, id: u64) -> Value {
        let response = self.response(id);
        response.get("result").unwrap_or_else(|| panic!("{response}")).clone()
    }

    /// Waits for the answer of a tool.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let result = self.result(id);
        assert_eq!(result["isError"], false, "{result}");
        let answer = result["structuredContent"].clone();
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, answer, "the text has the same content");
        answer
    }

    /// Whether a call has been answered, without waiting.
    pub(crate) fn has_answered(&mut self, id: u64) -> bool {
        self.others.extend(self.messages.try_iter());
        self.others.iter().any(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Calls a tool in thread `t` and returns its answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, "t", arguments);
        self.answer(id)
    }

    /// The output of a session from `answer` on, up to the answer that completes `wanted`: on a busy machine, a yield
    /// deadline may come before the output.
    pub(crate) fn output_until(&mut self, answer: &Value, wanted: &str) -> String {
        let mut output = answer["output"].as_str().unwrap().to_owned();
        let end = Instant::now() + PATIENCE;
        while !output.contains(wanted) {
            assert!(Instant::now() < end, "no {wanted:?} in {output:?}");
            let poll = json!({"session_id": answer["session_id"], "yield_time_ms": 50});
            output += self.call("write_stdin", poll)["output"].as_str().unwrap();
        }
        output
    }

    /// Calls a tool and returns the message of its refusal.
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin(tool, "t", arguments);
        let result = self.result(id);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The messages of a method that have arrived so far, without waiting.
    pub(crate) fn come(&mut self, method: &str) -> Vec<Value> {
        self.others.extend(self.messages.try_iter());
        self.others.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes the client's end; answers can still be read.
    pub(crate) fn close(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes the client's end, and waits for the end of the server.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        self.close();
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until no process has this text in its command line.
pub(crate) fn until_gone(mark: &str) {
    let end = Instant::now() + PATIENCE;
    while let Some(found) = process_with(mark) {
        assert!(Instant::now() < end, "still there: {found}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has this text in its command line.
pub(crate) fn until_there(mark: &str) {
    let end = Instant::now() + PATIENCE;
    while process_with(mark).is_none() {
        assert!(Instant::now() < end, "no process has {mark} in its command line");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has this text in its command line.
pub(crate) fn process_with(mark: &str) -> Option<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).find(|line| line.contains(mark))
}
