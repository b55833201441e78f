//! The program as a process, and a coordinator for it to call.
//!
//! 1. The environment of the test run does not reach it: no variable of ours, no config file.
//! 2. Nothing waits for ever: what does not happen within [`PATIENCE`] is a failure. No process is left behind.
use crate::support::PATIENCE;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A coordinator with a memory store, which is killed when this is dropped.
pub(crate) struct Coordinator {
    process: Process,
    pub(crate) address: String,
}

impl Coordinator {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(listen: &str) -> Self {
        Self::start_with(["--listen", listen, "--store", "memory"])
    }

    pub(crate) fn start_with<const N: usize>(options: [&str; N]) -> Self {
        let mut command = program();
        command.arg("serve").args(options);
        let process = Process::start(command);
        let line = process.line();
        let address = line.strip_prefix("listening ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, address }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self.process.signal(signal);
    }

    /// Stops it; returns all its output.
    pub(crate) fn end(self) -> Ended {
        self.signal(rustix::process::Signal::TERM);
        self.process.end()
    }

    /// The program with this coordinator and thread `t` in its environment.
    pub(crate) fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = program();
        command.args(args).env("PAUSEWATCH_ADDRESS", &self.address).env("PAUSEWATCH_THREAD_ID", "t");
        command
    }

    /// Runs it to its end.
    pub(crate) fn run<const N: usize>(&self, args: [&str; N]) -> Ended {
        ended(&mut self.command(args))
    }

    /// Runs it to a successful end; returns its output.
    pub(crate) fn answer<const N: usize>(&self, args: [&str; N]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    }

    /// The number of open elicitations of thread `t`. On a busy machine, a call may have no answer in time; it is repeated.
    pub(crate) fn count(&self) -> u64 {
        let began = Instant::now();
        let got = loop {
            let got = self.run(["get", "--output", "json"]);
            let is_unanswered = ["(DEADLINE_EXCEEDED)\n", "(UNAVAILABLE)\n"].iter().any(|code| got.err.ends_with(code));
            if !is_unanswered || began.elapsed() > PATIENCE {
                break got;
            }
        };
        assert_eq!(got.code, Some(0), "{got:?}");
        let response: serde_json::Value = serde_json::from_str(&got.out).unwrap();
        response["pauseState"]["count"].as_u64().unwrap_or(0)
    }

    /// A watch of thread `t` that has printed its first state.
    pub(crate) fn watch(&self) -> Watching {
        let process = Process::start(self.command(["watch", "--output", "json"]));
        while !process.line().contains("snapshotComplete") {}
        Watching(process)
    }
}

/// The program without any of our variables in its environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    for variable in [
        "ADDRESS",
        "THREAD_ID",
        "TOKEN",
        "TOKEN_FILE",
        "TLS_CA",
        "TLS_CERT",
        "TLS_KEY",
        "TOKEN_KEY",
        "CONFIG",
        "DATA_DIR",
    ] {
        command.env_remove(format!("PAUSEWATCH_{variable}"));
    }
    command.env_remove("CODEX_THREAD_ID").env_remove("CLAUDE_CODE_SESSION_ID");
    command.env_remove("XDG_CONFIG_HOME").env("HOME", "/proc/nonexistent").env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// How a process ended, and its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn ended(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { status, code: status.code(), out: text(stdout), err: text(stderr) }
}

/// A process that runs beside the test, and is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    out: Option<mpsc::Receiver<String>>,
    err: mpsc::Receiver<String>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        Self::start_as_it_is(command)
    }

    /// Leaves standard output as the command defines it.
    pub(crate) fn start_as_it_is(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().map(lines);
        let err = lines(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// The next line of standard output.
    pub(crate) fn line(&self) -> String {
        match self.out.as_ref().unwrap().recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => self.no_line(error),
        }
    }

    /// The next line of standard output; `None`: it has ended without one.
    pub(crate) fn line_unless_ended(&self) -> Option<String> {
        match self.out.as_ref().unwrap().recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => self.no_line(error),
        }
    }

    fn no_line(&self, error: mpsc::RecvTimeoutError) -> ! {
        panic!("no line: {error}; standard error: {:?}", self.err.try_iter().collect::<Vec<_>>())
    }

    /// The next line of standard error.
    pub(crate) fn error_line(&self) -> String {
        self.err.recv_timeout(PATIENCE).unwrap()
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Writes to its standard input, which is a pipe.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Closes standard input, which the process waits for.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; returns the rest of its output too.
    pub(crate) fn end(mut self) -> Ended {
        // Its status is read before its output ends: a process that ends its group waits until nothing of the group is left.
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let rest = |lines: &mpsc::Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => text += &(line + "\n"),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(error) => panic!("it does not end: {error}; so far {text}"),
                }
            }
        };
        let (out, err) = (self.out.as_ref().map(rest).unwrap_or_default(), rest(&self.err));
        let status = self.child.wait().unwrap();
        Ended { status, code: status.code(), out, err }
    }

    /// Kills it, and waits for its end, even if children of it continue.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::channel();
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    lines
}

/// `pausewatch watch` of one thread.
pub(crate) struct Watching(Process);

impl Watching {
    /// Waits until the thread has `count` open elicitations.
    pub(crate) fn wait_for(&self, count: u64) {
        loop {
            let event: serde_json::Value = serde_json::from_str(&self.0.line()).unwrap();
            let state = &event["pauseState"];
            if state.is_object() && state["count"].as_u64().unwrap_or(0) == count {
                return;
            }
        }
    }
}

/// Compares with `tests/it/snapshots/NAME`; with `PAUSEWATCH_UPDATE_SNAPSHOTS=1` in the environment, writes it instead.
#[track_caller]
pub(crate) fn assert_snapshot(name: &str, text: &str) {
    let path = format!("{}/tests/it/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PAUSEWATCH_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; if it should, run with PAUSEWATCH_UPDATE_SNAPSHOTS=1");
}
