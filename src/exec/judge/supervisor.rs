//! The supervisor of one command: starts the command's shell with a filter, and answers every `execve` in it.
//!
//! S1. It leads the command's session and is not in the sandbox. It is the subreaper of the command, so all processes of the command stay its
//!     descendants, which ptrace needs where Yama restricts it.
//! S2. It lives until the shell has ended and no process has a filter of its command any more. It blocks all signals: only KILL ends it before.
//! S3. Only programs with a restricted name reach the exec server. All others go on at once.
//! S4. If it dies, its command's shell and approved programs die with it, and nothing that is left can execute a program (ENOSYS).
//! S5. It waits for nothing but its poll: whatever the command does, other execs of the command go on.
use super::{
    lineage::Lineages,
    link,
    message::{Report, Verdict},
    notify::{Call, Listener},
    packet,
    redirect::{has_ending_signal, redirect},
    relay::{Order, Relayed},
    scope::Scope,
    start::{Approved, Starting, has_privileges, shell_of, start},
    waiting::{Addresses, Waiting},
};
use crate::exec::{
    policy::{Action, Place},
    supervise::session,
};
use nix::{
    sys::{
        signal::{SigSet, Signal, SigmaskHow, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{WaitOptions, wait},
    thread::disable_transparent_huge_pages,
};
use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    path::Path,
    process::{Command, Stdio},
    rc::Rc,
};

/// How often the supervisor looks whether the threads that wait for a verdict still do. The kernel does not notify that.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The parameters of a supervisor.
pub(crate) struct Setup {
    /// The session of the command.
    pub(crate) session: CommandSession,
    /// Huge pages are off for this process only, which would have megabytes of them: [`super::link::save_memory`].
    pub(crate) restore_huge_pages: bool,
    /// See [`Rules::restricted_programs`](crate::exec::policy::Rules::restricted_programs).
    pub(crate) names: HashSet<String>,
    /// The first words of the line's commands that a rule allows: see [`LineCommands`](crate::exec::policy::LineCommands).
    pub(crate) allowed: HashSet<String>,
    /// More arguments of `exec-child`.
    pub(crate) child: Vec<OsString>,
}

/// Where execs come from: processes that have one filter.
struct Source {
    listener: Listener,
    place: Place,
}

/// The session of a command.
pub(crate) enum CommandSession {
    /// The supervisor leads a session of its own, and dies with this process, the exec server. The command is in the sandbox.
    New {
        parent: Option<rustix::process::Pid>,
        /// The command's standard input becomes the terminal of the session.
        terminal: bool,
    },
    /// That of the caller, with its process group. The command is in no sandbox.
    Inherited,
}

/// A program whose verdict is open.
struct Open {
    source: Rc<Source>,
    call: Call,
    addresses: Addresses,
    waiting: Waiting,
    /// The working directory.
    directory: OwnedFd,
    environment: Vec<OsString>,
}

/// A process that executes, or has executed, our program in place of another.
struct Relay {
    socket: OwnedFd,
    /// `None`: the program was refused, or has been started.
    approved: Option<Approved>,
    received: Vec<(RawFd, OwnedFd)>,
    program: Option<Pid>,
}

struct Supervisor {
    server: OwnedFd,
    /// Whether the exec server still listens.
    is_connected: bool,
    scope: Scope,
    sources: Vec<Rc<Source>>,
    /// Approved programs that are not in their process group yet.
    starting: Vec<Starting>,
    /// Listeners whose next call is the program that was started for it.
    first: HashSet<RawFd>,
    open: HashMap<u64, Open>,
    next_id: u64,
    /// The threads that execute our program next, and the descriptor they do it by.
    redirected: HashMap<i32, RawFd>,
    relays: Vec<Relay>,
    lineages: Lineages,
    shell: Pid,
    has_ended: bool,
    /// This program, for relays.
    program: File,
}

/// Runs the command, and returns when no process of it is left that executes programs.
///
/// Standard input is the socket to the exec server; its first message brings the command's standard input. Standard output and standard
/// error are the command's.
///
/// # Errors
/// The command was not started, or the supervisor cannot go on; then the command dies with this process.
pub(crate) fn supervise(setup: Setup) -> io::Result<()> {
    if setup.restore_huge_pages {
        disable_transparent_huge_pages(false)?;
    }
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
    let mut command = Command::new("/proc/self/exe");
    command.args(["exec-child", "--judged", "--parent", &std::process::id().to_string()]).args(&setup.child);
    command.stdin(Stdio::from(theirs)).env_remove(link::NO_HUGE_PAGES);
    let shell = Pid::from_raw(command.spawn()?.id().cast_signed());
    drop(command);
    let _ = packet::send(&server, &Report::Started { process: shell.as_raw() }, &[]);
    packet::send(&ours, &(), &[stdin.as_raw_fd()])?;
    drop(stdin);
    forget_streams()?;
    let listener = match packet::receive::<Result<(), String>>(&ours)? {
        Some((Ok(()), mut fds)) => fds.pop().map(Listener::from),
        Some((Err(why), _)) => {
            let _ = packet::send(&server, &Report::Noted(why), &[]);
            None
        }
        // It could not start, and has said so.
        None => None,
    };
    let environment = std::env::vars_os().filter(|(name, _)| name != link::NO_HUGE_PAGES).collect();
    let sources: Vec<_> =
        listener.into_iter().map(|listener| Rc::new(Source { listener, place })).collect();
    let first = sources.iter().map(|source| source.listener.as_fd().as_raw_fd()).collect();
    let mut supervisor = Supervisor {
        server,
        is_connected: true,
        scope: Scope { names: setup.names, allowed: setup.allowed, environment },
        sources,
        starting: Vec::new(),
        first,
        open: HashMap::new(),
        next_id: 0,
        redirected: HashMap::new(),
        relays: Vec::new(),
        lineages: Lineages::of(shell.as_raw()),
        shell,
        has_ended: false,
        program: File::open("/proc/self/exe")?,
    };
    let ended = supervisor.run(&signals);
    if ended.is_err() && place == Place::Outside {
        // In a session of its own, the death of this process ends the command; here, nothing does.
        kill_descendants();
    }
    ended
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

/// The command's output ends when no process of the command has it any more; this is none of them.
fn forget_streams() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// What is ready.
enum Ready {
    Signals,
    Server,
    Relay(usize),
    Starting(usize),
    Source(Rc<Source>),
    Gone(Rc<Source>),
}

impl Supervisor {
    fn run(&mut self, signals: &SignalFd) -> io::Result<()> {
        self.reap()?;
        while !(self.has_ended && self.sources.is_empty() && self.starting.is_empty()) {
            // From the last to the first: what one removes must not move the others.
            for ready in self.wait_for(signals)?.into_iter().rev() {
                match ready {
                    Ready::Signals => {
                        while signals.read_signal()?.is_some() {}
                    }
                    Ready::Server => self.on_verdict()?,
                    Ready::Relay(at) => self.on_relay(at),
                    Ready::Starting(at) => self.on_started(at),
                    Ready::Source(source) => self.on_call(&source)?,
                    Ready::Gone(source) => self.sources.retain(|other| !Rc::ptr_eq(other, &source)),
                }
            }
            self.withdraw();
            self.reap()?;
        }
        Ok(())
    }

    fn wait_for(&self, signals: &SignalFd) -> io::Result<Vec<Ready>> {
        let server = self.is_connected.then(|| (PollFd::new(&self.server, PollFlags::IN), Ready::Server));
        let relays = self.relays.iter().enumerate();
        let relays = relays.map(|(at, relay)| (PollFd::new(&relay.socket, PollFlags::IN), Ready::Relay(at)));
        let starting = self.starting.iter().enumerate();
        let starting = starting.map(|(at, program)| (PollFd::new(&program.socket, PollFlags::IN), Ready::Starting(at)));
        let sources = self.sources.iter();
        let sources =
            sources.map(|source| (PollFd::new(&source.listener, PollFlags::IN), Ready::Source(source.clone())));
        let signals = (PollFd::new(signals, PollFlags::IN), Ready::Signals);
        let all = [signals].into_iter().chain(server).chain(relays).chain(starting).chain(sources);
        let (mut polled, ready): (Vec<_>, Vec<_>) = all.unzip();
        match poll(&mut polled, (!self.open.is_empty()).then_some(&CHECK_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = polled.iter().map(PollFd::revents);
        let ready = events.zip(ready).filter(|(events, _)| !events.is_empty());
        Ok(ready
            .map(|(events, ready)| match ready {
                // No process has its filter any more.
                Ready::Source(source) if !events.contains(PollFlags::IN) => Ready::Gone(source),
                ready => ready,
            })
            .collect())
    }

    fn report(&self, report: &Report) {
        // If the exec server has gone, nobody needs it.
        let _ = packet::send(&self.server, report, &[]);
    }

    fn note(&self, text: String) {
        self.report(&Report::Noted(text));
    }

    fn on_call(&mut self, source: &Rc<Source>) -> io::Result<()> {
        let listener = &source.listener;
        let Some(call) = listener.receive()? else { return Ok(()) };
        let addresses = Addresses::of(&call)?;
        if let Some(descriptor) = self.redirected.remove(&call.thread)
            && addresses.directory == Some(descriptor)
        {
            return proceed(listener, &call);
        }
        if self.first.remove(&listener.as_fd().as_raw_fd()) {
            return proceed(listener, &call);
        }
        let waiting = match Waiting::read(&call, &addresses) {
            Ok(waiting) => waiting,
            // The call fails by itself.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::FAULT) => return proceed(listener, &call),
            Err(error) => {
                self.note(format!("a program was not executed, because its name cannot be read: {error}"));
                return fail(listener, &call, Errno::ACCESS);
            }
        };
        if !listener.waits(call.id) {
            return Ok(());
        }
        // Answered here, not by the kernel: until it looks, another process could put a program there.
        if let Some(error) = waiting.error {
            return fail(listener, &call, error);
        }
        let may_leave = source.place == Place::Sandbox && self.scope.is_allowed(&waiting);
        if !self.scope.is_restricted(&waiting) && !may_leave {
            self.lineages.executed(waiting.process);
            return proceed(listener, &call);
        }
        let lineage = self.lineages.of_next(waiting.process);
        let environment = Waiting::environment(&call, &addresses).unwrap_or_default();
        let directory = match waiting.directory(&call) {
            Ok(directory) => directory,
            Err(error) => {
                self.note(format!("{} was not executed: {error}", waiting.program.display()));
                return fail(listener, &call, Errno::ACCESS);
            }
        };
        if !listener.waits(call.id) {
            return Ok(());
        }
        let exec = self.scope.exec(&waiting, &environment, lineage, source.place);
        let id = self.next_id;
        self.next_id += 1;
        let open = Open { source: source.clone(), call, addresses, waiting, directory, environment };
        if !self.is_connected || packet::send(&self.server, &Report::Asks { id, exec: Box::new(exec) }, &[]).is_err() {
            self.act(open, Action::Deny { reason: "the exec server has ended, so it cannot be judged".to_owned() });
            return Ok(());
        }
        self.open.insert(id, open);
        Ok(())
    }

    fn on_verdict(&mut self) -> io::Result<()> {
        match packet::receive::<Verdict>(&self.server)? {
            Some((Verdict { id, action }, _)) => {
                if let Some(open) = self.open.remove(&id) {
                    self.act(open, action);
                }
            }
            None if self.has_ended => {
                self.is_connected = false;
                for (_, open) in std::mem::take(&mut self.open) {
                    self.act(open, Action::Deny { reason: "the exec server has ended".to_owned() });
                }
            }
            None => return Err(io::Error::other("the exec server has ended")),
        }
        Ok(())
    }

    /// Does what was decided about a program.
    fn act(&mut self, open: Open, action: Action) {
        let Open { source, call, addresses, waiting, directory, environment } = open;
        let name = waiting.program.display().to_string();
        let (order, approved) = match action {
            Action::Deny { reason } => (Order::Refuse(reason), None),
            // A file without a name, such as one in memory, cannot be started from outside.
            Action::Escalate
                if (source.place == Place::Sandbox || has_privileges(&waiting.resolved))
                    && is_same(&waiting.resolved, &waiting.file) =>
            {
                let (process, file, arguments) =
                    (waiting.process, waiting.resolved.clone(), waiting.arguments.clone());
                let shell = shell_of(call.thread).to_owned();
                let approved = Approved { process, file, arguments, environment, directory, shell };
                (Order::Relay, Some(approved))
            }
            Action::Run | Action::Escalate => return self.run_here(&source, &call, &waiting),
        };
        match redirect(&source.listener, &call, &addresses, &self.program) {
            Ok(redirected) => {
                if packet::send(&redirected.socket, &order, &[]).is_ok() {
                    self.redirected.insert(call.thread, redirected.descriptor);
                    let (socket, received) = (redirected.socket, Vec::new());
                    self.relays.push(Relay { socket, approved, received, program: None });
                }
            }
            Err(error) => {
                if source.listener.waits(call.id) {
                    self.note(format!("{name} was not executed: {error}"));
                }
                let _ = fail(&source.listener, &call, Errno::ACCESS);
            }
        }
    }

    fn run_here(&mut self, source: &Source, call: &Call, waiting: &Waiting) {
        self.lineages.executed(waiting.process);
        let _ = proceed(&source.listener, call);
    }

    fn on_relay(&mut self, at: usize) {
        let relay = &mut self.relays[at];
        match packet::receive::<Relayed>(&relay.socket) {
            Ok(Some((Relayed::Descriptors { numbers, last }, fds))) => {
                relay.received.extend(numbers.into_iter().zip(fds));
                if last && let Some(approved) = relay.approved.take() {
                    let descriptors = std::mem::take(&mut relay.received);
                    match start(&approved, &descriptors) {
                        Ok(started) => {
                            relay.program = Some(started.process);
                            self.lineages.started(started.process.as_raw(), approved.process);
                            self.starting.push(started);
                        }
                        Err(error) => {
                            let _ = packet::send(&relay.socket, &Order::Exited(126), &[]);
                            self.note(format!("{} was not started: {error}", approved.file.display()));
                        }
                    }
                }
            }
            Ok(Some((Relayed::Signal(number), _))) => {
                if let (Some(program), Ok(signal)) = (relay.program, Signal::try_from(number)) {
                    let _ = kill(program, signal);
                }
            }
            Ok(None) | Err(_) => {
                let relay = self.relays.swap_remove(at);
                // The relay was killed before its program has ended.
                relay.program.iter().for_each(|program| _ = kill(*program, Signal::SIGKILL));
            }
        }
    }

    fn on_started(&mut self, at: usize) {
        let Starting { process, socket } = self.starting.swap_remove(at);
        // It could not start, and its end says so.
        let Ok(Some(((), mut fds))) = packet::receive(&socket) else { return };
        if let Some(relay) = self.relays.iter().find(|relay| relay.program == Some(process)) {
            let _ = packet::send(&relay.socket, &Order::Started, &[]);
        }
        if let Some(fd) = fds.pop() {
            self.first.insert(fd.as_raw_fd());
            self.sources.push(Rc::new(Source { listener: fd.into(), place: Place::Outside }));
        }
    }

    /// Drops the questions about threads that have been killed, or have a signal that would end their programs: so it does, as soon as our
    /// program is in the place of theirs.
    fn withdraw(&mut self) {
        let is_over = |open: &Open| !open.source.listener.waits(open.call.id) || has_ending_signal(open.call.thread);
        let withdrawn: Vec<_> = self.open.extract_if(|_, open| is_over(open)).collect();
        for (id, open) in withdrawn {
            self.report(&Report::Withdrawn { id });
            if open.source.listener.waits(open.call.id) {
                self.act(open, Action::Deny { reason: "it was interrupted by a signal".to_owned() });
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            let (process, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((process, status))) => (Pid::from_raw(process.as_raw_pid()), status),
                Ok(None) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(Errno::CHILD) if self.has_ended => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let order = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Order::Exited(code),
                (_, Some(number)) => Order::Killed(number),
                (None, None) => Order::Stopped,
            };
            let has_ended = !matches!(order, Order::Stopped);
            if process == self.shell && has_ended {
                self.has_ended = true;
                self.report(&Report::Ended { status: status.as_raw() });
            }
            if let Some(relay) = self.relays.iter_mut().find(|relay| relay.program == Some(process)) {
                let _ = packet::send(&relay.socket, &order, &[]);
                if has_ended {
                    relay.program = None;
                }
            }
        }
    }
}

/// A thread that has died meanwhile, or has its answer, needs none.
fn proceed(listener: &Listener, call: &Call) -> io::Result<()> {
    answered(listener.proceed(call.id))
}

fn fail(listener: &Listener, call: &Call, error: Errno) -> io::Result<()> {
    answered(listener.fail(call.id, error))
}

fn answered(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::INPROGRESS) => Ok(()),
        _ => Err(error),
    })
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}
