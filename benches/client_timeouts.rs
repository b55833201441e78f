//! Part of `clients`: how late the timeouts of each client library expire when many expire at once, and how soon an
//! unanswered query is repeated when the coordinator is back.
//!
//! The libraries are used through the players of `clients/scenarios`, ours through its own API.
use crate::process::Process;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::Target;
use pausewatch::client::Client;
use pausewatch::stopwatch::{Link, Stopwatch, StopwatchController};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to start 1,000 timeouts and to get the states of their threads.
const LIMIT: Duration = Duration::from_secs(3);
/// Long enough that the reconnection delays have grown.
const AWAY: Duration = Duration::from_secs(6);

const FEW: &str = "25 run out at once in a new process: the last one late, ms";
const MANY: &str = "1,000 run out at once: the last one late, ms";
const ASKED_AGAIN: &str = "the coordinator is back: the late question is answered after, ms";
/// The maximum of each figure, in milliseconds.
const GOALS: [(&str, f64); 3] = [(FEW, 50.0), (MANY, 150.0), (ASKED_AGAIN, 300.0)];

/// One line of `clients/scenarios/clients.json`.
#[derive(Deserialize)]
struct Listed {
    name: String,
    /// Absent for the library of this crate.
    player: Option<PathBuf>,
}

/// Adds the results of one run to the column of `table`.
pub(crate) fn run(settings: &Settings, table: &mut Table, column: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed: Vec<Listed> = serde_json::from_slice(&std::fs::read(root.join("clients/scenarios/clients.json"))?)?;
    for Listed { name, player } in listed {
        let player = player.map(|path| root.join(path));
        eprintln!("clients: timeouts, {name}");
        match measure(settings, player.as_deref()) {
            Ok(figures) => {
                figures
                    .into_iter()
                    .for_each(|(metric, late)| table.add((&name, metric, column), late.as_secs_f64() * 1e3));
            }
            Err(error) => table.note(format!("Not measured: timeouts of {name}: {error}")),
        }
    }
    Ok(())
}

/// Adds the goals for the clients that were measured.
pub(crate) fn goals(table: &mut Table, names: &[String], column: &str) {
    for name in names {
        for (metric, most) in GOALS {
            table.goal_at_most(&format!("{name}: {metric}"), (name, metric, column), most, "ms");
        }
    }
}

/// A library that is measured.
trait Library {
    /// Starts `count` timeouts that expire at the same moment; returns how much later the last one has expired.
    fn expire_together(&mut self, count: usize, limit: Duration) -> Result<Duration>;
    /// Starts a timeout, and returns when the state of its thread is known.
    fn start(&mut self, limit: Duration) -> Result<()>;
    /// Waits until it has expired.
    fn expired(&mut self) -> Result<()>;
}

fn measure(settings: &Settings, player: Option<&Path>) -> Result<[(&'static str, Duration); 3]> {
    let server = Target::Memory.start(settings)?;
    let address = server.address().to_owned();
    let mut library: Box<dyn Library> = match player {
        Some(player) => Box::new(Player::start(player, &address)?),
        None => Box::new(Ours::start(&address)?),
    };
    let few = library.expire_together(25, LIMIT)?;
    library.expire_together(1_000, LIMIT)?;
    let many = library.expire_together(1_000, LIMIT)?;
    library.start(Duration::from_secs(1))?;
    drop(server);
    std::thread::sleep(AWAY);
    let mut command = Command::new(&settings.program);
    command.args(["serve", "--store", "memory", "--listen", &address]).stderr(Stdio::null());
    let _server = Process::listening(command)?;
    let back = Instant::now();
    library.expired()?;
    Ok([(FEW, few), (MANY, many), (ASKED_AGAIN, back.elapsed())])
}

/// The library of another language.
struct Player {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Player {
    fn start(program: &Path, address: &str) -> Result<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut player = Player { child, input, output, asked: 0 };
        player.ask(json!({"do": "client", "address": address}))?;
        Ok(player)
    }

    /// Performs one step of `clients/scenarios/README.md`.
    fn ask(&mut self, mut step: Value) -> Result<Value> {
        self.asked += 1;
        step["id"] = self.asked.into();
        step["client"] = "c".into();
        writeln!(self.input, "{step}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line).map_err(|error| format!("{step}: {error}: {line:?}"))?;
        match answer.get_mut("ok") {
            Some(ok) => Ok(ok.take()),
            None => Err(format!("{step}: {answer}").into()),
        }
    }
}

impl Library for Player {
    fn expire_together(&mut self, count: usize, limit: Duration) -> Result<Duration> {
        let step = json!({"do": "expire_together", "count": count, "limit_ms": limit.as_millis() as u64});
        let answer = self.ask(step)?;
        let late = answer["late_ms"].as_f64().ok_or_else(|| format!("no late_ms: {answer}"))?;
        Ok(Duration::try_from_secs_f64(late.max(0.0) / 1e3)?)
    }

    fn start(&mut self, limit: Duration) -> Result<()> {
        self.ask(
            json!({"do": "timeout", "timeout": "late", "thread_id": "late", "limit_ms": limit.as_millis() as u64}),
        )?;
        while self.ask(json!({"do": "read", "timeout": "late"}))?["linked"] != true {}
        Ok(())
    }

    fn expired(&mut self) -> Result<()> {
        self.ask(json!({"do": "expired", "timeout": "late"})).map(|_| ())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The library of this crate.
struct Ours {
    runtime: tokio::runtime::Runtime,
    controller: StopwatchController,
    late: Option<(Stopwatch, pausewatch::stopwatch::Registration)>,
}

impl Ours {
    fn start(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let controller = {
            let _entered = runtime.enter();
            StopwatchController::new(Client::new(&address.parse()?)?)
        };
        Ok(Ours { runtime, controller, late: None })
    }
}

impl Library for Ours {
    fn expire_together(&mut self, count: usize, limit: Duration) -> Result<Duration> {
        let _entered = self.runtime.enter();
        let end = tokio::time::Instant::now() + limit;
        let start = |number| -> Result<_> {
            let stopwatch = Stopwatch::new(end.saturating_duration_since(tokio::time::Instant::now()));
            let registration = self.controller.register(&format!("together-{number}"), &stopwatch)?;
            Ok(self.runtime.spawn(async move {
                stopwatch.expired().await;
                drop(registration);
                end.elapsed()
            }))
        };
        let tasks = (0..count).map(start).collect::<Result<Vec<_>>>()?;
        let mut last = Duration::ZERO;
        for task in tasks {
            last = last.max(self.runtime.block_on(task)?);
        }
        Ok(last)
    }

    fn start(&mut self, limit: Duration) -> Result<()> {
        let _entered = self.runtime.enter();
        let stopwatch = Stopwatch::new(limit);
        let registration = self.controller.register("late", &stopwatch)?;
        self.runtime.block_on(self.controller.link().wait_for(|link| *link == Link::Connected))?;
        self.late = Some((stopwatch, registration));
        Ok(())
    }

    fn expired(&mut self) -> Result<()> {
        let (stopwatch, _registration) = self.late.take().ok_or("nothing was started")?;
        self.runtime.block_on(stopwatch.expired());
        Ok(())
    }
}
