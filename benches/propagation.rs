//! `propagation`: the time from a call to the subscriber, with 10,000 watched threads of which random ones pause and
//! resume.
//!
//! Changes are due at a fixed rate, however fast the answers are (open loop), and a latency counts from when the change
//! was due, so that a server cannot hide a backlog.
use crate::link::Link;
use crate::measure::Latencies;
use crate::points::Points;
use crate::result::Result;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::table::Table;
use crate::target::{Server, Target, note_missing_redis};
use crate::threads;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const THREADS: usize = 10_000;
const WATCH_CONNECTIONS: usize = 20;
const CALL_CONNECTIONS: usize = 4;
/// Changes per second.
const RATES: [u64; 2] = [1_000, 5_000];
const WARM_UP: Duration = Duration::from_secs(1);
/// The maximum wait for the last deliveries.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of watches that are opened at once.
const OPENING: usize = 64;

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let targets = [Target::Limit, Target::Memory, Target::Embedded, Target::Shared, Target::Before, Target::Redis];
    let targets = Target::present(settings, &targets);
    let title = "propagation: 10,000 watched threads, changes at a fixed rate (open loop), from due time to subscriber";
    let mut table = Table::new(title, targets.iter().map(|target| target.label()));
    let mut distribution = Points::new("propagation");
    for run in 1..=settings.runs {
        eprintln!("propagation: run {run} of {}", settings.runs);
        for target in &targets {
            for rate in RATES {
                let mut latencies = measure(*target, rate, settings, &mut table)?;
                if Some(&rate) == RATES.last() {
                    latencies.distribution().iter().for_each(|&(x, y)| distribution.add(target.label(), x, y));
                }
            }
        }
    }
    distribution.keep(settings)?;
    for rate in RATES {
        let case = case(rate);
        for (what, column) in [("durable", "embedded"), ("durable, shared streams", "embedded, shared streams")] {
            for (metric, of_the_limit) in [("p50, us", 1.2), ("p99, us", 1.5)] {
                let what = format!("{case}, {}, {what}", metric.trim_end_matches(", us"));
                table.goal_at_most_times(&what, (&case, metric, column), 1.5, "redis, fsync");
                table.goal_at_most_times(&what, (&case, metric, column), of_the_limit, "limit");
            }
        }
    }
    note_missing_redis(&targets, &mut table);
    Ok(table)
}

fn case(rate: u64) -> String {
    format!("{},000 changes/s", rate / 1_000)
}

fn measure(target: Target, rate: u64, settings: &Settings, table: &mut Table) -> Result<Latencies> {
    let server = target.start(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut latencies, cpu) = runtime.block_on(changes(&server, target, rate, settings.per_case))?;
    let case = case(rate);
    let mut add = |metric, value| table.add((&case, metric, target.label()), value);
    let [p50, p99, p999] = latencies.percentiles([50.0, 99.0, 99.9]);
    add("p50, us", p50);
    add("p99, us", p99);
    add("p99.9, us", p999);
    add("server CPU, s / 100,000 changes", cpu / latencies.count() * 1e5);
    Ok(latencies)
}

/// Opens watches of threads `0..count`: one for each thread, or one for each link with many threads.
pub(crate) async fn watch_all(links: &[Link], count: usize, share: bool, sink: &Sink) -> Result<()> {
    watch_part(links, count, 0..count, share, sink).await
}

