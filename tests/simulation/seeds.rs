//! Many runs, each in its own process, on all cores: a number of seeds, or for some time.
use crate::run;
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The default of one call of the test: this many seeds or this time, whichever comes first. On a busy machine it
/// continues until it has seen everything in `MUST_HAPPEN`.
const SEEDS: u64 = 200;
const TIME: Duration = Duration::from_secs(3 * 60);
/// Names the one seed to run.
const SEED: &str = "PAUSEWATCH_SIM_SEED";
/// The start of a line with a count.
const COUNT: &str = "counted ";

/// Events that each set of runs must contain. Without this check, the simulation could stop testing them unnoticed.
const MUST_HAPPEN: [&str; 32] = [
    "batches that the store refused",
    "breaks of a watch",
    "calls made again with the same request id",
    "calls made twice at once",
    "calls that failed for want of an answer",
    "commands that ended in time",
    "commands that wait for a thread that never was",
    "commands that wait for other threads",
    "crashes of a holder",
    "crashes of a watcher",
    "crashes of an exec server",
    "cuts that hold what is sent",
    "cuts that lose the answers",
    "cuts that lose what is sent",
    "elicitations of an awaited thread that the maximum pause ended",
    "elicitations that the maximum pause ended",
    "increments that were acknowledged",
    "kills of the server",
    "looks at a stopwatch that is connected",
    "pauses that a lease ended",
    "pauses of an awaited thread that a lease ended",
    "pauses of an awaited thread whose holder died",
    "power cuts of the server",
    "reads of a thread",
    "sleeps of the machine",
    "slow reads of a watch",
    "stopwatches of several threads that expired",
    "stopwatches that expired",
    "stopwatches that expired cut off",
    "stopwatches that the limit on wall time ended",
    "times in which the store refuses",
    "wall clock set",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Runs seeds until there are enough, or until one fails; in the process of one seed, runs only that.
pub(crate) fn run_all() {
    match number(SEED) {
        Some(seed) => run_here(seed),
        None => run_many(),
    }
}

/// Runs a seed in this process, and prints what happened.
fn run_here(seed: u64) {
    let course = run::run(seed);
    course.lines.iter().for_each(|line| println!("{line}"));
    course.counts.iter().for_each(|(what, count)| println!("{COUNT}{count} {what}"));
    let violation = course.violations.first();
    assert!(violation.is_none(), "seed {seed}: {}\nreplay: {}", violation.expect("there is one"), replay(seed));
}

/// Runs a seed in its own process: no state of one run reaches the next, so a replay is the same.
pub(crate) fn run_in_process(seed: u64) -> Output {
    let mut this = Command::new(std::env::current_exe().expect("this test is a program"));
    this.args(["guarantees_hold_under_faults", "--exact", "--nocapture"]).env(SEED, seed.to_string());
    this.output().expect("it starts again")
}

fn run_many() {
    let seconds = number("PAUSEWATCH_SIM_SECONDS");
    let (seeds, time) = seconds.map_or((SEEDS, TIME), |seconds| (u64::MAX, Duration::from_secs(seconds)));
    // A longer test starts from a random seed each time.
    let first = if seconds.is_some() { fastrand::u64(..1 << 40) } else { 1 };
    let (began, next) = (Instant::now(), AtomicU64::new(0));
    let (counts, failed) = (Mutex::new(BTreeMap::<String, u64>::new()), Mutex::new(None));
    let run_some = || {
        while failed.lock().expect("no panic while locked").is_none() {
            let is_blind = || {
                let counts = counts.lock().expect("no panic while locked");
                MUST_HAPPEN.iter().any(|what| !counts.contains_key(*what))
            };
            let number = next.fetch_add(1, Relaxed);
            if number >= seeds || (began.elapsed() >= time && (number >= SEEDS || !is_blind())) {
                return;
            }
            let output = run_in_process(first + number);
            let mut counts = counts.lock().expect("no panic while locked");
            let text = String::from_utf8_lossy(&output.stdout);
            for (count, what) in text.lines().filter_map(|line| line.strip_prefix(COUNT)?.split_once(' ')) {
                *counts.entry(what.to_owned()).or_default() += count.parse::<u64>().expect("a count");
            }
            *counts.entry("runs".into()).or_default() += 1;
            if !output.status.success() {
                *failed.lock().expect("no panic while locked") = Some((first + number, output));
            }
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| _ = scope.spawn(run_some));
    });
    let counts = counts.into_inner().expect("no panic while locked");
    counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
    if let Some((seed, output)) = failed.into_inner().expect("no panic while locked") {
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        panic!("seed {seed} failed:\n{text}\nreplay: {}", replay(seed));
    }
    for what in MUST_HAPPEN {
        assert!(counts.contains_key(what), "the simulation did not contain: {what}");
    }
}

fn replay(seed: u64) -> String {
    format!("{SEED}={seed} cargo test --test simulation guarantees -- --nocapture")
}
