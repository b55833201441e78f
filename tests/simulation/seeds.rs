//! Many runs, on all cores, for a number of seeds or for a time.
use crate::run::{self, Outcome};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What one call of the test does unless told otherwise: whichever comes first.
const SEEDS: u64 = 200;
const TIME: Duration = Duration::from_secs(3 * 60);

/// What each set of runs must have seen, lest the simulation goes blind.
const MUST_HAPPEN: [&str; 24] = [
    "batches that the store refused",
    "breaks of a watch",
    "calls made again with the same request id",
    "calls made twice at once",
    "calls that failed for want of an answer",
    "commands that ended in time",
    "crashes of a holder",
    "crashes of a watcher",
    "crashes of an exec server",
    "cuts that hold what is sent",
    "cuts that lose the answers",
    "cuts that lose what is sent",
    "increments that were acknowledged",
    "kills of the server",
    "looks at a stopwatch that is connected",
    "pauses that a lease ended",
    "power cuts of the server",
    "reads of a thread",
    "sleeps of the machine",
    "slow reads of a watch",
    "stopwatches that expired",
    "stopwatches that expired cut off",
    "times in which the store refuses",
    "wall clock set",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Runs seeds until there are enough, or one fails.
pub(crate) fn run_all() {
    if let Some(seed) = number("PAUSEWATCH_SIM_SEED") {
        let outcome = run::run(seed);
        outcome.course.lines.iter().for_each(|line| println!("{line}"));
        println!("course {:016x}: {:#?}", outcome.course.hash(), outcome.course.counts);
        return report(seed, &outcome);
    }
    let seconds = number("PAUSEWATCH_SIM_SECONDS");
    let (seeds, time) = seconds.map_or((SEEDS, TIME), |seconds| (u64::MAX, Duration::from_secs(seconds)));
    // For longer runs, others than last time.
    let first = if seconds.is_some() { fastrand::u64(..1 << 40) } else { 1 };
    let began = Instant::now();
    let (next, counts) = (AtomicU64::new(0), Mutex::new(BTreeMap::<&str, u64>::new()));
    let failed = Mutex::new(None::<(u64, Outcome)>);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while began.elapsed() < time && failed.lock().expect("no panic while locked").is_none() {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= seeds {
                        return;
                    }
                    let outcome = run_one(first + number);
                    let mut counts = counts.lock().expect("no panic while locked");
                    outcome.course.counts.iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
                    *counts.entry("runs").or_default() += 1;
                    if !outcome.course.violations.is_empty() {
                        *failed.lock().expect("no panic while locked") = Some((first + number, outcome));
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().expect("no panic while locked");
    counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
    if let Some((seed, outcome)) = failed.into_inner().expect("no panic while locked") {
        return report(seed, &outcome);
    }
    for what in MUST_HAPPEN {
        assert!(counts.contains_key(what), "the simulation has gone blind: no {what}");
    }
}

/// A run on a thread of its own: what a thread keeps of one must not leak into the next.
fn run_one(seed: u64) -> Outcome {
    let run = || catch_unwind(AssertUnwindSafe(|| run::run(seed)));
    let outcome = thread::scope(|scope| scope.spawn(run).join().expect("the panic was caught"));
    outcome.unwrap_or_else(|_| panic!("seed {seed} panicked; replay it with {}", replay(seed)))
}

fn replay(seed: u64) -> String {
    format!("PAUSEWATCH_SIM_SEED={seed} cargo test --test simulation guarantees -- --nocapture")
}

fn report(seed: u64, outcome: &Outcome) {
    let Some(first) = outcome.course.violations.first() else { return };
    let tail = &outcome.course.lines[outcome.course.lines.len().saturating_sub(40)..];
    panic!("seed {seed}: {first}\nreplay: {}\nthe end of its course:\n{}", replay(seed), tail.join("\n"));
}
