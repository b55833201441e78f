//! `watch`: one thread with 10,000 watchers, which all receive each change; the next one is made when all have it.
use crate::board::Board;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const WATCHERS: usize = 10_000;
const CONNECTIONS: usize = 50;
/// Long enough for the memory of a server to stabilize after it has opened the streams.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [Target::Limit, Target::LimitRaw, Target::Memory, Target::Embedded, Target::Before, Target::Redis];
    let targets = Target::present(settings, &targets);
    let title = "watch: one thread, 10,000 streams over 50 connections, changes back to back";
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    for run in 1..=settings.runs {
        eprintln!("watch: run {run} of {}", settings.runs);
        for target in &targets {
            measure(*target, settings, &mut table)?;
        }
    }
    table.goal_at_least_times("deliveries/s, durable", (CASE, RATE, "embedded"), 1.0, "limit-raw");
    table.goal_at_most_times("CPU a delivery, durable", (CASE, CPU, "embedded"), 1.0, "limit-raw");
    table.note("Redis: a connection for each watcher, since one has a channel once.");
    note_missing_redis(&targets, &mut table);
    Ok(table)
}

const CASE: &str = "10,000 watchers";
const RATE: &str = "deliveries/s";
const CPU: &str = "server CPU, s / 1,000,000 deliveries";

fn measure(target: Target, settings: &Settings, table: &mut Table) -> Result<()> {
    let server = target.start(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let [rate, cpu, memory] = runtime.block_on(deliver(&server, settings.per_case))?;
    let mut add = |metric, value| table.add((CASE, metric, target.label()), value);
    add(RATE, rate);
    add(CPU, cpu * 1e6);
    add("server memory, bytes / stream", memory);
    Ok(())
}

/// Returns deliveries per second, CPU seconds per delivery, and bytes per stream.
async fn deliver(server: &Server, time: Duration) -> Result<[f64; 3]> {
    let board = Arc::new(Board::new(WATCHERS));
    let idle = server.resident()?;
    let links = server.connect(CONNECTIONS).await?;
    for watcher in 0..WATCHERS {
        let board = board.clone();
        let sink: Sink = Arc::new(move |_, paused| board.told(watcher, paused));
        links[watcher % CONNECTIONS].watch(0..1, sink).await?;
    }
    sleep(SETTLE).await;
    let mut caller = server.connect(1).await?.remove(0);
    for up in [true, false, true, false] {
        board.change(&mut caller, up).await?;
    }
    let (before, begin, mut changes) = (server.cpu_seconds()?, Instant::now(), 0);
    while begin.elapsed() < time {
        board.change(&mut caller, true).await?;
        board.change(&mut caller, false).await?;
        changes += 2;
    }
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), server.cpu_seconds()? - before);
    let memory = (server.resident()? - idle) / WATCHERS as f64;
    let deliveries = f64::from(changes) * WATCHERS as f64;
    board.check()?;
    Ok([deliveries / seconds, cpu / deliveries, memory])
}
