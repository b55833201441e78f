//! The supervisor of one command: starts the command's shell with a filter, and answers every `execve` in it.
//!
//! S1. It leads the command's session and is not in the sandbox. It is the subreaper of the command, so all processes of the command stay its
//!     descendants, which ptrace needs where Yama restricts it.
//! S2. It runs until the shell has ended and no process with a filter of its command is left. It blocks all signals, so
//!     only KILL ends it earlier.
//! S3. Only programs with a restricted name reach the exec server. All others continue at once.
//! S4. If it dies, the shell and the approved programs of its command die too, and no remaining process can execute a
//!     program (ENOSYS).
//! S5. It blocks only in its poll: whatever one process of the command does, the execs of the others continue.
use super::{
    executable::Executables,
    filter::Interface,
    lineage::Lineages,
    message::{Report, Verdict},
    notify::{Call, Listener},
    packet,
    redirect::{has_ending_signal, redirect},
    relay::{NOT_JUDGED, Order},
    relays::{Outcome, Relays},
    scope::Scope,
    start::{Approved, has_privileges, shell_of},
    status::difference,
    view::View,
    waiting::{Addresses, Details, Waiting},
};
use crate::exec::policy::{Action, Place, Reach};
use nix::{sys::signalfd::SignalFd, unistd::Pid};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{WaitOptions, wait},
};
use std::{
    cell::Cell,
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    rc::Rc,
};

/// How often the supervisor checks whether threads still wait for their verdicts. The kernel does not report when they
/// stop.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The flag of `execveat` that only checks whether a file may be executed (Linux 6.14). Older kernels refuse it.
const AT_EXECVE_CHECK: u64 = 0x1_0000;

/// The initial capacity of the list of polled file descriptors: enough for most commands.
const POLLED: usize = 8;

/// A source of execs: all processes that have the same filter.
struct Source {
    listener: Listener,
    place: Place,
    /// Whether the next exec is that of the program for which this filter was installed. It is not judged.
    is_new: Cell<bool>,
}

impl Source {
    fn of(listener: Listener, place: Place) -> Rc<Self> {
        Rc::new(Self { listener, place, is_new: Cell::new(true) })
    }
}

/// A program whose verdict is open.
struct Open {
    source: Rc<Source>,
    call: Call,
    addresses: Addresses,
    waiting: Waiting,
    details: Details,
}

pub(super) struct Supervisor {
    server: OwnedFd,
    /// Whether the connection to the exec server is open.
    is_connected: bool,
    scope: Scope,
    executables: Executables,
    view: View,
    sources: Vec<Rc<Source>>,
    open: HashMap<u64, Open>,
    next_id: u64,
    /// The threads that execute our program next, each with the file descriptor by which it does.
    redirected: HashMap<i32, RawFd>,
    relays: Relays,
    lineages: Lineages,
    shell: Pid,
    has_ended: bool,
    /// This program, for relays.
    program: File,
}

/// The descriptors that are ready.
enum Ready {
    Signals,
    Server,
    Relay(usize),
    Starting(usize),
    Source(Rc<Source>),
    Gone(Rc<Source>),
    /// The mounts of this process have changed.
    View,
}

impl Supervisor {
    /// `listener`: the listener of the shell; `None`: the shell could not start.
    pub(super) fn new(
        server: OwnedFd,
        scope: Scope,
        relays: Relays,
        listener: Option<Listener>,
        place: Place,
        shell: Pid,
        program: File,
    ) -> Self {
        Self {
            server,
            is_connected: true,
            scope,
            executables: Executables::new(),
            view: View::shared(),
            sources: listener.into_iter().map(|listener| Source::of(listener, place)).collect(),
            open: HashMap::new(),
            next_id: 0,
            redirected: HashMap::new(),
            relays,
            lineages: Lineages::of(shell.as_raw()),
            shell,
            has_ended: false,
            program,
        }
    }

    /// Runs until the shell has ended and no process with a filter is left. `signals`: SIGCHLD among them, blocked before the shell was started.
    pub(super) fn run(&mut self, signals: &SignalFd) -> io::Result<()> {
        while !(self.has_ended && self.sources.is_empty() && !self.relays.are_starting()) {
            let mut has_signals = false;
            // From last to first, so that removing one does not change the index of another.
            for ready in self.wait_for(signals)?.into_iter().rev() {
                match ready {
                    Ready::Signals => has_signals = true,
                    Ready::Server => self.on_verdict()?,
                    Ready::Relay(at) => self.on_relay(at),
                    Ready::Starting(at) => {
                        let listener = self.relays.on_started(at).map(Listener::from);
                        self.sources.extend(listener.map(|listener| Source::of(listener, Place::Outside)));
                    }
                    Ready::Source(source) => self.on_call(&source)?,
                    Ready::Gone(source) => self.sources.retain(|other| !Rc::ptr_eq(other, &source)),
                    Ready::View => self.view.may_differ(),
                }
            }
            self.withdraw();
            if has_signals {
                // Read before the children are waited for: a child that ends later causes another signal.
                while signals.read_signal()?.is_some() {}
                self.reap()?;
            }
        }
        Ok(())
    }

