//! A player: a process that wraps one client library and accepts one line of JSON per step.
//!
//! 1. Every line gets one answer, which has the same id; answers may arrive in any order. The time of an answer is when
//!    its line arrived, not when it was read from the queue.
//! 2. A player leads its own process group, so that a kill also reaches the processes of a start script.
//! 3. The standard error of a player is kept for the report of a failure.
use crate::wire;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, VecDeque},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::oneshot,
    time::timeout,
};

/// A player that is silent for this long has hung; `within_ms` of the step is added.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of lines of standard error that are kept.
const KEPT: usize = 60;

pub(crate) struct Player {
    client: String,
    child: Child,
    input: ChildStdin,
    last_id: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    said: Mutex<VecDeque<String>>,
    verbose: bool,
}

/// An answer, and its time.
pub(crate) struct Answer {
    pub(crate) result: Result<Value, Refusal>,
    pub(crate) at: Instant,
}

/// An error from a library.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusal {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) field: Option<String>,
    #[serde(default)]
    pub(crate) message: String,
}

/// A step whose answer is pending.
pub(crate) struct Pending {
    asked: String,
    pub(crate) sent: Instant,
    patience: Duration,
    answer: oneshot::Receiver<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: u64,
    ok: Option<Value>,
    error: Option<Refusal>,
}

impl Player {
    pub(crate) fn start(client: &str, mut command: Command, verbose: bool) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("start the player of {client}: {error}"))?;
        let input = child.stdin.take().expect("standard input is piped");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let errors = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let shared = Arc::new(Shared { verbose, ..Shared::default() });
        tokio::spawn(listen(client.to_owned(), output, shared.clone()));
        let (speaker, speaks) = (client.to_owned(), shared.clone());
        tokio::spawn(async move {
            let mut lines = errors.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                speaks.said(&speaker, line);
            }
        });
        Ok(Player { client: client.to_owned(), child, input, last_id: 0, shared })
    }

    /// The name of the client that it plays.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// Sends a step; its answer is waited for by [`Pending::answer`].
    pub(crate) async fn send(&mut self, op: &str, arguments: Map<String, Value>) -> Result<Pending, String> {
        self.last_id += 1;
        let within = arguments.get("within_ms").and_then(Value::as_f64).and_then(wire::duration);
        let mut line = arguments;
        line.insert("id".to_owned(), self.last_id.into());
        line.insert("do".to_owned(), op.into());
        let asked = Value::Object(line).to_string();
        if self.shared.verbose {
            println!("{} <- {asked}", self.client);
        }
        let (answers, answer) = oneshot::channel();
        lock(&self.shared.waiting).insert(self.last_id, answers);
        let sent = Instant::now();
        if let Err(error) = self.input.write_all(format!("{asked}\n").as_bytes()).await {
            let ended = self.ended();
            return Err(format!("the player of {} takes no more: {error}{ended}", self.client));
        }
        Ok(Pending { asked, sent, patience: PATIENCE + within.unwrap_or_default(), answer })
    }

    /// Sends a step and waits for its answer.
    pub(crate) async fn call(&mut self, op: &str, arguments: Map<String, Value>) -> Result<Answer, String> {
        self.send(op, arguments).await?.answer().await
    }

    /// Kills it as a crash would, and waits for its end.
    pub(crate) async fn kill(mut self) {
        self.kill_group();
        let _ = self.child.wait().await;
    }

    /// The end of its standard error.
    pub(crate) fn said(&self) -> String {
        lock(&self.shared.said).iter().fold(String::new(), |text, line| text + "\n    " + line)
    }

    fn ended(&mut self) -> String {
        match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        }
    }

    fn kill_group(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            // It may have ended already.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.kill_group();
    }
}

impl Pending {
    pub(crate) async fn answer(self) -> Result<Answer, String> {
        match timeout(self.patience, self.answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(format!("the player ended before it answered {}", self.asked)),
            Err(_) => Err(format!("no answer within {:?} to {}", self.patience, self.asked)),
        }
    }
}

impl Shared {
    fn said(&self, name: &str, line: String) {
        if self.verbose {
            println!("{name} !  {line}");
        }
        let mut said = lock(&self.said);
        said.push_back(line);
        if said.len() > KEPT {
            said.pop_front();
        }
    }
}

/// Delivers answers until the player ends; pending steps then notice that their sender was dropped.
async fn listen(name: String, output: BufReader<tokio::process::ChildStdout>, shared: Arc<Shared>) {
    let mut lines = output.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let at = Instant::now();
        if shared.verbose {
            println!("{name} -> {line}");
        }
        let answer = serde_json::from_str(&line).map_err(|error| error.to_string()).and_then(|line| {
            let Line { id, ok, error } = line;
            let result = error.map_or_else(|| Ok(ok.unwrap_or_default()), Err);
            let waiting = lock(&shared.waiting).remove(&id).ok_or_else(|| format!("nothing was asked with id {id}"))?;
            // The receiver may have given up.
            let _ = waiting.send(Answer { result, at });
            Ok(())
        });
        if let Err(error) = answer {
            shared.said(&name, format!("[this line on standard output is no answer: {error}] {line}"));
        }
    }
    lock(&shared.waiting).clear();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
