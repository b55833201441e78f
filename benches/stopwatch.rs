//! `stopwatch`: the cost of pausing and resuming a thread on which 100,000 tasks each wait for a stopwatch.
//!
//! A resume wakes each waiter that found the thread paused, so it is measured twice: when the waiters have slept
//! through the pause, and when all of them have noticed it.
use crate::measure::{Latencies, resident};
use crate::result::Result;
use crate::table::Table;
use pausewatch::client::PauseState;
use pausewatch::stopwatch::{Registration, Stopwatch, StopwatchController};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const STOPWATCHES: usize = 100_000;
const ROUNDS: u64 = 1_001;
/// Long enough for all tasks to wait.
const SETTLE: Duration = Duration::from_secs(2);

pub(crate) fn run() -> Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    eprintln!("stopwatch: {STOPWATCHES} on one thread");
    let mut table = Table::new("stopwatch: 100,000 stopwatches of one thread, each with a task that waits", [COLUMN]);
    runtime.block_on(measure(&mut table))?;
    table.goal_at_most("a pause", (PAUSE, P50, COLUMN), 50.0, "us");
    Ok(table)
}

const COLUMN: &str = "pausewatch";
const PAUSE: &str = "pause";
const P50: &str = "p50, us";

async fn measure(table: &mut Table) -> Result<()> {
    let controller = StopwatchController::detached();
    let own = || resident(std::process::id());
    let before = own()?;
    let registered = register(&controller, Duration::from_secs(3_600))?;
    let with_stopwatches = own()?;
    // The first state ends the uncertainty, during which waiters listen to the thread.
    controller.apply(&state(0, 1));
    let tasks = wait_for(&registered);
    tokio::time::sleep(SETTLE).await;
    let each = |bytes: f64| bytes / STOPWATCHES as f64;
    table.add(("memory", "bytes / stopwatch", COLUMN), each(with_stopwatches - before));
    table.add(("memory", "bytes / task that waits for one", COLUMN), each(own()? - with_stopwatches));

    let (mut pauses, mut resumes) = (Latencies::default(), Latencies::default());
    for round in 1..=ROUNDS {
        pauses.record(time(|| controller.apply(black_box(&state(1, 2 * round)))));
        let is_paused = registered[STOPWATCHES - 1].1.is_paused();
        resumes.record(time(|| controller.apply(black_box(&state(0, 2 * round + 1)))));
        if !is_paused || registered[STOPWATCHES - 1].1.is_paused() {
            return Err("a stopwatch does not follow its thread".into());
        }
    }
    for (case, times) in [(PAUSE, &mut pauses), ("resume, waiters asleep", &mut resumes)] {
        let [p50, p99, most] = times.percentiles([50.0, 99.0, 100.0]);
        table.add((case, P50, COLUMN), p50);
        table.add((case, "p99, us", COLUMN), p99);
        table.add((case, "most, us", COLUMN), most);
    }
    tasks.into_iter().for_each(|task| task.abort());
    drop(registered);

    let registered = register(&controller, Duration::from_millis(1))?;
    controller.apply(&state(1, 10 * ROUNDS));
    let tasks = wait_for(&registered);
    tokio::time::sleep(SETTLE).await;
    let start = Instant::now();
    controller.apply(&state(0, 10 * ROUNDS + 1));
    table.add(("resume, waiters standing still", "ms", COLUMN), start.elapsed().as_secs_f64() * 1e3);
    for task in tasks {
        task.await?;
    }
    let case = "resume, until all have expired";
    table.add((case, "ms", COLUMN), start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn register(controller: &StopwatchController, limit: Duration) -> Result<Vec<(Registration, Stopwatch)>> {
    let one = || {
        let stopwatch = Stopwatch::new(limit);
        Ok((controller.register("t", &stopwatch)?, stopwatch))
    };
    (0..STOPWATCHES).map(|_| one()).collect()
}

fn wait_for(registered: &[(Registration, Stopwatch)]) -> Vec<JoinHandle<()>> {
    let wait = |stopwatch: Stopwatch| tokio::spawn(async move { stopwatch.expired().await });
    registered.iter().map(|(_, stopwatch)| wait(stopwatch.clone())).collect()
}

fn state(count: u32, revision: u64) -> PauseState {
    let paused_total = Some(prost_types::Duration::default());
    PauseState { thread_id: "t".to_owned(), count, paused: count > 0, revision, paused_total, ..PauseState::default() }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
