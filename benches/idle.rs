//! `idle`: the memory that 50,000 watched threads need in a server while nothing happens.
use crate::points::Points;
use crate::propagation::watch_part;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const THREADS: usize = 50_000;
/// The number of watches between two measurements of the memory.
const STEP: usize = 10_000;
const CONNECTIONS: usize = 50;
/// Memory is measured when it has not changed for this long.
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
    let mut memory = Points::new("idle");
    for run in 1..=settings.runs {
        eprintln!("idle: run {run} of {}", settings.runs);
        for &target in &targets {
            let server = target.start(settings)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let steps = runtime.block_on(watch(&server, target))?;
            let [(_, empty), .., (threads, full)] = steps[..] else { unreachable!("there are several steps") };
            table.add((CASE, "server memory without any, MiB", target.label()), empty / MIB);
            table.add((CASE, MEMORY, target.label()), (full - empty) / threads as f64);
            steps.iter().for_each(|&(threads, bytes)| memory.add(target.label(), threads as f64, bytes / MIB));
        }
    }
    memory.keep(settings)?;
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

const MIB: f64 = (1 << 20) as f64;
const CASE: &str = "50,000 threads";
const MEMORY: &str = "server memory, bytes / thread";

/// Returns the resident bytes for several numbers of watched threads, from 0 to all.
async fn watch(server: &Server, target: Target) -> Result<Vec<(usize, f64)>> {
    let mut steps = vec![(0, rested(server).await?)];
    let links = server.connect(CONNECTIONS).await?;
    let sink: Sink = Arc::new(|_, _| ());
    for first in (0..THREADS).step_by(STEP) {
        let threads = first..first + STEP;
        watch_part(&links, THREADS, threads.clone(), target.shares_streams(), &sink).await?;
        steps.push((threads.end, rested(server).await?));
    }
    Ok(steps)
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
