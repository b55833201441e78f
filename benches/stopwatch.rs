//! What pausing and resuming a thread costs with 100,000 registered stopwatches that 100,000 tasks wait for.
//!
//! `cargo bench --bench stopwatch`. The goal is at most 50 us for a pause; a resume wakes everyone who found the thread
//! paused, so it is measured twice: when the waiters slept through the pause, and when all had noticed it.
use pausewatch::{
    client::PauseState,
    stopwatch::{Stopwatch, StopwatchController},
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const STOPWATCHES: usize = 100_000;
const ROUNDS: u64 = 1_001;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime of two threads").block_on(run());
}

async fn run() {
    let controller = StopwatchController::detached();
    let before = resident();
    let registered: Vec<_> = (0..STOPWATCHES)
        .map(|_| {
            let stopwatch = Stopwatch::new(Duration::from_secs(3_600));
            (controller.register("t", &stopwatch).expect("a thread id"), stopwatch)
        })
        .collect();
    let with_stopwatches = resident();
    // The first state ends the uncertainty in which waiters listen to the thread.
    controller.apply(&state(0, 1));
    for (_, stopwatch) in &registered {
        let stopwatch = stopwatch.clone();
        tokio::spawn(async move { stopwatch.expired().await });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let with_tasks = resident();
    let each = |from: u64, to: u64| to.saturating_sub(from) / STOPWATCHES as u64;
    println!("memory: {} bytes a registered stopwatch", each(before, with_stopwatches));
    println!("memory: {} bytes a task that waits for one", each(with_stopwatches, with_tasks));

    let (mut pauses, mut resumes) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        pauses.push(time(|| controller.apply(black_box(&state(1, 2 * round)))));
        assert!(registered[0].1.is_paused());
        resumes.push(time(|| controller.apply(black_box(&state(0, 2 * round + 1)))));
        assert!(!registered[STOPWATCHES - 1].1.is_paused());
    }
    report("pause", &mut pauses);
    report("resume, waiters asleep", &mut resumes);
    drop(registered);

    let short: Vec<_> = (0..STOPWATCHES)
        .map(|_| {
            let stopwatch = Stopwatch::new(Duration::from_millis(1));
            (controller.register("t", &stopwatch).expect("a thread id"), stopwatch)
        })
        .collect();
    controller.apply(&state(1, 10 * ROUNDS));
    for (_, stopwatch) in &short {
        let stopwatch = stopwatch.clone();
        tokio::spawn(async move { stopwatch.expired().await });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let start = Instant::now();
    controller.apply(&state(0, 10 * ROUNDS + 1));
    println!("resume, all {STOPWATCHES} waiters frozen: {:?}", start.elapsed());
    for (_, stopwatch) in &short {
        stopwatch.expired().await;
    }
    println!("until the last of them has expired: {:?}", start.elapsed());
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

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {median:?}, max {most:?}, of {} rounds", times.len());
}

/// Bytes of resident memory; 0 where that cannot be read.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 4_096
}
