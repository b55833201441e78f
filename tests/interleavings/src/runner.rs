//! Runs the cases under many schedules, or one of them under the schedule that failed.
use shuttle::{
    Config, FailurePersistence, MaxSteps, Runner,
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Schedule, Scheduler, Task, TaskId},
};
use std::{
    env, fs,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Instant,
};

/// A case that is run under many schedules.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
    /// How many times more schedules it gets than others: small cases can run more.
    pub(crate) share: usize,
}

/// The number of schedules of each kind, for a share of one.
const ITERATIONS: usize = 10_000;
/// A case takes a few hundred steps; with this many, it is in an endless loop.
const MOST_STEPS: usize = 100_000;
/// Without optimization, the sources need deep stacks.
const STACK: usize = 256 << 10;
/// The number of priority changes in a schedule of the second kind: bugs that need more are rare.
const DEPTH: usize = 3;

const USAGE: &str = "usage: tests/interleavings/run [NAME]...           the cases whose names contain one; none: all
       tests/interleavings/run --replay NAME FILE    one case under the schedule that failed
environment: ITERATIONS (schedules a case, times its share), SEED";

pub(crate) fn run(cases: &[Case]) -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--replay", name, file] => match cases.iter().find(|case| case.name == *name) {
            Some(case) => replay(case, file),
            None => usage(),
        },
        [option, ..] if option.starts_with('-') => usage(),
        names => {
            let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| case.name.contains(name));
            explore(&cases.iter().filter(wanted).collect::<Vec<_>>())
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
        Err(_) => default,
    }
}

/// Each case starts at time 0, and with the same random numbers for the sources' retry delays.
fn execution(case: &Case) -> impl Fn() + Send + Sync + 'static {
    let run = case.run;
    move || {
        tokio::time::reset();
        fastrand::seed(1);
        run();
    }
}

fn config(failures: FailurePersistence) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = failures;
    // It would warn that it treats every atomic as SeqCst. The atomics of the sources are only hints, which are read
    // again under a lock.
    config.silence_warnings = true;
    config
}

fn replay(case: &Case, file: &str) -> ExitCode {
    let schedule = ReplayScheduler::new_from_file(file).unwrap_or_else(|error| panic!("read {file}: {error}"));
    Runner::new(schedule, config(FailurePersistence::None)).run(execution(case));
    println!("{} passes under the schedule of {file}", case.name);
    ExitCode::SUCCESS
}

/// Runs two cases at a time, one on each core.
fn explore(cases: &[&Case]) -> ExitCode {
    let (seed, iterations) = (number("SEED", 1), number("ITERATIONS", ITERATIONS as u64) as usize);
    println!("SEED={seed} ITERATIONS={iterations}");
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, SeqCst)) {
            let start = Instant::now();
            match in_its_own_thread(|| explore_one(case, seed, iterations * case.share)) {
                Ok(schedules) => {
                    println!("{schedules:>8} schedules  {:>5.1?} s  {}", start.elapsed().as_secs_f32(), case.name)
                }
                Err(_) => {
                    failed.fetch_add(1, SeqCst);
                    println!("FAILED  {0}: replay it by tests/interleavings/run --replay {0} FILE", case.name);
                    println!("        FILE: the failing schedule that was named on standard error");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    match failed.into_inner() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A failed task is never unwound completely, and its thread counts as panicking from then on.
fn in_its_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
    std::thread::scope(|scope| scope.spawn(work).join())
}

fn explore_one(case: &Case, seed: u64, iterations: usize) -> usize {
    // First any task at each step; then priorities with a few changes, which finds bugs that need one task to be
    // delayed for long.
    under(case, RandomScheduler::new_from_seed(seed, iterations))
        + under(case, PctScheduler::new_from_seed(seed, DEPTH, iterations))
}

fn under(case: &Case, scheduler: impl Scheduler + 'static) -> usize {
    let directory = env::var_os("SCHEDULES").map_or_else(env::temp_dir, PathBuf::from);
    fs::create_dir_all(&directory).expect("the directory of the failing schedules can be made");
    let patient = Patient { scheduler, last: Vec::new() };
    Runner::new(patient, config(FailurePersistence::File(Some(directory)))).run(execution(case))
}

/// A task that yields lets all others run first, until none of them can. So a case can wait until all tasks wait.
struct Patient<S> {
    scheduler: S,
    /// The tasks that have yielded.
    last: Vec<TaskId>,
}

impl<S: Scheduler> Scheduler for Patient<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.last.clear();
        self.scheduler.new_execution()
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        self.last.extend(current.filter(|_| is_yielding));
        let others: Vec<_> = runnable.iter().copied().filter(|task| !self.last.contains(&task.id())).collect();
        if others.is_empty() {
            self.last.clear();
            return self.scheduler.next_task(runnable, current, false);
        }
        self.scheduler.next_task(&others, current, false)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