/// Opens the watches of `threads`; both bounds are multiples of the number of threads in a shared stream.
pub(crate) async fn watch_part(
    links: &[Link],
    count: usize,
    threads: Range<usize>,
    share: bool,
    sink: &Sink,
) -> Result<()> {
    let each = if share { count.div_ceil(links.len()) } else { 1 };
    let mut opening = JoinSet::new();
    for first in threads.step_by(each) {
        let watch = first / each;
        if opening.len() >= OPENING {
            opening.join_next().await.ok_or("just counted")???;
        }
        let (link, sink) = (links[watch % links.len()].clone(), sink.clone());
        opening.spawn(async move { link.watch(first..(first + each).min(count), sink).await });
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}

/// The change in progress on one thread. A thread gets a new change only when none is in progress.
#[derive(Default)]
struct Thread {
    /// When the change was due, in nanoseconds since the start; 0: it has been delivered.
    due: AtomicU64,
    calling: AtomicBool,
    paused: AtomicBool,
}

struct Board {
    base: Instant,
    threads: Vec<Thread>,
    recording: AtomicBool,
    latencies: Mutex<Latencies>,
    /// The number of deliveries without a change, refused calls, and changes for which no thread was free.
    wrong: AtomicU64,
}

impl Board {
    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn delivered(&self, thread: usize, paused: bool) {
        let due = self.threads[thread].due.swap(0, Relaxed);
        if due == 0 || paused == self.threads[thread].paused.load(Relaxed) {
            self.wrong.fetch_add(1, Relaxed);
        } else if self.recording.load(Relaxed) {
            let latency = Duration::from_nanos(self.now().saturating_sub(due));
            self.latencies.lock().expect("nothing panics while it records").record(latency);
        }
        self.threads[thread].paused.store(paused, Relaxed);
    }

    fn is_at_rest(&self, thread: usize) -> bool {
        self.threads[thread].due.load(Relaxed) == 0 && !self.threads[thread].calling.load(Relaxed)
    }
}

async fn changes(server: &Server, target: Target, rate: u64, time: Duration) -> Result<(Latencies, f64)> {
    let board = Arc::new(Board {
        base: Instant::now(),
        threads: (0..THREADS).map(|_| Thread::default()).collect(),
        recording: AtomicBool::new(false),
        latencies: Mutex::default(),
        wrong: AtomicU64::new(0),
    });
    let watches = server.connect(WATCH_CONNECTIONS).await?;
    let delivered = board.clone();
    let sink: Sink = Arc::new(move |thread, paused| delivered.delivered(thread, paused));
    watch_all(&watches, THREADS, target.shares_streams(), &sink).await?;

    let calls = server.connect(CALL_CONNECTIONS).await?;
    let pacer = {
        let (board, runtime) = (board.clone(), tokio::runtime::Handle::current());
        move || pace(&board, &calls, &runtime, rate, time)
    };
    // A separate thread, because the timers of the runtime have a resolution of 1 ms.
    let pacer = tokio::task::spawn_blocking(pacer);
    tokio::time::sleep(WARM_UP).await;
    let before = server.cpu_seconds()?;
    board.recording.store(true, Relaxed);
    pacer.await?;
    let cpu = server.cpu_seconds()? - before;

    let waiting = Instant::now();
    while let Some(missing) = (0..THREADS).find(|&thread| !board.is_at_rest(thread)) {
        if waiting.elapsed() > PATIENCE {
            return Err(format!("{}: a change of thread {missing} did not arrive", target.label()).into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    match board.wrong.load(Relaxed) {
        0 => Ok((std::mem::take(&mut *board.latencies.lock().expect("nobody records any more")), cpu)),
        wrong => Err(format!("{}: {wrong} calls or deliveries went wrong", target.label()).into()),
    }
}

/// Makes changes when they are due, until the warm-up and `time` are over.
fn pace(board: &Arc<Board>, calls: &[Link], runtime: &tokio::runtime::Handle, rate: u64, time: Duration) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let begin = board.base.elapsed();
    let total = ((WARM_UP + time).as_secs_f64() * rate as f64) as u64;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for number in 0..total {
        let due = begin + Duration::from_nanos(number * 1_000_000_000 / rate);
        if let Some(early) = due.checked_sub(board.base.elapsed()) {
            std::thread::sleep(early);
        }
        let at_rest = (0..100).find_map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let thread = (random % THREADS as u64) as usize;
            board.is_at_rest(thread).then_some(thread)
        });
        let Some(thread) = at_rest else {
            board.wrong.fetch_add(1, Relaxed);
            continue;
        };
        let up = !board.threads[thread].paused.load(Relaxed);
        board.threads[thread].calling.store(true, Relaxed);
        board.threads[thread].due.store(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let (board, mut link) = (board.clone(), calls[thread % calls.len()].clone());
        runtime.spawn(async move {
            if link.call(&threads::id(thread), up).await.is_err() {
                board.wrong.fetch_add(1, Relaxed);
            }
            board.threads[thread].calling.store(false, Relaxed);
        });
    }
}
