//! `storm`: a server with 20,000 clients, each with its own connection and stream, is killed and started again.
//!
//! As soon as it listens, all clients connect at once, without the backoff of our libraries: the worst case. A
//! well-behaved caller is one of them, and then makes a call every 2 ms (open loop: a latency counts from when the call
//! was due). The clients get only the processor time that the server and the well-behaved caller leave (`nice`): on a
//! network, they would have their own processors.
use crate::link::Link;
use crate::measure::Latencies;
use crate::process::open_files;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::subscribers;
use crate::table::Table;
use crate::target::{Server, Target};
use crate::threads;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

const HONEST_EVERY: Duration = Duration::from_millis(2);
/// The delay before a client whose connection or stream failed retries.
const RETRY: Duration = Duration::from_millis(50);
/// The files that this process and a server open besides connections.
const OTHER_FILES: usize = 200;

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [Target::Limit, Target::LimitRaw, Target::Memory, Target::Embedded, Target::Before];
    let targets = Target::present(settings, &targets);
    let clients = settings.clients.min(open_files().saturating_sub(OTHER_FILES));
    let title = format!("storm: a server is killed and started again, and {clients} clients reconnect at once");
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    for run in 1..=settings.runs {
        eprintln!("storm: run {run} of {}", settings.runs);
        for target in &targets {
            measure(*target, clients, settings, &mut table)?;
        }
    }
    table.goal_at_most("all are served", (CLIENTS, LAST, "embedded"), 5_000.0, "ms");
    table.goal_at_most("p99 of the honest caller meanwhile", (HONEST, DURING, "embedded"), 50.0, "ms");
    if clients < settings.clients {
        table.note(format!("{} clients would need a higher limit of open files (ulimit -Hn).", settings.clients));
    }
    Ok(table)
}

const CLIENTS: &str = "clients";
const HONEST: &str = "honest caller";
const LAST: &str = "the last has its stream after, ms";
const DURING: &str = "p99 meanwhile, ms";

fn measure(target: Target, clients: usize, settings: &Settings, table: &mut Table) -> Result<()> {
    let mut server = target.start(settings)?;
    let storm = Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| _ = rustix::process::nice(10).expect("a thread may lower its priority"))
        .enable_all()
        .build()?;
    let sink: Sink = Arc::new(|_, _| ());
    let before = own_open_files()?;
    let opened = storm.block_on(subscribers::open(&server, clients, |_| sink.clone()));
    drop(opened.map_err(|error| format!("{}: the first connections: {error}", target.label()))?);
    server.crash();
    while own_open_files()? > before + OTHER_FILES / 2 {
        std::thread::sleep(RETRY);
    }
    let begin = Instant::now();
    server.start_again(settings)?;
    let listens = begin.elapsed();
    let reconnected = reconnect(&server, clients, &storm);
    let reconnected = reconnected.map_err(|error| format!("{}: the honest caller: {error}", target.label()))?;
    let Reconnected { mut served, mut honest, first, failed } = reconnected;
    let mut add = |case, metric, value| table.add((case, metric, target.label()), value);
    add("server", "started until it listens again, ms", listens.as_secs_f64() * 1e3);
    let [p50, last] = served.percentiles([50.0, 100.0]).map(|us| us / 1e3);
    add(CLIENTS, "p50 has its stream after, ms", p50);
    add(CLIENTS, LAST, last);
    if failed > 0 {
        add(CLIENTS, "failed attempts", failed as f64);
    }
    add(HONEST, "connected and answered after, ms", first.as_secs_f64() * 1e3);
    let [p50, p99] = honest.percentiles([50.0, 99.0]).map(|us| us / 1e3);
    add(HONEST, "p50 meanwhile, ms", p50);
    add(HONEST, DURING, p99);
    Ok(())
}

/// The number of files that this process has open.
fn own_open_files() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

struct Reconnected {
    /// When each client had its stream.
    served: Latencies,
    /// The calls of the well-behaved caller until all clients had their streams.
    honest: Latencies,
    /// When the well-behaved caller got its first answer.
    first: Duration,
    failed: u64,
}

fn reconnect(server: &Server, clients: usize, storm: &Runtime) -> Result<Reconnected> {
    let (begin, over) = (Instant::now(), Arc::<AtomicBool>::default());
    let (mut opening, sink): (_, Sink) = (JoinSet::new(), Arc::new(|_, _| ()));
    for client in 0..clients {
        let (address, sink) = (server.client_address().of_client(client), sink.clone());
        let client = async move {
            let mut failed = 0;
            loop {
                match subscribers::one(&address, sink.clone()).await {
                    Ok(link) => return (link, begin.elapsed(), failed),
                    Err(_) => failed += 1,
                }
                sleep(RETRY).await;
            }
        };
        opening.spawn_on(client, storm.handle());
    }
    let all = {
        let over = over.clone();
        storm.spawn(async move {
            let (mut served, mut failed, mut links) = (Latencies::default(), 0, Vec::new());
            while let Some(client) = opening.join_next().await {
                let (link, after, attempts) = client?;
                links.push(link);
                served.record(after);
                failed += attempts;
            }
            over.store(true, Relaxed);
            Result::Ok((served, failed, links))
        })
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (honest, first) = runtime.block_on(async {
        let mut link = server.connecting().await?;
        link.call(&threads::id(1), true).await?;
        let first = begin.elapsed();
        Result::Ok((call(&mut link, &over).await?, first))
    })?;
    let (served, failed, _links) = storm.block_on(all)??;
    Ok(Reconnected { served, honest, first, failed })
}

/// Calls until the storm is over.
async fn call(link: &mut Link, over: &AtomicBool) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut ticks = interval(HONEST_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut up = false;
    while !over.load(Relaxed) {
        let due = ticks.tick().await.into_std();
        link.call(&threads::id(1), up).await?;
        latencies.record(due.elapsed());
        up = !up;
    }
    Ok(latencies)
}
