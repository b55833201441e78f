//! `start`: the cost of putting `hold` or `run` before a command, and how soon a server with many threads listens.
use crate::measure::Latencies;
use crate::process::{Process, serve};
use crate::result::Result;
use crate::settings::Settings;
use crate::table::{Cell, Table};
use crate::{grpc, threads};
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::core::types::ThreadId;
use pausewatch::test_support::core::{Header, Pause};
use pausewatch::test_support::store::{Embedded, Store, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 100;
const STARTS: usize = 11;
/// Stores with this many threads, each with its cases: after SIGTERM, and after kill -9.
const STORES: [(usize, [&str; 2]); 2] = [(100_000, [TERM, KILL]), (1_000_000, [TERM_OF_MANY, KILL_OF_MANY])];
/// Pairs of calls before each end of the server, so that the journal has entries to recover after a crash.
const CALLS: usize = 5_000;

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let title = format!("start: {ROUNDS} rounds of each command in turn; {STARTS} starts of the server");
    let mut table = Table::new(title, ["plain", "pausewatch"]);
    commands(settings, &mut table)?;
    servers(settings, &mut table)?;
    table.goal_at_most("`hold -- true`, more than `true`", (HOLD, MORE, "pausewatch"), 3.0, "ms");
    table.goal_at_most("`run 10s true`, more than `timeout 10s true`", (RUN, MORE, "pausewatch"), 2.0, "ms");
    table.goal_at_most("listens, 100,000 threads, after SIGTERM", (TERM, P50, "pausewatch"), 200.0, "ms");
    table.goal_at_most("listens, 100,000 threads, after kill -9", (KILL, P50, "pausewatch"), 200.0, "ms");
    table.goal_at_most("listens, 1,000,000 threads, after SIGTERM", (TERM_OF_MANY, P50, "pausewatch"), 1_000.0, "ms");
    table.goal_at_most("listens, 1,000,000 threads, after kill -9", (KILL_OF_MANY, P50, "pausewatch"), 1_000.0, "ms");
    table.note(
        "plain: `true`, and `timeout 10s true`. The coordinator of `hold` is durable; `run` starts a private one.",
    );
    Ok(table)
}

const HOLD: &str = "`hold -- true`";
const RUN: &str = "`run 10s true`";
const EMPTY: &str = "`serve`, new store";
const TERM: &str = "`serve`, 100,000 threads, after SIGTERM";
const KILL: &str = "`serve`, 100,000 threads, after kill -9";
const TERM_OF_MANY: &str = "`serve`, 1,000,000 threads, after SIGTERM";
const KILL_OF_MANY: &str = "`serve`, 1,000,000 threads, after kill -9";
const P50: &str = "p50, ms";
const MORE: &str = "more at p50, ms";

