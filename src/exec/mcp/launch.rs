//! Starting a command: its streams and its terminal.
//!
//! The hidden command `exec-child` of this program does the rest in the child process (session, death with the server,
//! working directory, sandbox) and then executes the shell. If programs are judged, `exec-supervisor` is started, and its child process does that
//! ([`crate::exec::judge`]). Code between `fork` and `exec` would have to be unsafe in this process, which has threads; code after `exec` need not.
//!
//! 1. Standard output and standard error share one pipe or terminal, so their order is preserved.
//! 2. This process keeps no copy of the write end, so it sees the end of the output.
use super::policy::SandboxPolicy;
use crate::{
    exec::judge::{Link, connect, save_memory},
    exec::policy::{LineCommands, is_executable_file},
    exec::sandbox::Sandbox,
    exec::supervise::session::Session,
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::Pid,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{net::unix::pipe, process::Child};

/// The size of a command's terminal.
const TERMINAL_SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// The variable with the token for HTTP, which commands do not get.
pub(crate) const HTTP_TOKEN: &str = "PAUSEWATCH_HTTP_TOKEN";

/// How commands are started.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    /// The path of this program, which has the command `exec-child`.
    pub program: PathBuf,
    /// The shell that runs command lines.
    pub shell: PathBuf,
    /// The soft limit of open files for commands; `None`: that of this process.
    pub open_files: Option<u64>,
}

/// The standard input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    /// Empty.
    Null,
    /// Written by `write_stdin`.
    Pipe,
    /// A terminal, which is its output too.
    Terminal,
}

pub(super) struct Launch<'a> {
    pub(super) line: &'a str,
    pub(super) login: bool,
    pub(super) workdir: &'a Path,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) streams: Streams,
    pub(super) sandbox: Option<&'a Sandbox>,
    /// The programs to judge when they are executed; `None`: none is judged.
    pub(super) judged: Option<&'a Judged<'a>>,
}

/// The programs of a command that are judged when they are executed.
pub(super) struct Judged<'a> {
    /// The file names of the programs that a rule asks about or forbids.
    pub(super) restricted: &'a [String],
    /// The commands of the line that may leave the sandbox.
    pub(super) line_commands: Arc<LineCommands>,
}

impl Judged<'_> {
    /// The options of `exec-supervisor` that name them.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let restricted = self.restricted.iter().map(|name| ("--name", name.as_str()));
        restricted.chain(self.line_commands.names().map(|name| ("--allowed", name)))
    }
}

pub(super) struct Launched {
    pub(super) child: Child,
    pub(super) session: Session,
    pub(super) reader: Reader,
    pub(super) writer: Option<pipe::Sender>,
    /// The connection to the supervisor, if programs are judged.
    pub(super) link: Option<Link>,
}

impl Launcher {
    pub(super) fn launch(&self, launch: Launch<'_>) -> io::Result<Launched> {
        let mut command = std::process::Command::new(&self.program);
        command.arg(if launch.judged.is_some() { "exec-supervisor" } else { "exec-child" });
        command.arg("--parent").arg(std::process::id().to_string());
        if launch.streams == Streams::Terminal {
            command.arg("--terminal").env("TERM", "xterm-256color");
        }
        save_memory(&mut command);
        if let Some(judged) = launch.judged {
            judged.names().for_each(|(option, name)| _ = command.args([option, name]));
            // The rest is for the process that becomes the shell.
            command.arg("--");
        }
        if let Some(sandbox) = launch.sandbox {
            command.arg("--sandbox");
            sandbox.writable().iter().for_each(|root| _ = command.arg("--writable").arg(root));
        }
        self.open_files.iter().for_each(|limit| _ = command.arg("--open-files").arg(limit.to_string()));
        command.arg("--workdir").arg(launch.workdir);
        command.arg("--").arg(&self.shell).arg(if launch.login { "-lc" } else { "-c" }).arg(launch.line);
        command.envs(launch.env).env_remove(HTTP_TOKEN);
        let (reader, writer, stdin) = match launch.streams {
            Streams::Terminal => {
                let (ours, theirs) = open_terminal()?;
                command.stdout(theirs.try_clone()?).stderr(theirs.try_clone()?);
                // A terminal is read and written like a pipe.
                let reader = pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?;
                (reader, Some(pipe::Sender::from_owned_fd_unchecked(ours)?), theirs)
            }
            streams => {
                let (ours, theirs) = io::pipe()?;
                command.stdout(theirs.try_clone()?).stderr(theirs);
                let reader = pipe::Receiver::from_owned_fd(ours.into())?;
                if streams == Streams::Pipe {
                    let (theirs, ours) = io::pipe()?;
                    (reader, Some(pipe::Sender::from_owned_fd(ours.into())?), theirs.into())
                } else {
                    (reader, None, File::open("/dev/null")?.into())
                }
            }
        };
        let link = match launch.judged {
            Some(_) => {
                let (ours, theirs) = connect(stdin)?;
                command.stdin(theirs);
                Some(Link::new(ours)?)
            }
            None => {
                command.stdin(stdin);
                None
            }
        };
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn()?;
        // Closes our copies of the child's streams (2).
        drop(command);
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the command has no process id"))?;
        let session = if link.is_some() { Session::supervised_by(leader) } else { Session::led_by(leader) };
        Ok(Launched { child, session, reader: Reader(reader), writer, link })
    }
}

fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    tcsetwinsize(&theirs, TERMINAL_SIZE)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// The read end of a command's output.
pub(super) struct Reader(pipe::Receiver);

impl Reader {
    /// Waits until there may be something to read. Cancel safe.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Reads without waiting. `Ok(0)`: every process with the write end has ended.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.try_read(buffer) {
            // A terminal reports this when no process has it open any more.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(ErrorKind::WouldBlock.into()),
            read => read,
        }
    }
}

/// `bash` if it is in `PATH`, because models write command lines for it; else `sh`, and finally `/bin/sh`. A shell that
/// a command can have written is skipped: after a yes, the shell of a line runs outside the sandbox where programs are not judged.
pub(crate) fn default_shell(sandbox: Option<&SandboxPolicy>) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files =
        |name| std::env::split_paths(&path).filter(|directory| directory.is_absolute()).map(move |d| d.join(name));
    let is_sound = |file: &PathBuf| is_executable_file(file) && sandbox.is_none_or(|sandbox| !sandbox.is_exposed(file));
    files("bash").chain(files("sh")).find(is_sound).unwrap_or_else(|| "/bin/sh".into())
}
