//! `watch --exec`: runs a command for each change of a thread, such as one that notifies a person.
//!
//! 1. The watch never waits for a command: each thread that waits for a person has a task, which sees its latest state only.
//! 2. One command runs at a time for each thread, and at most [`MAX_RUNNING`] in all. Changes meanwhile count as one, and the
//!    command that comes next gets the state as it is then.
//! 3. With a delay, a command runs only for questions that still wait then, once for each (`questions.rs`), and another one when the
//!    thread resumes.
//! 4. A command that does not end is killed at its time limit, with its children. The first problem is reported, the others are not.
use super::super::{failure, format, output::Json};
use super::questions::{Question, Questions};
use crate::client::PauseState;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    sync::{Semaphore, watch},
    time::{Instant, sleep_until, timeout},
};

/// The maximum number of commands at a time.
const MAX_RUNNING: usize = 16;

/// Runs the commands. Needs a tokio runtime of one thread.
pub(super) struct Notifier {
    shared: Arc<Shared>,
    /// The latest state of each thread that has a task.
    threads: HashMap<String, watch::Sender<PauseState>>,
}

struct Shared {
    command: String,
    after: Duration,
    limit: Duration,
    json: Json,
    permits: Semaphore,
    has_reported: AtomicBool,
}

impl Notifier {
    pub(super) fn new(command: String, after: Duration, limit: Duration, json: Json) -> Self {
        let (permits, has_reported) = (Semaphore::new(MAX_RUNNING), AtomicBool::new(false));
        let shared = Arc::new(Shared { command, after, limit, json, permits, has_reported });
        Self { shared, threads: HashMap::new() }
    }

    /// Takes note of a change.
    pub(super) fn changed(&mut self, state: &PauseState) {
        if let Some(thread) = self.threads.get(&state.thread_id).filter(|thread| !thread.is_closed()) {
            thread.send_replace(state.clone());
            return;
        }
        self.threads.retain(|_, thread| !thread.is_closed());
        if state.paused {
            let (sender, states) = watch::channel(state.clone());
            self.threads.insert(state.thread_id.clone(), sender);
            tokio::spawn(follow(self.shared.clone(), states));
        }
    }
}

/// Runs the commands of one thread until it resumes.
async fn follow(shared: Arc<Shared>, mut states: watch::Receiver<PauseState>) {
    let mut questions = Questions::new(shared.after);
    // Whether the latest command was not about the end of a pause.
    let mut is_waiting = false;
    let mut latest = Question::default();
    let mut permit = None;
    loop {
        let state = states.borrow_and_update().clone();
        questions.update(&state, Instant::now());
        let due = questions.next_due().filter(|_| state.paused);
        let event = match (state.paused, shared.after.is_zero()) {
            (true, false) => due.filter(|due| *due <= Instant::now()).map(|_| "waiting"),
            (true, true) => Some("waiting"),
            (false, _) => is_waiting.then_some("resumed"),
        };
        match event {
            // The state may change while others run.
            Some(_) if permit.is_none() => {
                permit = shared.permits.acquire().await.ok();
                continue;
            }
            Some(event) => {
                let asked = if shared.after.is_zero() {
                    questions.latest().cloned()
                } else {
                    questions.take_due(Instant::now())
                };
                latest = asked.unwrap_or(latest);
                shared.run(event, &state, &latest).await;
                is_waiting = state.paused;
            }
            None => {}
        }
        permit = None;
        if !state.paused && !states.has_changed().unwrap_or(false) {
            // The next pause has a task of its own.
            return;
        }
        let due = questions.next_due().filter(|_| state.paused && !shared.after.is_zero());
        tokio::select! {
            biased;
            changed = states.changed() => if changed.is_err() {
                return;
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

/// Kills a command and its children, unless it has ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails if all have ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Shared {
    async fn run(&self, event: &str, state: &PauseState, question: &Question) {
        match timeout(self.limit, self.try_to_run(event, state, question)).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => self.report(&why),
            Err(_) => self.report(&format!("it did not end within {:?} and was killed", self.limit)),
        }
    }

    async fn try_to_run(&self, event: &str, state: &PauseState, question: &Question) -> Result<(), String> {
        let json = self.json.format(state, serde_json::to_string).map_err(|error| error.to_string())?;
        let text = |text: &str| text.replace('\0', "\u{fffd}");
        let mut child = Command::new("/bin/sh")
            .args(["-c", &self.command])
            .env("PAUSEWATCH_EVENT", event)
            .env("PAUSEWATCH_THREAD_ID", &state.thread_id)
            .env("PAUSEWATCH_REASON", text(&question.reason))
            .env("PAUSEWATCH_HOLDER", text(&question.holder))
            .env("PAUSEWATCH_ENDED_BY", format::pause_end(state).unwrap_or_default())
            .stdin(Stdio::piped())
            // Standard output belongs to the watch.
            .stdout(Stdio::from(io::stderr()))
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("start: {error}"))?;
        // At the time limit, and when the watch ends.
        let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        let stdin = child.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command need not read it.
                let _ = stdin.write_all(json.as_bytes()).await;
            }
            std::future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            ended = child.wait() => ended,
            never = write => match never {},
        };
        // Processes that it left running are meant to run on.
        group.0 = None;
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(format!("wait for it: {error}")),
        }
    }

    fn report(&self, why: &str) {
        if !self.has_reported.swap(true, Relaxed) {
            failure::say("watch", &format!("the command of --exec failed: {why}; further failures are not reported"));
        }
    }
}
