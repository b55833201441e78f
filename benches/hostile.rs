//! `hostile`: how much a caller that calls as fast as it can slows one that calls now and then, and the memory of
//! unread watches.
//!
//! The server allows each caller 1,000 calls per second. The hostile one has 16 connections from 127.0.0.1, with 64
//! calls in flight on each; the well-behaved one calls 500 times per second over one connection, from 127.0.0.2. On a
//! network, both would have their own processors: here the hostile one gets only what the others leave (`nice` 19).
use crate::measure::{Latencies, cpu_seconds, resident};
use crate::process::{Process, serve};
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use pausewatch::proto::v1::elicitation_service_client::ElicitationServiceClient;
use pausewatch::proto::v1::{
    DecrementElicitationRequest, GetPauseStateRequest, IncrementElicitationRequest, WatchPauseStateRequest,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::transport::{Channel, Endpoint};

const LIMIT: &str = "1000";
const HONEST_EVERY: Duration = Duration::from_millis(2);
const CONNECTIONS: usize = 16;
const CALLS_AT_ONCE: usize = 64;
const UNREAD_CONNECTIONS: usize = 10;
/// The number of watches on each of these connections.
const UNREAD_WATCHES: usize = 500;
const WARM_UP: Duration = Duration::from_secs(1);
const ALONE: &str = "alone";
const BESIDE: &str = "beside a hostile caller";

type Stub = ElicitationServiceClient<Channel>;

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let title = "hostile: an honest caller's calls, durable, alone and beside one that floods the server";
    let mut table = Table::new(title, [ALONE, BESIDE]);
    for run in 1..=settings.runs {
        eprintln!("hostile: run {run} of {}", settings.runs);
        for column in [ALONE, BESIDE] {
            measure(column, settings, &mut table)?;
        }
        for (case, threads) in [("1 paused thread", 1), ("10,000 paused threads", 10_000)] {
            table.add((case, "memory of an unread watch, bytes", ALONE), unread_watches(settings, threads)?);
        }
    }
    let unread = ("10,000 paused threads", "memory of an unread watch, bytes", ALONE);
    table.goal_at_most("memory of a watch of all threads that nobody reads", unread, 8_000.0, "bytes");
    table.goal_at_most_times("p99 of the honest caller", ("honest", "p99, us", BESIDE), 1.5, ALONE);
    Ok(table)
}

fn measure(column: &str, settings: &Settings, table: &mut Table) -> Result<()> {
    let data = settings.data_dir()?;
    let mut command = serve(&settings.program, &["--max-calls-per-second-per-caller", LIMIT, "--data-dir"]);
    command.arg(data.path());
    let server = Process::listening(command)?;
    let (served, refused) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let hostile = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| _ = rustix::process::nice(19).expect("a thread may lower its priority"))
        .enable_all()
        .build()?;
    if column == BESIDE {
        hostile.block_on(flood(&server.address, &served, &refused))?;
    }
    std::thread::sleep(WARM_UP);
    let (before, counted) = (cpu_seconds(server.pid())?, [served.load(Relaxed), refused.load(Relaxed)]);
    let honest = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut latencies = honest.block_on(call_now_and_then(&server.address, settings.per_case))?;
    let cpu = cpu_seconds(server.pid())? - before;
    for (count, before) in [&served, &refused].into_iter().zip(counted) {
        count.fetch_sub(before, Relaxed);
    }
    let seconds = settings.per_case.as_secs_f64();
    let [p50, p99] = latencies.percentiles([50.0, 99.0]);
    table.add(("honest", "p50, us", column), p50);
    table.add(("honest", "p99, us", column), p99);
    table.add(("server", "CPU, %", column), cpu / seconds * 100.0);
    if column == BESIDE {
        table.add(("hostile", "served/s", column), served.load(Relaxed) as f64 / seconds);
        table.add(("hostile", "refused/s", column), refused.load(Relaxed) as f64 / seconds);
    }
    Ok(())
}

/// The memory of a watch of all threads whose client reads nothing, in bytes.
fn unread_watches(settings: &Settings, threads: usize) -> Result<f64> {
    let server = Process::listening(serve(&settings.program, &["--store", "memory"]))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut honest = connect(&server.address, [127, 0, 0, 2]).await?;
        for thread in 0..threads {
            let thread_id = format!("thread {thread}");
            honest.increment_elicitation(IncrementElicitationRequest { thread_id, ..Default::default() }).await?;
        }
        let before = resident(server.pid())?;
        let mut unread = Vec::new();
        for _ in 0..UNREAD_CONNECTIONS {
            let endpoint = Endpoint::from_shared(format!("http://{}", server.address))?.initial_stream_window_size(0);
            let mut stub = Stub::new(endpoint.connect().await?);
            for _ in 0..UNREAD_WATCHES {
                unread.push(stub.watch_pause_state(WatchPauseStateRequest::default()).await?);
            }
        }
        honest.get_pause_state(GetPauseStateRequest { thread_id: "thread 0".into() }).await?;
        Ok((resident(server.pid())? - before) / unread.len() as f64)
    })
}

async fn connect(address: &str, from: [u8; 4]) -> Result<Stub> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.local_address(Some(IpAddr::from(from)));
    Ok(Stub::new(endpoint.connect().await?))
}

/// Calls for as long as the runtime exists.
async fn flood(address: &str, served: &Arc<AtomicU64>, refused: &Arc<AtomicU64>) -> Result<()> {
    for connection in 0..CONNECTIONS {
        let stub = connect(address, [127, 0, 0, 1]).await?;
        for task in 0..CALLS_AT_ONCE {
            let (mut stub, served, refused) = (stub.clone(), served.clone(), refused.clone());
            tokio::spawn(async move {
                let thread_id = format!("hostile {connection} {task}");
                loop {
                    let request = IncrementElicitationRequest { thread_id: thread_id.clone(), ..Default::default() };
                    let answered = stub.increment_elicitation(request).await;
                    if answered.is_ok() { &served } else { &refused }.fetch_add(1, Relaxed);
                }
            });
        }
    }
    Ok(())
}

/// Every call is made at its time, however long the one before takes.
async fn call_now_and_then(address: &str, time: Duration) -> Result<Latencies> {
    let mut stub = connect(address, [127, 0, 0, 2]).await?;
    let mut latencies = Latencies::default();
    let mut ticks = interval(HONEST_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = Instant::now() + time;
    while ticks.tick().await < end {
        let (thread_id, sent) = ("honest".to_owned(), Instant::now());
        if (latencies.count() as u64).is_multiple_of(2) {
            stub.increment_elicitation(IncrementElicitationRequest { thread_id, ..Default::default() }).await?;
        } else {
            stub.decrement_elicitation(DecrementElicitationRequest { thread_id, ..Default::default() }).await?;
        }
        latencies.record(sent.elapsed());
    }
    Ok(latencies)
}
