//! Asks a person about a program of COMMAND: by the command of `--ask`, else on the terminal.
//!
//! 1. On the terminal, only `y` and `yes` mean yes. While it asks, this process group is in the foreground, and the
//!    terminal reads lines and shows what is typed, whatever COMMAND has set. The terminal is never taken from another
//!    job, such as the shell that runs this as a background job: then the question waits until the person brings this
//!    job to the foreground. After a stop (Ctrl-Z, `fg`) it is asked again.
//! 2. If the future is dropped, the question is withdrawn: nothing more is read, and the command of `--ask` is killed.
use nix::unistd::{getpgid, getpgrp};
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::{Pid, Signal},
    termios::{
        InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp,
        tcsetattr, tcsetpgrp,
    },
};
use std::{ffi::OsString, fs, io, os::fd::OwnedFd, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::Command,
    signal::unix::{SignalKind, signal},
};

const TERMINAL: &str = "/dev/tty";
/// How often the foreground is checked while another job has the terminal.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const WAITS: &str = "\npausewatch run: a question about a program waits: bring this command to the foreground (`fg`), or name a command that asks with `run --ask COMMAND`\n";
/// The maximum of a question in an environment variable, in characters.
const MAX_QUESTION: usize = 20_000;

/// How to ask.
pub(super) struct Ask {
    command: Option<String>,
    /// The process group in which this process was started. It may lead one of its own later.
    started_in: i32,
}

impl Ask {
    /// `command`: for `/bin/sh`; `None`: on the terminal. Call it before this process leads a process group.
    pub(super) fn new(command: Option<String>) -> Self {
        Self { command, started_in: getpgrp().as_raw() }
    }

    /// Whether the person says yes.
    ///
    /// # Errors
    /// Why nobody was asked, or gave no answer.
    pub(super) async fn ask(
        &self,
        question: &str,
        program: &str,
        environment: &[(OsString, OsString)],
    ) -> Result<bool, String> {
        match &self.command {
            Some(command) => by_command(command, question, program, environment).await,
            None => by_terminal(question, self.started_in).await.map_err(|error| {
                format!("no person could be asked on the terminal ({error}): name a command that asks with `run --ask COMMAND`")
            })?,
        }
    }
}

async fn by_command(
    command: &str,
    question: &str,
    program: &str,
    environment: &[(OsString, OsString)],
) -> Result<bool, String> {
    let text = |text: &str| text.chars().take(MAX_QUESTION).collect::<String>().replace('\0', "\u{fffd}");
    let mut child = Command::new("/bin/sh");
    child.args(["-c", command]).envs(environment.iter().map(|(name, value)| (name, value)));
    child.env("PAUSEWATCH_QUESTION", text(question)).env("PAUSEWATCH_PROGRAM", text(program));
    // Standard input and output belong to COMMAND.
    child.stdin(Stdio::null()).stdout(Stdio::from(io::stderr())).kill_on_drop(true);
    let status = child.status().await.map_err(|error| format!("the command of --ask did not start: {error}"))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("the command of --ask failed ({status}); 0 means yes, 1 means no")),
    }
}

/// Whether the answer on the terminal is a yes; the inner error: there was no answer.
async fn by_terminal(question: &str, started_in: i32) -> io::Result<Result<bool, String>> {
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = |access| open(TERMINAL, access | flags, Mode::empty());
    let mut is_announced = false;
    loop {
        let (input, output) = (terminal(OFlags::RDONLY)?, terminal(OFlags::WRONLY)?);
        if is_ours(&input, started_in) {
            match answer(question, input, output).await {
                // Another job has got the terminal meanwhile.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => is_announced = false,
                answer => return answer,
            }
        } else if !is_announced {
            let _ = rustix::io::write(&output, WAITS.as_bytes());
            is_announced = true;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Whether the job in the foreground is that of this process, or one of COMMAND's.
fn is_ours(terminal: &OwnedFd, started_in: i32) -> bool {
    // There is no foreground group, or this process may not know it.
    let Ok(group) = tcgetpgrp(terminal) else { return true };
    let group = group.as_raw_pid();
    group == started_in || group == getpgrp().as_raw() || is_of_command(group)
}

/// Whether a process of this group descends from this one: COMMAND may be a shell with jobs.
fn is_of_command(group: i32) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let mut members =
        ids.filter(|id| getpgid(Some(nix::unistd::Pid::from_raw(*id))).is_ok_and(|of| of.as_raw() == group));
    members.any(|id| std::iter::successors(Some(id), |id| parent_of(*id)).any(|ancestor| ancestor == own))
}

/// `None`: it has none, or has ended.
fn parent_of(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// # Errors
/// EIO: ask again. Others: nobody can be asked.
async fn answer(question: &str, input: OwnedFd, output: OwnedFd) -> io::Result<Result<bool, String>> {
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let foreground = Foreground::take(&input)?;
    // Input that was typed before the question does not answer it.
    let _ = tcflush(&input, QueueSelector::IFlush);
    // A terminal is read and written like a pipe.
    let (mut input, mut output) =
        (pipe::Receiver::from_owned_fd_unchecked(input)?, pipe::Sender::from_owned_fd_unchecked(output)?);
    output.write_all(format!("pausewatch run: {question}\n\nRun it? [y/N] ").as_bytes()).await?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        let read = tokio::select! {
            // The shell has used the terminal meanwhile, and what was typed is lost.
            _ = continued.recv() => return Err(Errno::IO.into()),
            read = tokio::time::timeout(LOOK_INTERVAL, input.read_buf(&mut line)) => read,
        };
        match read {
            Ok(read) => {
                if read? == 0 {
                    return Ok(Err("the person gave no answer".to_owned()));
                }
            }
            // Stopped and continued in the background. A read would fail as soon as something is typed.
            Err(_) if !foreground.is_held() => return Err(Errno::IO.into()),
            Err(_) => {}
        }
    }
    let answer = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
    Ok(Ok(matches!(&*answer, "y" | "yes")))
}

/// Our process group has the terminal until this is dropped: a background process cannot read it.
struct Foreground {
    terminal: OwnedFd,
    own: Pid,
    before: Option<Pid>,
    modes: Option<Termios>,
}

impl Foreground {
    fn take(terminal: &OwnedFd) -> io::Result<Self> {
        let terminal = terminal.try_clone()?;
        let own = Pid::from_raw(nix::unistd::getpgrp().as_raw()).ok_or(io::ErrorKind::Unsupported)?;
        let before = tcgetpgrp(&terminal).ok();
        if before != Some(own) {
            // Our thread blocks TTOU, which would stop this process.
            tcsetpgrp(&terminal, own)?;
        }
        let modes = tcgetattr(&terminal).ok();
        if let Some(mut modes) = modes.clone() {
            modes.local_modes |= LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHO;
            modes.input_modes |= InputModes::ICRNL;
            modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
            let _ = tcsetattr(&terminal, OptionalActions::Now, &modes);
        }
        Ok(Self { terminal, own, before: before.filter(|before| *before != own), modes })
    }

    /// Whether no other job has got the terminal since.
    fn is_held(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == self.own)
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if !self.is_held() {
            return;
        }
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, modes);
        }
        if let Some(before) = self.before {
            // Fails if that group has gone.
            let _ = tcsetpgrp(&self.terminal, before);
        }
    }
}
