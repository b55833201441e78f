//! Starts a command: its session, the process that becomes its shell, and the listener for the programs that the shell
//! executes. Then the supervisor takes over.
use super::{
    child::CommandProcess,
    fork::{Forked, fork},
    message::Report,
    notify::Listener,
    packet,
    relays::Relays,
    scope::Scope,
    start::Settings,
    supervisor::Supervisor,
};
use crate::exec::policy::Place;
use crate::exec::supervise::{
    descriptors::{open_descriptors, replace_by_null},
    session,
};
use nix::{
    sys::{
        signal::{SigSet, Signal, SigmaskHow, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use rustix::{
    io::Errno,
    process::{WaitOptions, wait},
};
use std::{
    collections::HashSet,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd, RawFd},
};

/// The parameters of a supervisor.
#[derive(Default)]
pub(crate) struct Setup {
    /// The session of the command.
    pub(crate) session: CommandSession,
    /// Huge pages are off for this process only: [`super::save_memory`].
    pub(crate) restore_huge_pages: bool,
    /// The soft limit of open files of commands, if this process has another.
    pub(crate) open_files: Option<u64>,
    /// See [`Rules::restricted_programs`](crate::exec::policy::Rules::restricted_programs).
    pub(crate) names: HashSet<String>,
    /// The first words of the line's commands that a rule allows: see [`LineCommands`](crate::exec::policy::LineCommands).
    pub(crate) allowed: HashSet<String>,
}

/// Which of the two processes of a new command this is.
pub(crate) enum Role {
    /// The one that becomes the command's shell.
    Command(CommandProcess),
    Supervisor(Supervision),
}

/// A supervisor whose command is starting.
pub(crate) struct Supervision {
    setup: Setup,
    place: Place,
    server: OwnedFd,
    signals: SignalFd,
    /// The file descriptors that this process was started with.
    inherited: Vec<RawFd>,
    /// The connection to the process that becomes the shell.
    socket: OwnedFd,
    shell: Pid,
}

/// The session of a command.
#[derive(Default)]
pub(crate) enum CommandSession {
    /// The supervisor leads a session of its own, and dies with its parent, the exec server. The command is in the
    /// sandbox.
    New {
        parent: Option<rustix::process::Pid>,
        /// The command's standard input becomes the terminal of the session.
        terminal: bool,
    },
    /// The session and the process group of the caller. The command is not in a sandbox.
    #[default]
    Inherited,
}

/// Duplicates this process, which must have one thread: the child becomes the command's shell, this process its supervisor.
///
/// Standard input is the socket to the exec server; its first message brings the command's standard input. Standard output and standard
/// error are the command's.
///
/// # Errors
/// The command was not started.
pub(crate) fn begin(setup: Setup) -> io::Result<Role> {
    let inherited = open_descriptors();
    let place = match setup.session {
        CommandSession::New { parent, .. } => {
            session::lead(parent, false)?;
            Place::Sandbox
        }
        CommandSession::Inherited => Place::Outside,
    };
    let server = io::stdin().as_fd().try_clone_to_owned()?;
    let stdin = packet::receive::<()>(&server)?.and_then(|((), mut fds)| fds.pop());
    let stdin = stdin.ok_or(io::ErrorKind::UnexpectedEof)?;
    if let CommandSession::New { terminal: true, .. } = setup.session {
        rustix::process::ioctl_tiocsctty(&stdin)?;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut blocked = SigSet::all();
    for fault in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGABRT] {
        blocked.remove(fault);
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None)?;
    let signals = SignalFd::with_flags(&blocked, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let (ours, theirs) = packet::pair()?;
    let supervisor = std::process::id();
    match fork()? {
        Forked::Child => {
            // Only the supervisor may receive messages from the exec server, or notice its end.
            rustix::stdio::dup2_stdin(&stdin)?;
            Ok(Role::Command(CommandProcess::new(theirs, supervisor)))
        }
        Forked::Parent { child: shell } => {
            Ok(Role::Supervisor(Supervision { setup, place, server, signals, inherited, socket: ours, shell }))
        }
    }
}

impl Supervision {
    /// Judges what the command executes, and returns when no process of it is left that executes programs.
    ///
    /// # Errors
    /// The supervisor has failed; then the command dies with this process.
    pub(crate) fn run(self) -> io::Result<()> {
        let Self { setup, place, server, signals, inherited, socket, shell } = self;
        let _ = packet::send(&server, &Report::Started { process: shell.as_raw() }, &[]);
        // A reader sees the end of the output only when no process has it open any more. Nothing below `/proc/self` that
        // can be executed is left either (`own_files.rs`).
        replace_by_null(&inherited)?;
        std::env::set_current_dir("/proc/self/fdinfo")?;
        let listener = match packet::receive::<Result<(), String>>(&socket)? {
            Some((Ok(()), mut fds)) => fds.pop().map(Listener::from),
            Some((Err(why), _)) => {
                let _ = packet::send(&server, &Report::Noted(why), &[]);
                None
            }
            // The shell could not start, and has reported it.
            None => None,
        };
        let scope = Scope { names: setup.names, allowed: setup.allowed };
        let relays = Relays::new(Settings { restore_huge_pages: setup.restore_huge_pages, open_files: setup.open_files });
        let program = File::open("/proc/self/exe")?;
        let ended = Supervisor::new(server, scope, relays, listener, place, shell, program).run(&signals);
        if ended.is_err() && place == Place::Outside {
            // A command in a session of its own dies with this process. This one would continue.
            kill_descendants();
        }
        ended
    }
}

/// Ends all processes of the command: this process adopts those whose parents have ended.
fn kill_descendants() {
    let children = format!("/proc/self/task/{}/children", std::process::id());
    loop {
        let listed = std::fs::read_to_string(&children).unwrap_or_default();
        let found = listed.split_whitespace().filter_map(|process| process.parse().ok()).map(Pid::from_raw);
        found.for_each(|process| _ = kill(process, Signal::SIGKILL));
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) if !listed.is_empty() => {}
            _ => return,
        }
    }
}
