//! One command: a task reads its output, watches its clocks, and ends its processes.
//!
//! 1. Its end is reported when none of its processes runs any more: those that outlive the first process are killed. Its
//!    times are read when the first process ends; if the command is being ended, when the last process has ended.
//! 2. If its programs are judged, its first process is started by a supervisor, which reports the end of that process, and judges on until no
//!    daemon of the command is left.
//! 3. It is ended by TERM (and HUP, if it has a terminal), then by KILL. All of its processes have the time between the two to clean up, also if
//!    the first one ends at once. That is wall time, which a pause does not stop.
use super::{
    clock::Clock,
    exec_questions::ExecQuestions,
    idle::Idle,
    launch::{Launched, Reader},
    nested_programs::NestedPrograms,
    notes::Notes,
    output::{Output, Taken},
};
use crate::{
    client::stopwatch::Times,
    exec::judge::Judging,
    exec::policy::{AskingPolicy, Exposed},
    exec::sandbox::Enforcement,
    exec::supervise::{session::Session, session_killer::SessionKiller},
};
use rustix::process::Signal;
use std::{
    io::{self, ErrorKind},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    pin::pin,
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::unix::pipe,
    process::Child,
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// The exit code of a command that timed out, as with GNU `timeout`.
const TIMED_OUT: i32 = 124;
/// How long the output of remaining processes is read after the first process has ended, if none of them is ready to run then.
const TRAILING_OUTPUT: Duration = Duration::from_millis(200);
/// The maximum of that time: on a busy machine, a process that is ready to write may have to wait for its turn.
const MAX_TRAILING_OUTPUT: Duration = Duration::from_secs(1);
/// The interval between two checks whether one of them is ready to run.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The time from TERM to KILL for remaining processes.
const REST_KILL_AFTER: Duration = Duration::from_millis(100);

/// The parameters of a command that its caller chose.
#[derive(Debug, Clone)]
pub(super) struct CommandSpec {
    pub(super) line: String,
    pub(super) workdir: PathBuf,
    pub(super) tty: bool,
    /// Whether it may run on after the response to the call that started it.
    pub(super) outlives_call: bool,
}

pub(super) struct Command {
    pub(super) id: String,
    /// The id of the scope that owns it.
    pub(super) owner: u64,
    pub(super) spec: CommandSpec,
    /// How much of its sandbox the kernel enforces; `None`: it has no sandbox.
    pub(super) sandbox: Option<Enforcement>,
    /// Whether its programs are judged; `None`: it runs outside the sandbox.
    pub(super) nested: Option<NestedPrograms>,
    pub(super) clock: Clock,
    pub(super) idle: Idle,
    /// Questions about its programs.
    pub(super) questions: Arc<ExecQuestions>,
    pub(super) notes: Arc<Notes>,
    /// Cancelled to end it when its caller is gone: nobody will ask for its result.
    pub(super) stop: CancellationToken,
    /// Cancelled to end it for a caller, who will ask for its result.
    pub(super) kill: CancellationToken,
    /// Cancelled when it was removed from the table.
    pub(super) removed: CancellationToken,
    pub(super) writer: tokio::sync::Mutex<Option<pipe::Sender>>,
    pub(super) output: Mutex<Output>,
    /// `None` while it runs.
    pub(super) end: watch::Sender<Option<End>>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The exit code of the first process, 124 after a timeout, or 128 plus the signal that killed it.
    pub(super) code: i32,
    pub(super) reason: EndReason,
    pub(super) times: Times,
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    Exited,
    TimedOut,
    /// No call used it for too long.
    Idle,
    /// By its caller, the end of the caller's session, or the end of the server.
    Stopped,
}

impl Command {
    /// Waits until none of its processes runs any more.
    pub(super) async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let end = end.wait_for(Option::is_some).await.expect("self owns the sender").clone();
        end.expect("wait_for returned")
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Its times at its end, or now while it runs.
    pub(super) fn times(&self) -> Times {
        self.end().map_or_else(|| self.clock.read(), |end| end.times)
    }

    /// Takes the unread output, at most `max_bytes` of it. `is_last`: the command has ended.
    pub(super) fn take_output(&self, max_bytes: usize, is_last: bool) -> Taken {
        self.output().take(max_bytes, is_last)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        // Neither push nor take can panic halfway.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until its last process has ended.
    pub(super) async fn supervise(
        &self,
        launched: Launched,
        kill_after: Duration,
        session_killer: SessionKiller,
        policy: AskingPolicy,
        exposed: Exposed,
    ) {
        let Launched { mut child, session, reader, writer: _, link } = launched;
        let notes = self.notes.clone();
        let note = Arc::new(move |note| notes.add(note));
        let mut judging = link.map(|link| Judging::new(link, Arc::new(policy), note, exposed));
        let mut reason = EndReason::Exited;
        let mut open = true;
        let (mut expired, mut idle) = (pin!(self.clock.stopwatch().expired()), pin!(self.idle.expired()));
        let mut kill = pin!(sleep(Duration::ZERO));
        let mut killing = false;
        let status = loop {
            reason = tokio::select! {
                biased;
                status = first_process_ended(&mut child, judging.as_mut()) => break status,
                () = &mut kill, if killing => {
                    killing = false;
                    session.signal(Signal::KILL);
                    continue;
                }
                () = self.stop.cancelled(), if reason == EndReason::Exited => EndReason::Stopped,
                () = self.kill.cancelled(), if reason == EndReason::Exited => EndReason::Stopped,
                () = &mut expired, if reason == EndReason::Exited => EndReason::TimedOut,
                () = &mut idle, if reason == EndReason::Exited => EndReason::Idle,
                // Last: a flood of output must not delay the others.
                _ = reader.readable(), if open => {
                    open = self.read(&reader);
                    continue;
                }
            };
            self.terminate(session);
            kill.set(sleep(kill_after));
            killing = true;
        };
        let mut times = self.clock.read();
        self.questions.close();
        if killing && !is_empty(session).await {
            let cleaned_up = self.wait_for_cleanup(&reader, &mut open, session, kill.deadline());
            match judging.as_mut() {
                None => cleaned_up.await,
                // Programs that the remaining processes execute are judged meanwhile.
                Some(judging) => tokio::select! {
                    () = cleaned_up => {}
                    () = judging.supervisor_is_done() => {}
                },
            }
            times = self.clock.read();
        }
        if open {
            self.read_trailing_output(&reader, session).await;
        }
        match judging {
            None => end_remaining_processes(session, &session_killer).await,
            Some(judging) => end_supervised_processes(session, child, judging, &session_killer).await,
        }
        let code = match status {
            Ok(_) if reason == EndReason::TimedOut => TIMED_OUT,
            Ok(status) => exit_code(status),
            Err(error) => {
                tracing::warn!(%error, "read the exit status of a command");
                -1
            }
        };
        self.end.send_replace(Some(End { code, reason, times }));
        // Last: a blocked write holds the lock until the end is reported, because a daemon may keep the read end open.
        self.writer.lock().await.take();
    }

    fn terminate(&self, session: Session) {
        // An interactive shell ignores TERM. A stopped process handles TERM only after it continues.
        static SIGNALS: [Signal; 3] = [Signal::HUP, Signal::TERM, Signal::CONT];
        let signals = if self.spec.tty { &SIGNALS[..] } else { &SIGNALS[1..] };
        signals.iter().for_each(|signal| session.signal(*signal));
        tokio::task::spawn_blocking(move || session.signal_other_groups(signals));
    }

    /// Waits until no process runs any more, or until `end`, and reads the output meanwhile.
    async fn wait_for_cleanup(&self, reader: &Reader, open: &mut bool, session: Session, end: Instant) {
        loop {
            let (look_again, was_open) = (end.min(Instant::now() + LOOK_INTERVAL), *open);
            // The output may be a flood, so that every read is ready.
            while *open && Instant::now() < look_again && timeout_at(look_again, reader.readable()).await.is_ok() {
                *open = self.read(reader);
            }
            // When the output ends, the last process has most often ended too.
            if *open == was_open {
                sleep_until(look_again).await;
            }
            if is_empty(session).await || Instant::now() >= end {
                return;
            }
        }
    }

    /// Reads available output; returns whether more may follow.
    fn read(&self, reader: &Reader) -> bool {
        let mut buffer = [0; 16 * 1024];
        match reader.try_read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.output().push(&buffer[..length]);
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// Reads the output that remaining processes still write, such as `tee` in `command > >(tee log)`.
    async fn read_trailing_output(&self, reader: &Reader, session: Session) {
        let began = Instant::now();
        let mut end = began + TRAILING_OUTPUT;
        loop {
            if timeout_at(end, reader.readable()).await.is_ok() {
                if !self.read(reader) || Instant::now() >= began + MAX_TRAILING_OUTPUT {
                    return;
                }
            } else if end >= began + MAX_TRAILING_OUTPUT
                || !tokio::task::spawn_blocking(move || session.is_busy()).await.unwrap_or(false)
            {
                return;
            } else {
                end += LOOK_INTERVAL;
            }
        }
    }
}

/// Waits until the first process of a command has ended.
async fn first_process_ended(child: &mut Child, judging: Option<&mut Judging>) -> io::Result<ExitStatus> {
    match judging {
        Some(judging) => judging.first_process_ended(child).await,
        None => child.wait().await,
    }
}

/// As [`end_remaining_processes`]. The supervisor, which leads the session, ends when no process of the command is left, and runs on
/// if there are daemons.
async fn end_supervised_processes(
    session: Session,
    mut supervisor: Child,
    mut judging: Judging,
    session_killer: &SessionKiller,
) {
    if supervisor.id().is_some() {
        session.signal_group(Signal::TERM);
        session.signal_group(Signal::CONT);
        let _ = tokio::time::timeout(REST_KILL_AFTER, judging.supervisor_is_done()).await;
    }
    session_killer.kill(session).await;
    tokio::spawn(async move {
        let _ = first_process_ended(&mut supervisor, Some(&mut judging)).await;
    });
}

async fn is_empty(session: Session) -> bool {
    tokio::task::spawn_blocking(move || session.is_empty()).await.unwrap_or(true)
}

async fn end_remaining_processes(session: Session, session_killer: &SessionKiller) {
    let end = Instant::now() + REST_KILL_AFTER;
    if !session.group_is_empty() {
        session.signal_group(Signal::TERM);
        session.signal_group(Signal::CONT);
        while !session.group_is_empty() && Instant::now() < end {
            sleep(Duration::from_millis(5)).await;
        }
    }
    // Always: only this finds processes in groups of their own (`timeout`, `set -m`, an interactive shell).
    session_killer.kill(session).await;
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
