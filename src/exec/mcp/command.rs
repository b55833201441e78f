//! One command: a task that reads its output, watches its clocks, and sees to its end.
//!
//! 1. Its end is told when nothing of it runs any more: what the first process leaves behind is ended with it. Its times
//!    are those of the first process's end.
//! 2. It is told to end by TERM (a terminal is hung up too), and by KILL when it does not; time to obey is wall time, for
//!    a person that is waited for is no reason to go on.
use super::{
    clock::{Clock, Times},
    idle::Idle,
    launch::{Launched, Reader, Writer},
    output::{Output, Taken},
};
use crate::{
    exec::sandbox::Enforcement,
    exec::supervise::{session::Session, session_killer::SessionKiller},
};
use rustix::process::Signal as Named;
use std::{
    io::ErrorKind,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    pin::pin,
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// The exit code of a command whose time was up, as of GNU `timeout`.
const TIMED_OUT: i32 = 124;
/// How long the output of what a command has left behind is still read.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long what it has left behind may take to obey TERM.
const TO_OBEY: Duration = Duration::from_millis(100);

/// What a command is, for those who look at it.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) line: String,
    pub(super) workdir: PathBuf,
    pub(super) tty: bool,
    /// It goes on when the call that started it has been answered.
    pub(super) stays: bool,
}

pub(super) struct Command {
    pub(super) id: String,
    pub(super) caller: u64,
    pub(super) about: About,
    /// What is made of the sandbox that it runs in; `None`: it runs in none.
    pub(super) sandbox: Option<Enforcement>,
    pub(super) clock: Clock,
    pub(super) idle: Idle,
    /// Tells it to end.
    pub(super) stop: CancellationToken,
    /// Its end has been told, or nobody will ask for it.
    pub(super) forgotten: CancellationToken,
    pub(super) writer: tokio::sync::Mutex<Option<Writer>>,
    output: Mutex<Output>,
    end: watch::Sender<Option<End>>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// Its own, 124 when its time was up, or 128 and the signal that killed it.
    pub(super) code: i32,
    pub(super) why: Why,
    pub(super) times: Times,
}

/// What ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Itself,
    TimedOut,
    /// Nobody asked for it.
    Idle,
    /// Its caller, who may be gone, or the end of the server.
    Stopped,
}

impl Command {
    #[allow(clippy::too_many_arguments)] // Each is kept as it is.
    pub(super) fn new(
        id: String,
        caller: u64,
        about: About,
        sandbox: Option<Enforcement>,
        clock: Clock,
        idle: Idle,
        stop: CancellationToken,
        writer: Option<Writer>,
        output: Output,
    ) -> Self {
        let (forgotten, end) = (CancellationToken::new(), watch::Sender::new(None));
        let (writer, output) = (tokio::sync::Mutex::new(writer), Mutex::new(output));
        Self { id, caller, about, sandbox, clock, idle, stop, forgotten, writer, output, end }
    }

    /// Waits until nothing of it runs any more.
    pub(super) async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let end = end.wait_for(Option::is_some).await.expect("the sender is ours").clone();
        end.expect("it was waited for")
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Takes the output that nobody has taken yet, of which `most` bytes are shown.
    pub(super) fn take_output(&self, most: usize, last: bool) -> Taken {
        self.output().take(most, last)
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        // A push or a take is never half done.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees it to its end.
    pub(super) async fn supervise(&self, launched: Launched, kill_after: Duration, sweeper: SessionKiller) {
        let Launched { mut child, session, reader, writer: _ } = launched;
        let mut why = Why::Itself;
        let mut open = true;
        let (mut expired, mut idle) = (pin!(self.clock.stopwatch().expired()), pin!(self.idle.too_long()));
        let mut kill = pin!(sleep(Duration::ZERO));
        let mut killing = false;
        let status = loop {
            let ending = tokio::select! {
                biased;
                status = child.wait() => break status,
                _ = reader.readable(), if open => {
                    open = self.read(&reader);
                    continue;
                }
                () = &mut kill, if killing => {
                    killing = false;
                    session.signal(Named::KILL);
                    continue;
                }
                () = self.stop.cancelled(), if why == Why::Itself => Why::Stopped,
                () = &mut expired, if why == Why::Itself => Why::TimedOut,
                () = &mut idle, if why == Why::Itself => Why::Idle,
            };
            why = ending;
            self.tell_to_end(session);
            kill.set(sleep(kill_after));
            killing = true;
        };
        let times = self.clock.read();
        if open {
            self.last_words(&reader).await;
        }
        self.end_the_rest(session, &sweeper).await;
        let code = match status {
            Ok(_) if why == Why::TimedOut => TIMED_OUT,
            Ok(status) => code_of(status),
            Err(error) => {
                tracing::warn!(%error, "the status of a command cannot be had");
                -1
            }
        };
        self.end.send_replace(Some(End { code, why, times }));
        // Last: a write that nobody reads has it until the end is told, for a daemon may keep the other side open.
        self.writer.lock().await.take();
    }

    fn tell_to_end(&self, session: Session) {
        if self.about.tty {
            // An interactive shell takes no notice of TERM.
            session.signal(Named::HUP);
        }
        session.signal(Named::TERM);
        // What is stopped sees a signal only when it goes on.
        session.signal(Named::CONT);
    }

    /// Reads what is there; says whether more can come.
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

    /// What the command itself has written is all there; what it left behind may still be at it, as `tee` in
    /// `command > >(tee log)`.
    async fn last_words(&self, reader: &Reader) {
        let end = Instant::now() + LAST_WORDS;
        while timeout_at(end, reader.readable()).await.is_ok() {
            if !self.read(reader) {
                return;
            }
        }
    }

    async fn end_the_rest(&self, session: Session, sweeper: &SessionKiller) {
        let end = Instant::now() + TO_OBEY;
        if !session.group_is_empty() {
            session.signal_group(Named::TERM);
            session.signal_group(Named::CONT);
            while !session.group_is_empty() && Instant::now() < end {
                sleep(Duration::from_millis(5)).await;
            }
        }
        // Always: what made a group of its own (`timeout`, `set -m`, an interactive shell) is found in no other way.
        sweeper.sweep(session).await;
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
