//! Helpers for tests of the program: starting it, reading lines from it, and waiting with a deadline.
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Nothing takes this long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program under test, without any of our variables in its environment.
pub(crate) fn pausewatch() -> Command {
    plain(env!("CARGO_BIN_EXE_pausewatch"))
}

/// Any program, without any of our variables in its environment.
pub(crate) fn plain(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PAUSEWATCH_") || ["CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"].contains(&&*text) {
            command.env_remove(name);
        }
    }
    command.env_remove("XDG_CONFIG_HOME").env("HOME", "/proc/nonexistent").env("LC_ALL", "C.UTF-8");
    command
}

/// `pausewatch run` with a command that reports its progress on standard output.
pub(crate) struct Run {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Run {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(pausewatch().arg("run").args(args).stdin(Stdio::null()))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// As `spawn`, for a command that reads what [`Run::write`] writes.
    pub(crate) fn spawn_with_input(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn expect(&mut self, line: &str) {
        assert_eq!(self.line(), line);
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child.id().to_string(), name);
    }

    /// Waits until it sleeps and has nothing left to do.
    pub(crate) fn at_rest(&self) {
        until_state(&self.child.id().to_string(), 'S');
    }

    /// Waits for its end; returns how it ended.
    pub(crate) fn ended(&mut self) -> End {
        End::from(within_deadline(&mut self.child))
    }

    /// Reads until all processes that could write have ended.
    pub(crate) fn rest(self) -> String {
        all_of(self.output).within_deadline()
    }
}

/// Reads in the background until all processes that could write have ended.
pub(crate) fn all_of(mut output: impl Read + Send + 'static) -> Reading {
    let (done, reading) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        done.send(text)
    });
    Reading(reading)
}

/// What [`all_of`] reads.
pub(crate) struct Reading(mpsc::Receiver<String>);

impl Reading {
    pub(crate) fn within_deadline(self) -> String {
        self.0.recv_timeout(DEADLINE).expect("no process may be left that holds the output")
    }
}

/// Sends a signal with the shell's `kill`.
pub(crate) fn signal(process: &str, name: &str) {
    assert!(kill(process, name), "kill -{name} {process}");
}

/// Whether a signal could be sent; `0` only checks that the process exists.
pub(crate) fn kill(process: &str, name: &str) -> bool {
    Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\" 2>&-", "sh", name, process]).status().unwrap().success()
}

/// Waits until the kernel shows the process in this state (S: sleeping, T: stopped).
pub(crate) fn until_state(process: &str, state: char) {
    let end = Instant::now() + DEADLINE;
    let shown = format!(") {state} ");
    while !std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(&shown)) {
        assert!(Instant::now() < end, "process {process} never reached state {state}");
        std::thread::yield_now();
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap()),
        }
    }
}

/// Waits for the child; if it hangs, it is killed, and the test fails.
pub(crate) fn within_deadline(child: &mut Child) -> ExitStatus {
    let id = child.id().to_string();
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hangs = end.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout);
        hangs && kill(&id, "KILL")
    });
    // `wait` would close the input, which could end the command.
    let input = child.stdin.take();
    let status = child.wait().unwrap();
    drop((ended, input));
    assert!(!watchdog.join().unwrap(), "still running after {DEADLINE:?}");
    status
}
