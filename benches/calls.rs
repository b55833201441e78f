//! `calls`: callers in closed loops; each alternately increments and decrements its own thread.
use crate::measure::Latencies;
use crate::points::Points;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use crate::threads;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const CALLERS: [usize; 5] = [1, 4, 16, 64, 256];
/// The number of callers whose latency distribution is plotted.
const SHOWN: usize = 16;
/// The connections that the callers share, like the tools of a few exec servers.
const CONNECTIONS: usize = 4;
const WARM_UP: Duration = Duration::from_millis(500);

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [Target::Limit, Target::Memory, Target::Embedded, Target::Before, Target::Redis];
    let targets = Target::present(settings, &targets);
    let title = "calls: closed-loop callers, each on a thread of its own, over at most 4 connections";
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    let (mut throughput, mut latency) = (Points::new("calls"), Points::new("call-latency"));
    for run in 1..=settings.runs {
        for callers in CALLERS {
            eprintln!("calls: run {run} of {}, {callers} callers", settings.runs);
            for target in &targets {
                let mut latencies = measure(*target, callers, settings, &mut table)?;
                let calls = latencies.count() / settings.per_case.as_secs_f64();
                throughput.add(target.label(), callers as f64, calls);
                if callers == SHOWN {
                    latencies.distribution().iter().for_each(|&(x, y)| latency.add(target.label(), x, y));
                }
            }
        }
    }
    throughput.keep(settings)?;
    latency.keep(settings)?;
    let case = "256 callers";
    table.goal_at_least_times("calls/s, 256 callers, memory", (case, "calls/s", "memory"), 0.9, "limit");
    table.goal_at_most_times("CPU a call, 256 callers, memory", (case, CPU, "memory"), 1.15, "limit");
    table.goal_at_least_times("calls/s, 256 callers, durable", (case, "calls/s", "embedded"), 0.7, "limit");
    table.goal_at_most_times("CPU a call, 256 callers, durable", (case, CPU, "embedded"), 1.7, "limit");
    table.goal_at_most_times("p50, 1 caller, durable", ("1 caller", "p50, us", "embedded"), 1.5, "redis, fsync");
    note_missing_redis(&targets, &mut table);
    Ok(table)
}

const CPU: &str = "server CPU, s / 100,000 calls";

/// Measures one target once.
pub(crate) fn measure(target: Target, callers: usize, settings: &Settings, table: &mut Table) -> Result<Latencies> {
    let server = target.start(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut latencies, cpu) = runtime.block_on(call(&server, target, callers, settings.per_case))?;
    let calls = latencies.count();
    let case = format!("{callers} caller{}", if callers == 1 { "" } else { "s" });
    let mut add = |metric, value| table.add((&case, metric, target.label()), value);
    add("calls/s", calls / settings.per_case.as_secs_f64());
    let [p50, p99, p999] = latencies.percentiles([50.0, 99.0, 99.9]);
    add("p50, us", p50);
    add("p99, us", p99);
    add("p99.9, us", p999);
    add(CPU, cpu / calls * 1e5);
    Ok(latencies)
}

/// Returns the latencies of all calls within `time`, and the server's CPU seconds.
async fn call(server: &Server, target: Target, callers: usize, time: Duration) -> Result<(Latencies, f64)> {
    let links = server.connect(CONNECTIONS.min(callers)).await?;
    let start = Instant::now() + WARM_UP;
    let end = start + time;
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let (mut link, thread) = (links[caller % links.len()].clone(), threads::id(caller));
        tasks.push(tokio::spawn(async move {
            let (mut latencies, mut up, mut sent) = (Latencies::default(), true, Instant::now());
            while sent < end {
                let count = link.call(&thread, up).await?;
                if target.counts() && count != u64::from(up) {
                    return Err(
                        format!("count {count} after {}", if up { "an increment" } else { "a decrement" }).into()
                    );
                }
                let answered = Instant::now();
                if sent >= start && answered <= end {
                    latencies.record(answered - sent);
                }
                (up, sent) = (!up, answered);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies)
        }));
    }
    sleep_until(start).await;
    let before = server.cpu_seconds()?;
    sleep_until(end).await;
    let cpu = server.cpu_seconds()? - before;
    let mut all = Latencies::default();
    for task in tasks {
        all.append(task.await??);
    }
    Ok((all, cpu))
}
