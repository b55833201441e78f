//! Spawns the command by the rules of `execvp`: `/bin/sh` runs a file without `#!`.
//!
//! The standard library spawns by `posix_spawnp`, which does not do that, so this case is tried again.
//!
//! Only the process of the command itself can prepare two things: a signal at the death of its parent, and SIGPIPE
//! ignored, which the standard library resets in every command. `prepare.rs` does both between `fork` and `exec`.
#[cfg(target_os = "linux")]
use super::orphans;
use super::{inherited::was_ignored, prepare::prepare, signal::Signal};
use rustix::{io::Errno, process};
#[cfg(feature = "cli")]
use std::process::Stdio;
use std::{ffi::OsString, io, process::Command};

/// A program, looked up in `PATH` unless its name has a slash, its arguments, and additions to the environment. Everything
/// else is inherited.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The name, which is also the command's `argv[0]`.
    pub name: OsString,
    /// The arguments after it.
    pub args: Vec<OsString>,
    /// Set in the command's environment.
    pub env: Vec<(OsString, OsString)>,
    /// The signal that it gets if this process ends first. Linux only.
    pub death_signal: Option<Signal>,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    /// The program, or the interpreter that its first line names, does not exist.
    #[error("failed to run command: {0}")]
    NotFound(#[source] io::Error),
    /// The program exists but cannot be run.
    #[error("failed to run command: {0}")]
    NotExecutable(#[source] io::Error),
    /// The system cannot create another process.
    #[error("cannot create a process: {0}")]
    NoProcess(#[source] io::Error),
}

impl SpawnError {
    /// The exit code that shells, `env`, `nohup` and `timeout` agree on: 127, 126, 125.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(_) => 126,
            Self::NoProcess(_) => 125,
        }
    }

    /// The error of the system.
    pub(crate) fn cause(&self) -> &io::Error {
        let (Self::NotFound(cause) | Self::NotExecutable(cause) | Self::NoProcess(cause)) = self;
        cause
    }
}

impl From<io::Error> for SpawnError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::NotFound(error),
            Some(Errno::AGAIN | Errno::NOMEM) => Self::NoProcess(error),
            _ => Self::NotExecutable(error),
        }
    }
}

impl Program {
    /// Spawns it. As process 1 of a container, this process also reads the exit status of all its other children from now on.
    pub(crate) fn spawn(&self) -> Result<tokio::process::Child, SpawnError> {
        self.spawn_with(|_| {})
    }

    /// Spawns it with pipes as its standard input and output.
    #[cfg(feature = "cli")]
    pub(crate) fn spawn_piped(&self) -> Result<tokio::process::Child, SpawnError> {
        self.spawn_with(|command| _ = command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    fn spawn_with(&self, prepare: impl Fn(&mut tokio::process::Command)) -> Result<tokio::process::Child, SpawnError> {
        let spawn = |command| {
            let mut command = tokio::process::Command::from(command);
            prepare(&mut command);
            command.spawn()
        };
        let child = match spawn(self.command()) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => spawn(self.by_shell()),
            result => result,
        }?;
        #[cfg(target_os = "linux")]
        orphans::reap_beside(&child);
        Ok(child)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.name);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        prepare(&mut command, self.death_signal, was_ignored(process::Signal::PIPE));
        command
    }

    fn by_shell(&self) -> Command {
        if !self.name.as_encoded_bytes().contains(&b'/') {
            // If PATH is set explicitly, the standard library uses execvp, which falls back to the shell.
            let mut command = self.command();
            match std::env::var_os("PATH") {
                Some(path) => command.env("PATH", path),
                None => command.env_remove("PATH"),
            };
            return command;
        }
        let args = [self.name.clone()].into_iter().chain(self.args.iter().cloned()).collect();
        Self { name: "/bin/sh".into(), args, ..self.clone() }.command()
    }
}