fn commands(settings: &Settings, table: &mut Table) -> Result<()> {
    let data = settings.data_dir()?;
    let mut coordinator = serve(&settings.program, &["--data-dir"]);
    coordinator.arg(data.path().join("store"));
    let coordinator = Process::listening(coordinator)?;
    let plain = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    let ours = |words: &[&str]| {
        let mut command = Command::new(&settings.program);
        // The environment of the person who measures has no effect: no address, no config file.
        command.args(words).env("XDG_CONFIG_HOME", data.path());
        for name in ["ADDRESS", "THREAD_ID", "CONFIG", "TOKEN", "TLS_CA", "TLS_CERT", "TLS_KEY"] {
            command.env_remove(format!("PAUSEWATCH_{name}"));
        }
        command.env_remove("CODEX_THREAD_ID").env_remove("CLAUDE_CODE_SESSION_ID");
        command
    };
    let mut hold = ours(&["hold", "--require", "--", "true"]);
    hold.env("PAUSEWATCH_ADDRESS", &coordinator.address).env("PAUSEWATCH_THREAD_ID", "t");
    let mut pairs =
        [(HOLD, plain(&["true"]), hold), (RUN, plain(&["timeout", "10s", "true"]), ours(&["run", "10s", "true"]))];
    eprintln!("start: commands");
    let mut times: [[Latencies; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (pair, (_, plain, ours)) in pairs.iter_mut().enumerate() {
            times[pair][0].record(time(plain)?);
            times[pair][1].record(time(ours)?);
        }
    }
    for ((case, ..), [mut plain, mut ours]) in pairs.iter().zip(times) {
        let least = add(table, case, "plain", &mut plain);
        let most = add(table, case, "pausewatch", &mut ours);
        table.add((case, MORE, "pausewatch"), most - least);
    }
    Ok(())
}

/// The time from before the command starts until its end is known.
fn time(command: &mut Command) -> Result<Duration> {
    let begin = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    let time = begin.elapsed();
    match status.success() {
        true => Ok(time),
        false => Err(format!("{command:?}: {status}").into()),
    }
}

/// Adds p50 and p90, in milliseconds; returns p50.
fn add(table: &mut Table, case: &str, column: &str, times: &mut Latencies) -> f64 {
    let [p50, p90] = times.percentiles([50.0, 90.0]).map(|us| us / 1_000.0);
    let cell = |metric| -> Cell<'_> { (case, metric, column) };
    table.add(cell(P50), p50);
    table.add(cell("p90, ms"), p90);
    p50
}

fn servers(settings: &Settings, table: &mut Table) -> Result<()> {
    let mut empty = Latencies::default();
    for _ in 0..STARTS {
        listen(settings, settings.data_dir()?.path(), &mut empty)?.terminate()?;
    }
    add(table, EMPTY, "pausewatch", &mut empty);
    for (threads, [term, kill]) in STORES {
        let (mut after_term, mut after_kill) = Default::default();
        let data = settings.data_dir()?;
        eprintln!("start: a store of {threads} threads");
        fill(data.path(), threads)?;
        for start in 0..STARTS {
            eprintln!("start: server, {} of {STARTS}", start + 1);
            let mut server = listen(settings, data.path(), &mut after_term)?;
            call(&server)?;
            server.kill();
            let server = listen(settings, data.path(), &mut after_kill)?;
            call(&server)?;
            server.terminate()?;
        }
        add(table, term, "pausewatch", &mut after_term);
        add(table, kill, "pausewatch", &mut after_kill);
    }
    Ok(())
}

fn listen(settings: &Settings, data: &Path, times: &mut Latencies) -> Result<Process> {
    let mut command = serve(&settings.program, &["--data-dir"]);
    command.arg(data);
    let begin = Instant::now();
    let process = Process::listening(command)?;
    times.record(begin.elapsed());
    Ok(process)
}

/// A store whose threads have each been paused for a second.
fn fill(directory: &Path, threads: usize) -> Result<()> {
    let clock = System::new();
    let mut store = Embedded::open(directory, clock.boot_id())?;
    let now = clock.now();
    store.load(now)?;
    let pause = Pause { accrued: Duration::from_secs(1), since: None };
    let header = Header { revision: 2, pause, changed: now };
    let threads = (0..threads).map(|number| ThreadId::parse("thread_id", &threads::id(number)));
    let threads = threads.collect::<std::result::Result<Vec<_>, _>>()?;
    for some in threads.chunks(1_000) {
        let batch: Vec<_> = some.iter().map(|thread| Write::PutThread(thread, &header)).collect();
        store.commit(&batch)?;
    }
    Ok(())
}

/// Pauses and resumes some of the threads.
fn call(server: &Process) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let link = grpc::Link::connect(&server.address, false, None).await?;
        let callers = (0..64).map(|caller| {
            let mut link = link.clone();
            tokio::spawn(async move {
                for number in (caller..CALLS).step_by(64) {
                    link.call(&threads::id(number * 7), true).await?;
                    link.call(&threads::id(number * 7), false).await?;
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await??;
        }
        Ok(())
    })
}
