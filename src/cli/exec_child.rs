//! `pausewatch exec-child` (hidden): the exec server starts it; it sets up session and sandbox, then executes the command.
use super::{
    exit, failure,
    internal::{Arguments, Invalid},
};
use crate::{
    exec::judge,
    exec::sandbox::{self, Sandbox},
    exec::supervise::{SpawnError, session},
};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::ExitCode,
};

/// The arguments of `exec-child`.
pub(super) struct Args {
    parent: i32,
    terminal: bool,
    command: Command,
}

/// The command, and how it is prepared.
#[derive(Default)]
pub(super) struct Command {
    /// Huge pages are off in this process, but not for the command.
    pub(super) restore_huge_pages: bool,
    /// The soft limit of open files.
    pub(super) open_files: Option<u64>,
    /// The directory to execute the command in, without symbolic links.
    workdir: Option<PathBuf>,
    /// The command may change only the writable files.
    is_sandboxed: bool,
    /// The files and directories that the command may change.
    writable: Vec<PathBuf>,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Args {
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let (mut parent, mut terminal, mut command) = (None, false, Command::default());
        while let Some(option) = arguments.option() {
            match option.to_str() {
                // The process id of the exec server: the command ends with it.
                Some("--parent") => parent = Some(arguments.parsed()?),
                // Make standard input the terminal of the new session.
                Some("--terminal") => terminal = true,
                _ => command.read_option(&option, &mut arguments)?,
            }
        }
        Ok(Self { parent: parent.ok_or(Invalid)?, terminal, command: command.with_operands(arguments)? })
    }
}

impl Command {
    /// From the options that prepare it, `--`, and its words.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn parse(mut arguments: Arguments) -> Result<Self, Invalid> {
        let mut command = Self::default();
        while let Some(option) = arguments.option() {
            command.read_option(&option, &mut arguments)?;
        }
        command.with_operands(arguments)
    }

    fn read_option(&mut self, option: &OsStr, arguments: &mut Arguments) -> Result<(), Invalid> {
        match option.to_str() {
            Some("--restore-huge-pages") => self.restore_huge_pages = true,
            Some("--open-files") => self.open_files = Some(arguments.parsed()?),
            Some("--workdir") => self.workdir = Some(arguments.value()?.into()),
            Some("--sandbox") => self.is_sandboxed = true,
            Some("--writable") => self.writable.push(arguments.value()?.into()),
            _ => return Err(Invalid),
        }
        Ok(())
    }

    fn with_operands(self, arguments: Arguments) -> Result<Self, Invalid> {
        let mut arguments = arguments.operands()?;
        Ok(Self { program: arguments.remove(0), arguments, ..self })
    }

    /// Restores the limit of open files, and enters the working directory and the sandbox.
    fn prepare(&self) -> Result<(), String> {
        if self.open_files.is_some() {
            let maximum = getrlimit(Resource::Nofile).maximum;
            // A failure is harmless: the command has a higher limit than it needs.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: self.open_files, maximum });
        }
        if let Some(directory) = &self.workdir {
            sandbox::enter(directory)
                .map_err(|error| format!("cannot enter the working directory {}: {error}", directory.display()))?;
        }
        if self.is_sandboxed {
            Sandbox::new(self.writable.clone()).enforce().map_err(|error| error.to_string())?;
            // Best effort, as the rest of the sandbox: a kernel may have no seccomp.
            #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
            let _ = judge::refuse_calls_on_others();
        }
        Ok(())
    }

    /// Executes the command. Returns only on failure: 125, 126 or 127, like `run`.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn run_judged(self, process: judge::CommandProcess) -> ExitCode {
        let prepared =
            process.die_with_supervisor().map_err(|error| format!("cannot die with the supervisor: {error}"));
        let prepared = prepared.and_then(|()| self.prepare()).and_then(|()| {
            // The first attempt to execute a program is not judged, so it must be the one that succeeds.
            let file = look_up(&self.program);
            let judged = process.restrict_to_judged();
            judged.map(|()| file).map_err(|error| format!("the programs of the command cannot be judged: {error}"))
        });
        match prepared {
            Ok(file) => self.execute(file),
            Err(why) => fail(&why),
        }
    }

    fn execute(self, file: PathBuf) -> ExitCode {
        let mut command = std::process::Command::new(file);
        command.arg0(&self.program).args(&self.arguments);
        if self.restore_huge_pages {
            judge::restore_huge_pages(&mut command);
        }
        let error = SpawnError::from(command.exec());
        failure::say("exec-child", &format!("{}: {error}", self.program.to_string_lossy()));
        ExitCode::from(error.exit_code())
    }
}

/// Executes the command in a new session. Returns only on failure, as [`Command::run_judged`].
pub(crate) fn run(args: Args) -> ExitCode {
    let Args { parent, terminal, command } = args;
    let in_session = session::lead(Pid::from_raw(parent), terminal);
    let in_session = in_session.map_err(|error| format!("cannot start a session: {error}"));
    match in_session.and_then(|()| command.prepare()) {
        Ok(()) => {
            let file = PathBuf::from(&command.program);
            command.execute(file)
        }
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    failure::say("exec-child", why);
    ExitCode::from(exit::OWN_FAILURE)
}

/// The first file of this name in the directories of PATH, as `execvp` finds it; the name itself if there is none.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn look_up(name: &OsStr) -> PathBuf {
    use crate::exec::policy::is_executable_file;
    use std::os::unix::ffi::OsStrExt;
    let path = std::env::var_os("PATH").filter(|_| !name.as_bytes().contains(&b'/')).unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found.find(|file| is_executable_file(file)).unwrap_or_else(|| name.into())
}
