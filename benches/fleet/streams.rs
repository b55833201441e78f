//! Many streams, spread over the replicas, each of its own thread: memory, and how soon each receives the change of its
//! thread.
use crate::etcd::Cluster;
use crate::grpc;
use crate::measure::{self, Latencies};
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::table::Table;
use crate::threads;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The number of streams that share a connection.
const SHARED: usize = 200;
const REPLICAS: usize = 3;
const CALLERS: usize = 256;
const SETTLE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

const LAST: &str = "a change reaches its stream, longest, ms";

pub(super) fn measure(settings: &Settings, table: &mut Table, column: &str) -> Result<()> {
    let (cluster, case) = (Cluster::start(settings, 3)?, case(settings.streams));
    let replicas = cluster.replicas(settings, REPLICAS)?;
    let resident = || -> Result<f64> { replicas.iter().map(|replica| measure::resident(replica.pid())).sum() };
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    eprintln!("fleet: {case}");
    runtime.block_on(async {
        let idle = resident()?;
        let told = Arc::new(Told::new(settings.streams));
        let _links = open(&addresses, &told).await?;
        sleep(SETTLE).await;
        let memory = (resident()? - idle) / settings.streams as f64;
        table.add((&case, "memory of all replicas, bytes / stream", column), memory);
        let seconds = change(&addresses, &told).await?;
        let mut delays = Latencies::default();
        told.0.iter().filter_map(|told| told.delay()).for_each(|delay| delays.record(delay));
        table.add((&case, "changes/s", column), settings.streams as f64 / seconds);
        let [p50, p99, longest] = delays.percentiles([50.0, 99.0, 100.0]).map(|us| us / 1e3);
        table.add((&case, "a change reaches its stream, p50, ms", column), p50);
        table.add((&case, "a change reaches its stream, p99, ms", column), p99);
        table.add((&case, LAST, column), longest);
        Ok(())
    })
}

pub(super) fn goals(table: &mut Table, column: &str, streams: usize) {
    table.goal_at_most("a change of each reaches its stream", (&case(streams), LAST, column), 2_000.0, "ms");
}

fn case(streams: usize) -> String {
    format!("{streams} streams on three replicas")
}

/// When each thread was changed, and when its stream received the change.
struct Told(Vec<Change>);

#[derive(Default)]
struct Change {
    called: OnceLock<Instant>,
    told: OnceLock<Instant>,
}

impl Told {
    fn new(count: usize) -> Self {
        Told((0..count).map(|_| Change::default()).collect())
    }
}

impl Change {
    fn delay(&self) -> Option<Duration> {
        Some(self.told.get()?.duration_since(*self.called.get()?))
    }
}

/// Opens the streams; the connections live as long as the result.
async fn open(addresses: &[String], told: &Arc<Told>) -> Result<Vec<grpc::Link>> {
    let (mut links, mut opening) = (Vec::new(), JoinSet::new());
    for first in (0..told.0.len()).step_by(SHARED) {
        let link = grpc::Link::connect(&addresses[links.len() % addresses.len()], false, None).await?;
        links.push(link.clone());
        let told = told.clone();
        opening.spawn(async move {
            for thread in first..(first + SHARED).min(told.0.len()) {
                let told = told.clone();
                let sink: Sink = Arc::new(move |thread, paused| {
                    if paused {
                        let _ = told.0[thread].told.set(Instant::now());
                    }
                });
                link.watch(thread..thread + 1, sink).await?;
            }
            Result::Ok(())
        });
        if opening.len() > 16 {
            opening.join_next().await.ok_or("just counted")???;
        }
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(links)
}

/// Changes each thread once, by callers at all replicas; returns the seconds until all streams have received the
/// changes.
async fn change(addresses: &[String], told: &Arc<Told>) -> Result<f64> {
    let (begin, next, mut callers) = (Instant::now(), Arc::<AtomicUsize>::default(), JoinSet::new());
    for caller in 0..CALLERS {
        let mut link = grpc::Link::connect(&addresses[caller % addresses.len()], false, None).await?;
        let (next, told) = (next.clone(), told.clone());
        callers.spawn(async move {
            loop {
                let thread = next.fetch_add(1, SeqCst);
                let Some(change) = told.0.get(thread) else { return Result::Ok(()) };
                let _ = change.called.set(Instant::now());
                link.call(&threads::id(thread), true).await?;
            }
        });
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let missing = || told.0.iter().filter(|change| change.told.get().is_none()).count();
    let waiting = Instant::now();
    while missing() > 0 {
        if waiting.elapsed() > PATIENCE {
            return Err(format!("{} streams were not told", missing()).into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(seconds)
}
