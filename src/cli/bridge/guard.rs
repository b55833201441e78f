//! The guard of `--socket`: a process that undoes the bridge's counts if the bridge is killed.
//!
//! The app-server keeps a count when the connection ends that incremented it, so a killed bridge would leave its threads
//! frozen. The wrapper needs no guard: its app-server ends with it.
//!
//! 1. The bridge writes the threads that it counts to the guard's standard input, as a JSON array per line, before each
//!    request. When the input ends, the guard decrements those of the last line.
//! 2. The guard has its own session, so signals to the bridge's process group or terminal do not reach it. A kill of the whole
//!    control group does: then the threads stay frozen until Codex unloads them or the app-server ends.
//! 3. A guard that was killed is replaced. The old one is dead before its input closes, so it decrements nothing.
use super::message::{Ids, Op};
use super::{connection::Connection, report::say};
use rustix::{io::ioctl_fionbio, process::setsid};
use std::{
    io::{self, BufRead, PipeWriter, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};
use tokio::time::timeout;

/// The maximum time for undoing the counts.
const UNDO_TIMEOUT: Duration = Duration::from_secs(10);

/// Holds the ids of several thousand threads, in bytes: what Linux allows users by default (pipe(7)).
#[cfg(target_os = "linux")]
const PIPE_SIZE: usize = 1 << 20;

/// The arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The socket of the app-server.
    socket: PathBuf,
}

/// The bridge's handle of its guard.
pub(super) struct Guard {
    socket: PathBuf,
    process: Option<(Child, PipeWriter)>,
    last: Vec<String>,
    has_failed: bool,
}

impl Guard {
    /// Starts the guard.
    ///
    /// # Errors
    /// The system cannot start a process.
    pub(super) fn start(socket: &Path) -> io::Result<Self> {
        // Symbolic links are not resolved: Codex makes the path a link, and a restart may change its target.
        let socket = std::path::absolute(socket)?;
        let process = Some(start(&socket)?);
        Ok(Self { socket, process, last: Vec::new(), has_failed: false })
    }

    /// Sends the threads whose counts are ours to the guard.
    pub(super) fn set(&mut self, ours: &[&str]) {
        if self.last == ours {
            return;
        }
        self.last = ours.iter().map(ToString::to_string).collect();
        let line = serde_json::to_string(ours).expect("strings are JSON") + "\n";
        let write = |process: &mut Option<(Child, PipeWriter)>| match process {
            Some((_, input)) => input.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        if write(&mut self.process).is_ok() {
            return;
        }
        self.stop();
        self.process = start(&self.socket).ok();
        if write(&mut self.process).is_ok() {
            return;
        }
        // It may have got a part of the line, to which nothing must be added. The next call starts another guard.
        self.stop();
        self.last.clear();
        if !std::mem::replace(&mut self.has_failed, true) {
            say("cannot start another guard: if this process is killed now, threads of Codex stay frozen");
        }
    }

    fn stop(&mut self) {
        if let Some((mut guard, _input)) = self.process.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}

fn start(socket: &Path) -> io::Result<(Child, PipeWriter)> {
    let program = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let (theirs, ours) = io::pipe()?;
    // A line must fit as a whole, because the guard may not read yet. If the system does not allow it, long lines fail.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&ours, PIPE_SIZE);
    // A guard that does not read is replaced.
    ioctl_fionbio(&ours, true)?;
    let mut command = Command::new(program);
    command.args(["bridge", "codex-guard"]).arg(socket).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
    // The guard runs in the root directory, so that it does not prevent another file system from being unmounted.
    let guard = command.current_dir("/").spawn()?;
    Ok((guard, ours))
}

/// The guard's process: waits for the end of the bridge.
pub(super) fn run(args: &Args) -> ExitCode {
    // This fails only for the leader of a process group, and a new process is not one.
    let _ = setsid();
    let lines = io::stdin().lock().lines().map_while(Result::ok);
    let last: Vec<String> = lines.last().and_then(|line| serde_json::from_str(&line).ok()).unwrap_or_default();
    if last.is_empty() {
        return ExitCode::SUCCESS;
    }
    let runtime = match crate::cli::runtime::start() {
        Ok(runtime) => runtime,
        Err(_) => return ExitCode::from(crate::cli::exit::FAILED),
    };
    // Without an app-server, there is no count to undo.
    let undone = runtime.block_on(async { timeout(UNDO_TIMEOUT, undo(&args.socket, &last)).await });
    if matches!(undone, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::from(crate::cli::exit::FAILED) }
}

async fn undo(socket: &Path, thread_ids: &[String]) -> Result<(), String> {
    let ids = Ids::new();
    let mut connection = Connection::open(socket, &ids).await.map_err(|problem| format!("{problem:?}"))?;
    for (number, thread_id) in (1..).zip(thread_ids) {
        // An error means that there is nothing to undo.
        let _ = connection.call(&ids, number, Op::Decrement.method(), thread_id).await?;
    }
    Ok(())
}