    fn wait_for(&self, signals: &SignalFd) -> io::Result<Vec<Ready>> {
        let readable = |socket| PollFd::from_borrowed_fd(socket, PollFlags::IN);
        let mut polled = Vec::with_capacity(POLLED);
        polled.push(readable(signals.as_fd()));
        polled.extend(self.is_connected.then(|| readable(self.server.as_fd())));
        polled.extend(self.relays.sockets().map(readable));
        polled.extend(self.relays.starting_sockets().map(readable));
        polled.extend(self.sources.iter().map(|source| readable(source.listener.as_fd())));
        // Polled last, so that a change applies to the calls that arrived with it.
        polled.extend(self.view.change());
        match poll(&mut polled, (!self.open.is_empty()).then_some(&CHECK_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Vec::new();
        let mut polled = polled.iter().map(PollFd::revents);
        let mut next = || polled.next().filter(|events| !events.is_empty());
        ready.extend(next().map(|_| Ready::Signals));
        if self.is_connected {
            ready.extend(next().map(|_| Ready::Server));
        }
        for at in 0..self.relays.sockets().len() {
            ready.extend(next().map(|_| Ready::Relay(at)));
        }
        for at in 0..self.relays.starting_sockets().len() {
            ready.extend(next().map(|_| Ready::Starting(at)));
        }
        for source in &self.sources {
            ready.extend(next().map(|events| match events.contains(PollFlags::IN) {
                true => Ready::Source(source.clone()),
                // No process has its filter any more.
                false => Ready::Gone(source.clone()),
            }));
        }
        ready.extend(next().map(|_| Ready::View));
        Ok(ready)
    }

    fn report(&self, report: &Report) {
        // If the exec server has ended, nobody needs the report.
        let _ = packet::send(&self.server, report, &[]);
    }

    fn note(&self, text: String) {
        self.report(&Report::Noted(text));
    }

    fn on_call(&mut self, source: &Rc<Source>) -> io::Result<()> {
        let listener = &source.listener;
        let Some(call) = listener.receive()? else { return Ok(()) };
        let interface = Interface::of(call.architecture).ok_or(Errno::NOSYS)?;
        if !interface.is_exec(call.number) {
            self.view.may_differ();
            return proceed(listener, &call);
        }
        if call.number == interface.execveat && call.arguments[4] & AT_EXECVE_CHECK != 0 {
            return proceed(listener, &call);
        }
        let addresses = Addresses::of(&call)?;
        if let Some(descriptor) = self.redirected.remove(&call.thread)
            && addresses.directory == Some(descriptor)
        {
            return proceed(listener, &call);
        }
        if source.is_new.take() {
            return proceed(listener, &call);
        }
        self.lineages.see_shell();
        let mut waiting = match Waiting::read(&call, &addresses, &mut self.executables, &self.view) {
            Ok(waiting) => waiting,
            // The address is invalid: the call fails by itself.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::FAULT) => return proceed(listener, &call),
            Err(error) => {
                self.note(format!("a program was not executed, because its name cannot be read: {error}"));
                return fail(listener, &call, Errno::ACCESS);
            }
        };
        // The answer is this error, not CONTINUE: before the kernel looks the path up, another process could put a
        // program there.
        if let Some(error) = waiting.error {
            return fail(listener, &call, error);
        }
        // If the thread has died meanwhile, the data may be of another thread; then the answer has no effect.
        let may_leave = source.place == Place::Sandbox && self.scope.is_allowed(&waiting);
        if !self.scope.is_restricted(&waiting) && !may_leave {
            self.lineages.executes(call.thread);
            return proceed(listener, &call);
        }
        if !is_same(&waiting.executable.resolved, &waiting.file())
            && let Some(read) = self.executables.read_again(&waiting.file())
        {
            waiting.executable = read;
        }
        let details = Details::read(&call, &addresses);
        if !listener.waits(call.id) {
            return Ok(());
        }
        let asked = details.and_then(|details| {
            let lineage = self.lineages.of_next(details.process);
            Ok((self.scope.exec(&waiting, &details, lineage, source.place)?, details))
        });
        let (exec, details) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                self.note(format!("{} was not executed: {error}", waiting.program.display()));
                return fail(listener, &call, Errno::ACCESS);
            }
        };
        let id = self.next_id;
        self.next_id += 1;
        let open = Open { source: source.clone(), call, addresses, waiting, details };
        let sent = match self.is_connected {
            true => packet::send(&self.server, &Report::Asks { id, exec: Box::new(exec) }, &[]),
            false => Err(Errno::PIPE.into()),
        };
        if let Err(error) = sent {
            let reason = match Errno::from_io_error(&error) {
                Some(Errno::MSGSIZE) => "the program cannot be judged: its paths, arguments and variables are too long",
                _ => NOT_JUDGED,
            };
            self.act(open, Action::Deny { reason: reason.to_owned() }, &Reach::default());
            return Ok(());
        }
        self.open.insert(id, open);
        Ok(())
    }

