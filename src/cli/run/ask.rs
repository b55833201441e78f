//! Asks a person about a program of COMMAND: by the command of `--ask`, else on the terminal.
//!
//! 1. On the terminal, only `y` and `yes` are a yes. While it asks, this process group is in the foreground, and the terminal reads lines and shows what is
//!    typed, whatever COMMAND has set.
//! 2. Dropped, the question is withdrawn: nothing is read any more, and the command of `--ask` is killed.
use rustix::{
    fs::{Mode, OFlags, open},
    process::Pid,
    termios::{
        InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp,
        tcsetattr, tcsetpgrp,
    },
};
use std::{ffi::OsString, io, os::fd::OwnedFd, process::Stdio};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::Command,
};

const TERMINAL: &str = "/dev/tty";
/// The maximum of a question in an environment variable, in characters.
const MAX_QUESTION: usize = 20_000;

/// How to ask.
pub(super) struct Ask {
    command: Option<String>,
}

impl Ask {
    /// `command`: for `/bin/sh`; `None`: on the terminal.
    pub(super) fn new(command: Option<String>) -> Self {
        Self { command }
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
            None => by_terminal(question).await.map_err(|error| {
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
async fn by_terminal(question: &str) -> io::Result<Result<bool, String>> {
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = |access| open(TERMINAL, access | flags, Mode::empty());
    let (input, output) = (terminal(OFlags::RDONLY)?, terminal(OFlags::WRONLY)?);
    let _foreground = Foreground::take(&input)?;
    // Input that was typed before the question is no answer.
    let _ = tcflush(&input, QueueSelector::IFlush);
    // A terminal is read and written like a pipe.
    let (mut input, mut output) =
        (pipe::Receiver::from_owned_fd_unchecked(input)?, pipe::Sender::from_owned_fd_unchecked(output)?);
    output.write_all(format!("pausewatch run: {question}\n\nRun it? [y/N] ").as_bytes()).await?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') {
        if input.read_buf(&mut line).await? == 0 {
            return Ok(Err("the person gave no answer".to_owned()));
        }
    }
    let answer = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
    Ok(Ok(matches!(&*answer, "y" | "yes")))
}

/// Our process group has the terminal until this is dropped: a background process cannot read it.
struct Foreground {
    terminal: OwnedFd,
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
            let _ = tcsetattr(&terminal, OptionalActions::Drain, &modes);
        }
        Ok(Self { terminal, before: before.filter(|before| *before != own), modes })
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.terminal, OptionalActions::Drain, modes);
        }
        if let Some(before) = self.before {
            // Fails if that group has gone.
            let _ = tcsetpgrp(&self.terminal, before);
        }
    }
}
