//! `idle`: what 50,000 watched threads cost a server in memory while nothing happens.
use crate::propagation::watch_all;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const THREADS: usize = 50_000;
const CONNECTIONS: usize = 50;
/// Memory is read when it has stayed the same for this long.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [
        Target::Limit,
        Target::LimitRaw,
        Target::Embedded,
        Target::Shared,
        Target::Changing,
        Target::ChangingShared,
        Target::Before,
        Target::Redis,
    ];
    let targets = Target::present(settings, &targets);
    let title = "idle: 50,000 watched threads over 50 connections, nothing happens";
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    for run in 1..=settings.runs {
        eprintln!("idle: run {run} of {}", settings.runs);
        for &target in &targets {
            let server = target.start(settings)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let [empty, each] = runtime.block_on(watch(&server, target))?;
            table.add((CASE, "server memory without any, MiB", target.label()), empty / f64::from(1 << 20));
            table.add((CASE, MEMORY, target.label()), each);
        }
    }
    table.goal_at_most("memory of a stream", (CASE, MEMORY, "embedded"), 1_800.0, "bytes");
    table.goal_at_most("memory of a stream of Watch", (CASE, MEMORY, "embedded, Watch"), 1_800.0, "bytes");
    table.goal_at_most(
        "memory of a thread on a shared stream of Watch",
        (CASE, MEMORY, "embedded, Watch, shared streams"),
        250.0,
        "bytes",
    );
    table.goal_at_most(
        "memory of a thread on a shared stream",
        (CASE, MEMORY, "embedded, shared streams"),
        250.0,
        "bytes",
    );
    table.note(
        "A stream for each thread, but for shared streams and Redis: one for each connection, with 1,000 threads.",
    );
    note_missing_redis(&targets, &mut table);
    Ok(table)
}

const CASE: &str = "50,000 threads";
const MEMORY: &str = "server memory, bytes / thread";

/// Resident bytes without watches, and bytes a thread.
async fn watch(server: &Server, target: Target) -> Result<[f64; 2]> {
    let empty = rested(server).await?;
    let links = server.connect(CONNECTIONS).await?;
    let sink: Sink = Arc::new(|_, _| ());
    watch_all(&links, THREADS, target.shares_streams(), &sink).await?;
    let full = rested(server).await?;
    Ok([empty, (full - empty) / THREADS as f64])
}

async fn rested(server: &Server) -> Result<f64> {
    let mut last = server.resident()?;
    loop {
        sleep(SETTLE).await;
        let now = server.resident()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}
