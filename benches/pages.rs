//! `pages`: how much 1,000 open pages slow callers, compared with as many gRPC watches of all threads.
//!
//! The data of the watches is not decoded, and it is read with the processor time that the callers leave (`nice` 19),
//! because people who look at pages have their own processors.
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::{Server, Target};
use crate::threads;
use pausewatch::proto::v1::WatchPauseStateRequest;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tonic::transport::Endpoint;

const WATCHES: usize = 1_000;
const CALLERS: usize = 50;
/// The interval between the calls of a caller: together they make 5,000 per second.
const INTERVAL: Duration = Duration::from_millis(10);
/// The threads of each caller. Half of them are paused at any time.
const THREADS: usize = 20;
const CALL_CONNECTIONS: usize = 4;
const WARM_UP: Duration = Duration::from_secs(2);
const METHOD: &str = "/pausewatch.v1.ElicitationService/WatchPauseState";
const CASE: &str = "at most 5,000 changes/s";
const NOBODY: &str = "no watches";
const GRPC: &str = "1,000 gRPC watches";
const PAGES: &str = "1,000 pages";

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let title = "pages: callers beside 1,000 watches of everything with elicitations, durable";
    let mut table = Table::new(title, [NOBODY, GRPC, PAGES]);
    for run in 1..=settings.runs {
        for column in [NOBODY, GRPC, PAGES] {
            eprintln!("pages: run {run} of {}, {column}", settings.runs);
            measure(column, settings, &mut table)?;
        }
    }
    table.goal_at_least_times("calls/s beside 1,000 pages", (CASE, CALLS, PAGES), 0.95, GRPC);
    table.goal_at_most_times("p99 of a call beside 1,000 pages", (CASE, P99, PAGES), 1.1, GRPC);
    Ok(table)
}

const CALLS: &str = "calls/s";
const P99: &str = "call p99, us";

fn measure(column: &str, settings: &Settings, table: &mut Table) -> Result<()> {
    let server = Target::Embedded.start(settings)?;
    let read = Arc::<AtomicU64>::default();
    let readers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| _ = rustix::process::nice(19).expect("a thread may lower its priority"))
        .enable_all()
        .build()?;
    if column != NOBODY {
        readers.block_on(watch(server.address(), column == PAGES, &read))?;
    }
    let callers = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut measured = callers.block_on(change(&server, settings.per_case, &read))?;
    let seconds = settings.per_case.as_secs_f64();
    let [p50, p99, p999] = measured.latencies.percentiles([50.0, 99.0, 99.9]);
    table.add((CASE, CALLS, column), measured.latencies.count() / seconds);
    table.add((CASE, "call p50, us", column), p50);
    table.add((CASE, P99, column), p99);
    table.add((CASE, "call p99.9, us", column), p999);
    table.add((CASE, "server CPU, %", column), measured.cpu / seconds * 100.0);
    table.add((CASE, "MB/s that the watches bring", column), measured.read as f64 / 1e6 / seconds);
    Ok(())
}

/// Opens the watches, and reads them for as long as the runtime exists.
async fn watch(address: &str, pages: bool, read: &Arc<AtomicU64>) -> Result<()> {
    let mut opening = JoinSet::new();
    for _ in 0..WATCHES {
        let (address, read) = (address.to_owned(), read.clone());
        opening.spawn(async move {
            match pages {
                true => page(&address, read).await,
                false => grpc(&address, read).await,
            }
        });
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}

/// The stream of one page, over its own connection.
async fn page(address: &str, read: Arc<AtomicU64>) -> Result<()> {
    let mut connection = TcpStream::connect(address).await?;
    let message = br#"{"includeElicitations":true,"observer":true}"#;
    let length = u32::try_from(message.len())?.to_be_bytes();
    let body = [&[0], &length[..], message].concat();
    let head = format!(
        "POST {METHOD} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/connect+json\r\nconnect-protocol-version: 1\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(&[head.as_bytes(), &body].concat()).await?;
    let mut part = vec![0; 64 << 10];
    let length = connection.read(&mut part).await?;
    if !part[..length].starts_with(b"HTTP/1.1 200 ") {
        return Err(format!("a page was answered {}", String::from_utf8_lossy(&part[..length])).into());
    }
    tokio::spawn(async move {
        while let Ok(length @ 1..) = connection.read(&mut part).await {
            read.fetch_add(length as u64, Relaxed);
        }
    });
    Ok(())
}

/// A gRPC watch, over its own connection.
async fn grpc(address: &str, read: Arc<AtomicU64>) -> Result<()> {
    use http_body_util::BodyExt;
    use tower::{Service, ServiceExt};
    let mut channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let message = WatchPauseStateRequest { include_elicitations: true, ..Default::default() }.encode_to_vec();
    let length = u32::try_from(message.len())?.to_be_bytes();
    let body = Body::new(http_body_util::Full::from([&[0], &length[..], &message].concat()));
    let request = http::Request::post(format!("http://{address}{METHOD}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)?;
    let response = channel.ready().await?.call(request).await?;
    let (head, mut body) = response.into_parts();
    if head.headers.contains_key("grpc-status") {
        return Err(format!("a watch was answered {head:?}").into());
    }
    tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            read.fetch_add(frame.data_ref().map_or(0, |data| data.len() as u64), Relaxed);
        }
        drop(channel);
    });
    Ok(())
}

struct Measured {
    latencies: Latencies,
    /// The server's CPU time, in seconds.
    cpu: f64,
    /// The bytes that the watches have read.
    read: u64,
}

/// Every caller changes its own threads in turn: one call after another, and none before its time.
async fn change(server: &Server, time: Duration, read: &AtomicU64) -> Result<Measured> {
    let links = server.connect(CALL_CONNECTIONS).await?;
    let start = Instant::now() + WARM_UP;
    let end = start + time;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let mut link = links[caller % CALL_CONNECTIONS].clone();
        callers.push(tokio::spawn(async move {
            let (mut latencies, begun) = (Latencies::default(), Instant::now());
            for number in 0.. {
                sleep_until(begun + INTERVAL * number).await;
                let sent = Instant::now();
                if sent >= end {
                    break;
                }
                let (round, thread) = (number as usize / THREADS, number as usize % THREADS);
                link.call(&threads::id(caller * THREADS + thread), round % 2 == 0).await?;
                if sent >= start {
                    latencies.record(sent.elapsed());
                }
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies)
        }));
    }
    sleep_until(start).await;
    let before = (server.cpu_seconds()?, read.load(Relaxed));
    sleep_until(end).await;
    let (cpu, read) = (server.cpu_seconds()? - before.0, read.load(Relaxed) - before.1);
    let mut latencies = Latencies::default();
    for caller in callers {
        latencies.append(caller.await??);
    }
    Ok(Measured { latencies, cpu, read })
}
