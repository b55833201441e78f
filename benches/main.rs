//! Measures the figures of `docs/performance.md`, each compared with an alternative in the same run.
//!
//! `benches/run` starts it; `benches/run --help` lists the benchmarks. All are in one program, because they share the
//! counting and the tables, and the coordinator is linked only once.
//!
//! 1. Alternatives are measured in turns (target by target, again for each run), so that a machine that becomes slower
//!    affects all of them alike. A ratio is the median of the ratios of the runs.
//! 2. Every measurement has its own server: a process, on loopback, with its data on the disk of the target directory.
//! 3. A figure is printed only if no call was refused, lost or counted incorrectly.
mod add;
mod board;
mod calls;
mod client_timeouts;
mod clients;
mod etcd;
mod exec;
mod fleet;
mod fleet_of_one;
mod grpc;
mod history;
mod hostile;
mod idle;
mod leases;
mod limit;
mod link;
mod measure;
mod pages;
mod plots;
mod points;
mod process;
mod propagation;
mod redis;
mod result;
mod settings;
mod sink;
mod start;
mod stopwatch;
mod stores;
mod storm;
mod subscribers;
mod table;
mod target;
mod threads;
mod watch;

use result::Result;
use settings::Settings;
use std::process::ExitCode;

const NAMES: [&str; 17] = [
    "calls",
    "hostile",
    "propagation",
    "watch",
    "fleet-of-one",
    "storm",
    "fleet",
    "pages",
    "add",
    "idle",
    "leases",
    "start",
    "stores",
    "stopwatch",
    "history",
    "exec",
    "clients",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes --bench; `cargo test --all-targets` does not, and tests measure nothing.
    if let [kind, address, tls @ ..] = &args[..]
        && let Some(raw) = limit::kind(kind)
    {
        return ended(kind, limit::serve(raw, address, tls));
    }
    if !args.iter().any(|arg| arg == "--bench") {
        return match args.first().map(String::as_str) {
            Some("plots") => ended("plots", plots::draw()),
            _ => {
                println!("Nothing is measured here: benches/run does. The plots are compared with their values.");
                ended("plots", plots::check())
            }
        };
    }
    let named: Vec<_> = args.iter().filter(|arg| *arg != "--bench").map(String::as_str).collect();
    if let Some(unknown) = named.iter().find(|name| !NAMES.contains(name)) {
        eprintln!("no benchmark {unknown}; there are: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    let all = if named.is_empty() { &NAMES[..] } else { &named };
    all.iter().map(|name| ended(name, run(name))).find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

fn run(name: &str) -> Result<()> {
    process::raise_open_files();
    let settings = Settings::from_environment()?;
    let table = match name {
        "calls" => calls::run(&settings),
        "hostile" => hostile::run(&settings),
        "propagation" => propagation::run(&settings),
        "watch" => watch::run(&settings),
        "fleet-of-one" => fleet_of_one::run(&settings),
        "storm" => storm::run(&settings),
        "fleet" => fleet::run(&settings),
        "pages" => pages::run(&settings),
        "add" => add::run(&settings),
        "idle" => idle::run(&settings),
        "leases" => leases::run(&settings),
        "start" => start::run(&settings),
        "stores" => stores::run(&settings),
        "stopwatch" => stopwatch::run(),
        "history" => history::run(),
        "exec" => exec::run(&settings),
        _ => clients::run(&settings),
    }?;
    println!("{table}");
    Ok(())
}

fn ended(name: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |cause| cause.source());
            let causes: String = causes.map(|cause| format!(": {cause}")).collect();
            eprintln!("{name}: {error}{causes}");
            ExitCode::FAILURE
        }
    }
}
