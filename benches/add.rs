//! `add`: the time until threads that are added to a stream of `Watch` are watched.
use crate::grpc::Link;
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::Target;
use crate::threads;
use std::time::Instant;

const THREADS: usize = 5_000;
/// The number of threads that one request adds.
const AT_ONCE: usize = 500;
/// The number of threads that are added one by one, on a stream that has the others.
const ONE_BY_ONE: usize = 1_000;

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let mut table = Table::new("add: threads that are added to one stream of Watch, durable", [COLUMN]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for run in 1..=settings.runs {
        eprintln!("add: run {run} of {}", settings.runs);
        let server = Target::Changing.start(settings)?;
        runtime.block_on(async {
            let mut stream = Link::connect(server.address(), true, None).await?.changing().await?;
            let begin = Instant::now();
            for first in (0..THREADS).step_by(AT_ONCE) {
                stream.add((first..first + AT_ONCE).map(threads::id).collect()).await?;
            }
            table.add((ALL, "ms", COLUMN), begin.elapsed().as_secs_f64() * 1e3);
            let mut latencies = Latencies::default();
            for number in THREADS..THREADS + ONE_BY_ONE {
                let begin = Instant::now();
                stream.add(vec![threads::id(number)]).await?;
                latencies.record(begin.elapsed());
            }
            let [p50, p99] = latencies.percentiles([50.0, 99.0]);
            table.add((ONE, "p50, us", COLUMN), p50);
            table.add((ONE, "p99, us", COLUMN), p99);
            Result::Ok(())
        })?;
    }
    table.goal_at_most("5,000 threads are watched", (ALL, "ms", COLUMN), 1_000.0, "ms");
    table.goal_at_most("one more thread is watched", (ONE, "p99, us", COLUMN), 5_000.0, "us");
    table.note("Requests of 500 threads, each sent when the one before is answered.");
    Ok(table)
}

const COLUMN: &str = "embedded";
const ALL: &str = "5,000 threads";
const ONE: &str = "one more";
