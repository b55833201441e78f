//! The player of the Rust client: this program, started with `--player`.
//!
//! 1. Each line runs in its own task: a step that waits does not delay others.
//! 2. Named objects are kept until a step ends them, or until a reset drops them: a guard that is dropped closes its
//!    elicitation.
mod calls;
mod holds;
mod timeouts;
mod watches;

use crate::player::Refusal;
use pausewatch::client::{Address, Client, Config, Error, Settings, Tls, Token, TokenSource};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout},
    process::Command,
    sync::mpsc,
};

/// The result of a step.
type Outcome = Result<Value, Refusal>;

/// A step's arguments.
struct Step(Map<String, Value>);

/// All named objects.
#[derive(Default)]
struct World {
    clients: HashMap<String, Client>,
    /// The thread that a client finds in its environment.
    threads: HashMap<String, String>,
    /// `None`: best effort, and not open.
    holds: HashMap<String, Option<Arc<pausewatch::client::Hold>>>,
    watches: HashMap<String, Arc<tokio::sync::Mutex<pausewatch::client::Watch>>>,
    timeouts: timeouts::Timeouts,
}

#[derive(Clone, Default)]
struct Player(Arc<Mutex<World>>);

/// Plays until standard input ends.
pub(crate) async fn run() {
    let (answers, mut answered) = mpsc::unbounded_channel::<String>();
    let writer = tokio::spawn(async move {
        let mut out = stdout();
        while let Some(line) = answered.recv().await {
            if out.write_all(line.as_bytes()).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    });
    let player = Player::default();
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(Value::Object(step)) = serde_json::from_str(&line) else {
            eprintln!("this line is no step: {line}");
            continue;
        };
        let (player, answers) = (player.clone(), answers.clone());
        tokio::spawn(async move {
            let id = step.get("id").cloned().unwrap_or_default();
            let answer = match player.take(Step(step)).await {
                Ok(ok) => json!({"id": id, "ok": ok}),
                Err(Refusal { kind, field, message }) => {
                    json!({"id": id, "error": {"type": kind, "field": field, "message": message}})
                }
            };
            // Without a reader, the answer is not needed.
            let _ = answers.send(format!("{answer}\n"));
        });
    }
    writer.abort();
}

impl Player {
    async fn take(&self, step: Step) -> Outcome {
        match step.text("do") {
            "client" => self.make_client(&step).await,
            "close" => {
                self.close(&step);
                Ok(json!({}))
            }
            "increment" | "decrement" | "renew" | "get" | "list" | "list_pauses" => self.call(&step).await,
            "hold" | "release" | "lease" | "lost" | "hold_block" => self.hold(&step).await,
            "watch" | "next" | "add" | "remove" | "unwatch" => self.watch(&step).await,
            "timeout" | "read" | "expired" | "pause" | "resume" | "await_thread" | "unawait_thread" | "stop"
            | "timeout_block" | "expire_together" => self.time(&step).await,
            "reset" => {
                *self.world() = World::default();
                Ok(json!({}))
            }
            other => Err(mistake(format!("this player does no {other:?}"))),
        }
    }

    async fn make_client(&self, step: &Step) -> Outcome {
        let address: Address = step.text("address").parse().map_err(|error| mistake(format!("{error}")))?;
        let mut config = Config { address, ..Config::default() };
        if let Some(deadline) = step.duration("deadline_ms") {
            config.deadline = deadline;
        }
        if let Some(retries) = step.number("retries") {
            config.retries = retries as usize;
        }
        if let Some(ca) = step.given("tls_ca") {
            config.tls = Some(Tls::load(Some(Path::new(&ca)), None).map_err(|error| mistake(error.to_string()))?);
        }
        if let Some(token) = step.given("token") {
            config.token = Some(Token::new(&token).map_err(|error| mistake(error.to_string()))?);
        }
        config.token_source = step.given("token_file").map(TokenSource::file);
        let client = Client::with_config(&config).map_err(|error| mistake(error.to_string()))?;
        let name = step.text("client").to_owned();
        if let Some(Value::Object(variables)) = step.0.get("environment") {
            let thread = thread_in(variables).await.map_err(|error| mistake(error.to_string()))?;
            self.world().threads.insert(name.clone(), thread);
        }
        self.world().clients.insert(name, client);
        Ok(json!({}))
    }

    fn client(&self, step: &Step) -> Result<Client, Refusal> {
        named(&self.world().clients, step.text("client"))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that a client finds in this environment. A process has only one environment, so another process finds it.
async fn thread_in(variables: &Map<String, Value>) -> std::io::Result<String> {
    let variables = variables.iter().map(|(name, value)| (name, value.as_str().unwrap_or_default()));
    let mut command = Command::new(std::env::current_exe()?);
    let printed = command.arg("--print-thread").env_clear().envs(variables).output().await?;
    Ok(String::from_utf8_lossy(&printed.stdout).into_owned())
}

/// Prints the thread that the environment names.
pub(crate) fn print_thread() {
    let settings = Settings::from_env().expect("the stage gives valid variables");
    print!("{}", settings.thread_id.unwrap_or_default());
}

impl Step {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn given(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    fn is(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn duration(&self, key: &str) -> Option<std::time::Duration> {
        self.number(key).and_then(crate::wire::duration)
    }
}

fn named<T: Clone>(things: &HashMap<String, T>, name: &str) -> Result<T, Refusal> {
    things.get(name).cloned().ok_or_else(|| mistake(format!("there is nothing with the name {name:?}")))
}

/// An error that no case should cause.
fn mistake(message: String) -> Refusal {
    Refusal { kind: "PLAYER".to_owned(), field: None, message }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (kind, field) = match &error {
            Error::InvalidField { field, .. } => ("INVALID_FIELD", Some(field.clone())),
            Error::RequestIdReused(_) => ("REQUEST_ID_REUSED", None),
            Error::NoOutstandingElicitation(_) => ("NO_OUTSTANDING_ELICITATION", None),
            Error::ElicitationUnknown(_) => ("ELICITATION_UNKNOWN", None),
            Error::ElicitationReleased(_) => ("ELICITATION_RELEASED", None),
            Error::ElicitationExpired(_) => ("ELICITATION_EXPIRED", None),
            Error::TooManyElicitations(_) => ("TOO_MANY_ELICITATIONS", None),
            Error::LimitExceeded { .. } => ("LIMIT_EXCEEDED", None),
            Error::StoreUnavailable(_) => ("STORE_UNAVAILABLE", None),
            Error::Unauthenticated(_) => ("UNAUTHENTICATED", None),
            Error::PermissionDenied(_) => ("PERMISSION_DENIED", None),
            Error::Unavailable(_) => ("UNAVAILABLE", None),
            Error::DeadlineExceeded(_) => ("DEADLINE_EXCEEDED", None),
            _ => ("OTHER", None),
        };
        Refusal { kind: kind.to_owned(), field, message: error.to_string() }
    }
}