    fn on_verdict(&mut self) -> io::Result<()> {
        match packet::receive::<Verdict>(&self.server)? {
            Some((Verdict { id, action, reach }, _)) => {
                if let Some(open) = self.open.remove(&id) {
                    self.act(open, action, &reach);
                }
            }
            None if self.has_ended => {
                self.is_connected = false;
                for (_, open) in std::mem::take(&mut self.open) {
                    self.act(open, Action::Deny { reason: NOT_JUDGED.to_owned() }, &Reach::default());
                }
            }
            None => return Err(io::Error::other("the exec server has ended")),
        }
        Ok(())
    }

    /// Carries out the decision about a program. `reach`: what commands can write.
    fn act(&mut self, open: Open, action: Action, reach: &Reach) {
        let Open { source, call, addresses, waiting, details } = open;
        let file = &waiting.executable.resolved;
        let (order, approved) = match action {
            Action::Deny { reason } => (Order::Refuse(reason), None),
            // A file without a name, such as one in memory, cannot be started from outside.
            Action::Escalate
                if (source.place == Place::Sandbox || has_privileges(file)) && is_same(file, &waiting.file()) =>
            {
                if let Err(error) = is_like_ours(call.thread) {
                    self.note(format!("{} was not executed: {error}", waiting.program.display()));
                    let _ = fail(&source.listener, &call, Errno::ACCESS);
                    return;
                }
                let Details { process, arguments, mut environment, directory, streams, .. } = details;
                let leaves = source.place == Place::Sandbox;
                if leaves {
                    leave_reach(&mut environment, reach);
                }
                let (file, shell) = (file.clone(), shell_of(call.thread).to_owned());
                let streams = leaves.then_some(streams);
                let approved = Approved { process, file, arguments, environment, directory, shell, streams };
                (Order::Relay, Some(approved))
            }
            Action::Run | Action::Allow | Action::Escalate => {
                self.lineages.executes(call.thread);
                let _ = proceed(&source.listener, &call);
                return;
            }
        };
        match redirect(&source.listener, &call, &addresses, &self.program) {
            Ok(redirected) => {
                if self.relays.add(redirected.socket, &order, approved).is_ok() {
                    self.redirected.insert(call.thread, redirected.descriptor);
                }
            }
            Err(error) => {
                if source.listener.waits(call.id) {
                    self.note(format!("{} was not executed: {error}", waiting.program.display()));
                }
                let _ = fail(&source.listener, &call, Errno::ACCESS);
            }
        }
    }

    fn on_relay(&mut self, at: usize) {
        match self.relays.on_message(at) {
            Outcome::Nothing => {}
            Outcome::Started { program, place } => self.lineages.started(program.as_raw(), place),
            Outcome::Failed(why) => self.note(why),
        }
    }

    /// Drops the questions of threads that were killed, or that have a pending signal which would end their programs:
    /// the signal takes effect as soon as our program replaces theirs.
    fn withdraw(&mut self) {
        let is_over = |open: &Open| !open.source.listener.waits(open.call.id) || has_ending_signal(open.call.thread);
        let withdrawn: Vec<_> = self.open.extract_if(|_, open| is_over(open)).collect();
        for (id, open) in withdrawn {
            self.report(&Report::Withdrawn { id });
            if open.source.listener.waits(open.call.id) {
                let reason = "it was interrupted by a signal".to_owned();
                self.act(open, Action::Deny { reason }, &Reach::default());
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            let (process, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
                Ok(Some((process, status))) => (Pid::from_raw(process.as_raw_pid()), status),
                Ok(None) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(Errno::CHILD) if self.has_ended => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let order = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Order::Exited(code),
                (_, Some(number)) => Order::Killed(number),
                (None, None) => {
                    self.relays.on_stop(process, status.stopped());
                    continue;
                }
            };
            self.lineages.ended(process.as_raw());
            if process == self.shell {
                self.has_ended = true;
                self.report(&Report::Ended { status: status.as_raw() });
            }
            self.relays.on_end(process, &order);
        }
    }
}

/// Lets the call continue. No error if its thread has died meanwhile, or already has its answer.
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

/// Whether a program that this process starts has the privileges and the namespaces of a thread.
///
/// # Errors
/// It has others, or they cannot be determined.
fn is_like_ours(thread: i32) -> io::Result<()> {
    match difference(thread)? {
        None => Ok(()),
        Some(what) => Err(io::Error::other(format!(
            "its process has {what}; an approved program would lose this. Add a `prompt` rule for the program that changes it: after approval, both \
             run outside the sandbox"
        ))),
    }
}

/// Removes the directories from PATH in which commands can put programs.
fn leave_reach(environment: &mut [OsString], reach: &Reach) {
    for entry in environment {
        if let Some(search) = entry.as_bytes().strip_prefix(b"PATH=") {
            let mut kept = OsString::from("PATH=");
            kept.push(reach.without_reach(OsStr::from_bytes(search)));
            *entry = kept;
        }
    }
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}
