//! `pausewatch serve` as a separate process.
use super::{Api, PATIENCE, api};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running server, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Standard error, if it is read while the server runs.
    heard: Option<(Arc<Mutex<String>>, JoinHandle<()>)>,
    pub(crate) address: String,
}

impl Process {
    /// Starts a server on `listen` with its state in `directory`, and waits until it listens.
    pub(crate) fn serve(directory: &Path, listen: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", listen, "--data-dir"]).arg(directory);
        Self::start(command)
    }

    /// Starts `command` and waits for its first line `listening ADDRESS`.
    pub(crate) fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|said| panic!("the server ended before it listened: {said}"))
    }

    /// Starts `command` and waits for its first line `listening ADDRESS`.
    ///
    /// # Errors
    /// The server ended before it listened; returns its standard error.
    pub(crate) fn try_start(mut command: Command) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            if out.read_line(&mut line).expect("standard output can be read") == 0 {
                let error = child.stderr.take().map(|mut stderr| read_all(&mut stderr));
                let _ = child.wait();
                return Err(error.unwrap_or_default());
            }
            // A test binary that acts as the server prints other lines first.
            if let Some((_, address)) = line.split_once("listening ") {
                break address.trim().to_owned();
            }
        };
        Ok(Process { child, out, heard: None, address })
    }

    /// The URL of the metrics of a server with `--metrics-listen`.
    pub(crate) fn metrics(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("standard output can be read");
        line.trim().strip_prefix("metrics ").unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// Reads standard error from now on, because a pipe holds only 64 KiB.
    pub(crate) fn listen(&mut self) {
        let stderr = BufReader::new(self.child.stderr.take().expect("standard error is piped"));
        let text = Arc::<Mutex<String>>::default();
        let reader = std::thread::spawn({
            let text = text.clone();
            move || {
                for line in stderr.lines() {
                    let line = line.expect("it is text") + "\n";
                    text.lock().expect("nothing panics while it holds the text").push_str(&line);
                }
            }
        });
        self.heard = Some((text, reader));
    }

    /// Standard error so far, after [`Process::listen`].
    pub(crate) fn heard(&self) -> String {
        let (text, _) = self.heard.as_ref().expect("standard error is read");
        text.lock().expect("nothing panics while it holds the text").clone()
    }

    /// Waits until standard error has `text`, after [`Process::listen`]: the log is written in the background.
    pub(crate) async fn hears(&self, text: &str) {
        let give_up = Instant::now() + PATIENCE;
        while !self.heard().contains(text) {
            assert!(Instant::now() < give_up, "it does not say {text:?}, but:\n{}", self.heard());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn api(&self) -> Api {
        api(&self.address).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server runs");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The resident memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says so");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1_024
    }

    /// Kills the server as a crash would, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("it was ours");
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it was ours")
    }

    /// Waits for the end of the server; returns its status and its standard error.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let error = match self.heard.take() {
            Some((text, reader)) => {
                reader.join().expect("the reader does not panic");
                std::mem::take(&mut *text.lock().expect("nothing panics while it holds the text"))
            }
            None => read_all(self.child.stderr.as_mut().expect("standard error is piped")),
        };
        _ = self.out.read_to_string(&mut String::new());
        (status, error)
    }
}

fn read_all(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).expect("it is text");
    text
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state of the children of this process, thread by thread: for the message of a test that waits in vain. Empty
/// without `/proc`.
pub(crate) fn children() -> String {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = |process: &str| std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut report = String::new();
    for child in tasks("self").map(|task| read(task.path().join("children"))).collect::<String>().split_whitespace() {
        for task in tasks(child) {
            let [comm, status, wchan] = ["comm", "status", "wchan"].map(|file| read(task.path().join(file)));
            let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
            report += &format!("\n  {child} {}:{state} {wchan}", comm.trim());
        }
    }
    report
}
