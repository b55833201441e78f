//! `fleet-of-one`: 5,000 exec servers, each with its own connection and stream, which watch one thread.
use crate::board::Board;
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::subscribers;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const CONNECTIONS: usize = 5_000;
/// Long enough for the memory of a server to stabilize after it has opened them.
const SETTLE: Duration = Duration::from_secs(1);
/// The time between two changes: the watchers are idle before each, as they nearly always are.
const BETWEEN: Duration = Duration::from_millis(20);

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [
        Target::Limit,
        Target::LimitRaw,
        Target::Memory,
        Target::Embedded,
        Target::Before,
        Target::LimitTls,
        Target::EmbeddedTls,
        Target::Redis,
    ];
    let targets = Target::present(settings, &targets);
    let title = "fleet-of-one: one thread, 5,000 connections with a stream each";
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    for run in 1..=settings.runs {
        eprintln!("fleet-of-one: run {run} of {}", settings.runs);
        for target in &targets {
            measure(*target, settings, &mut table)?;
        }
    }
    table.goal_at_most("memory of a connection", (CASE, MEMORY, "embedded"), 16_000.0, "bytes");
    table.goal_at_most("memory of a connection with TLS", (CASE, MEMORY, "embedded, TLS"), 40_000.0, "bytes");
    table.goal_at_least_times("connections opened/s", (CASE, OPENED, "embedded"), 1.0, "limit");
    table.goal_at_most_times("a change reaches the last, p50", (CASE, LAST, "embedded"), 1.0, "redis, fsync");
    note_missing_redis(&targets, &mut table);
    Ok(table)
}

const CASE: &str = "5,000 connections";
const MEMORY: &str = "server memory, bytes / connection";
const OPENED: &str = "connections with a stream opened/s";
const LAST: &str = "a change reaches the last, p50, ms";

fn measure(target: Target, settings: &Settings, table: &mut Table) -> Result<()> {
    let server = target.start(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let [memory, opened, last, cpu] = runtime.block_on(watch(&server, settings.per_case))?;
    let mut add = |metric, value| table.add((CASE, metric, target.label()), value);
    add(MEMORY, memory);
    add(OPENED, opened);
    add(LAST, last);
    add("server CPU, s / 1,000,000 deliveries", cpu * 1e6);
    Ok(())
}

/// Returns bytes per connection, connections opened per second, milliseconds until the last watcher receives a change,
/// and CPU seconds per delivery.
async fn watch(server: &Server, time: Duration) -> Result<[f64; 4]> {
    let board = Arc::new(Board::new(CONNECTIONS));
    let (idle, begin) = (server.resident()?, Instant::now());
    let sink = |watcher| -> Sink {
        let board = board.clone();
        Arc::new(move |_, paused| board.told(watcher, paused))
    };
    let _links = subscribers::open(server, CONNECTIONS, sink).await?;
    let opened = CONNECTIONS as f64 / begin.elapsed().as_secs_f64();
    sleep(SETTLE).await;
    let memory = (server.resident()? - idle) / CONNECTIONS as f64;
    let mut caller = server.connect(1).await?.remove(0);
    for up in [true, false, true, false] {
        board.change(&mut caller, up).await?;
    }
    let (mut last, mut changes) = (Latencies::default(), 0);
    let (before, begin) = (server.cpu_seconds()?, Instant::now());
    while begin.elapsed() < time {
        for up in [true, false] {
            sleep(BETWEEN).await;
            let begin = Instant::now();
            board.change(&mut caller, up).await?;
            last.record(begin.elapsed());
            changes += 1;
        }
    }
    let cpu = (server.cpu_seconds()? - before) / (f64::from(changes) * CONNECTIONS as f64);
    board.check()?;
    let [last] = last.percentiles([50.0]);
    Ok([memory, opened, last / 1e3, cpu])
}
