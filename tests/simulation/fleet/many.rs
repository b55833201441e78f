//! Many runs, on all cores.
use super::run::{Course, LONG_EVERY, LONG_THREAD_HOURS, run};
use super::world::Broken;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

/// Events that each set of runs must contain. Without this check, the simulation could stop testing them unnoticed.
const MUST_HAPPEN: [&str; 20] = [
    "attempts at etcd that were in doubt",
    "broken watches",
    "calls that were made again for want of an answer",
    "changes that were acknowledged",
    "compactions",
    "cuts between a client and a replica",
    "cuts between a replica and etcd",
    "cuts between two replicas",
    "drains of a replica",
    "kills of a replica",
    "leases that ended",
    "members of etcd that stand still",
    "messages that came late",
    "reads",
    "states that watchers were told",
    "stops of a replica",
    "streams that ended because the replica was not fresh",
    "takeovers",
    "times without a leader of etcd",
    "wall clocks that are set",
];

/// The totals of a set of runs.
#[derive(Default)]
struct Sum {
    runs: usize,
    counts: BTreeMap<&'static str, u64>,
    thread_hours: f64,
    /// The seeds that failed, with the violations.
    failed: Vec<(u64, String)>,
}

/// Runs seeds from `first` on until at least this many thread-hours are simulated. The ratio of long to short runs is
/// fixed, so the number of faults in a thread-hour does not depend on the total.
///
/// # Panics
/// If a seed violates an invariant: all failures until then are printed, with how to replay each. Or if too little was
/// simulated.
pub(super) fn run_many(first: u64, thread_hours: u64) {
    let long = thread_hours.div_ceil(LONG_THREAD_HOURS);
    let mut seeds: Vec<_> = (first..first + long * LONG_EVERY).collect();
    // The long runs come first, so that no core waits for another at the end.
    seeds.sort_by_key(|seed| !seed.is_multiple_of(LONG_EVERY));
    let (began, next, sum) = (Instant::now(), AtomicUsize::default(), Mutex::new(Sum::default()));
    let run_some = || {
        while sum.lock().expect("no panic while locked").failed.is_empty()
            && let Some(seed) = seeds.get(next.fetch_add(1, SeqCst))
        {
            let course = catch_unwind(|| run(*seed, Broken::Nothing));
            sum.lock().expect("no panic while locked").add(*seed, course);
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| _ = scope.spawn(run_some));
    });
    let Sum { runs, counts, thread_hours: simulated, failed } = sum.into_inner().expect("no panic while locked");
    let seconds = began.elapsed().as_secs();
    println!("{simulated:.0} thread-hours in {runs} runs from seed {first} on, in {seconds} s");
    counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
    assert!(failed.is_empty(), "{}", failed.iter().map(|(seed, why)| failure(*seed, why)).collect::<String>());
    assert!(simulated >= thread_hours as f64, "{simulated:.0} thread-hours were simulated, of {thread_hours}");
    for what in MUST_HAPPEN {
        assert!(counts.contains_key(what), "the simulation did not contain: {what}");
    }
}

/// The message for a seed that fails.
pub(super) fn failure(seed: u64, why: &str) -> String {
    format!(
        "seed {seed}: {why}\nreplay: PAUSEWATCH_FLEET_SEED={seed} cargo test --all-features --test simulation fleet -- --nocapture\n"
    )
}

impl Sum {
    fn add(&mut self, seed: u64, course: Result<Course, Box<dyn Any + Send>>) {
        self.runs += 1;
        match course {
            Ok(Course { violation: Some(violation), .. }) => self.failed.push((seed, violation)),
            Ok(course) => {
                course.counts.iter().for_each(|(what, count)| *self.counts.entry(*what).or_default() += count);
                self.thread_hours += course.thread_hours;
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                self.failed.push((seed, format!("it panicked: {}", text.unwrap_or("see above"))));
            }
        }
    }
}
