//! All replicas were down, and the first one starts: the time until it answers.
use crate::etcd::{Cluster, answers};
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::threads;
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::core::types::ThreadId;
use pausewatch::test_support::core::{Header, Pause};
use pausewatch::test_support::etcd::Fleet;
use pausewatch::test_support::store::{Store, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

const METRIC: &str = "answers after, s";
/// The number of threads, the number of starts, and the maximum time of one in seconds.
const SIZES: [(&str, usize, usize, f64); 2] =
    [("cold start, 100,000 threads", 100_000, 5, 1.5), ("cold start, 1,000,000 threads", 1_000_000, 2, 15.0)];
const BATCH: usize = 2_000;

pub(super) fn measure(settings: &Settings, table: &mut Table, column: &str) -> Result<()> {
    for (case, count, starts, _) in SIZES {
        let cluster = Cluster::start(settings, 3)?;
        eprintln!("fleet: {count} threads into etcd");
        fill(&cluster, count)?;
        for start in 1..=starts {
            eprintln!("fleet: {case}, {start} of {starts}");
            let begin = Instant::now();
            let replica = cluster.replica(settings)?;
            answers(&replica)?;
            table.add((case, METRIC, column), begin.elapsed().as_secs_f64());
            let resident = crate::measure::resident(replica.pid())?;
            table.add((case, "memory of the replica, MiB", column), resident / f64::from(1 << 20));
            replica.terminate()?;
        }
    }
    Ok(())
}

pub(super) fn goals(table: &mut Table, column: &str) {
    for (case, _, _, most) in SIZES {
        table.goal_at_most(case, (case, METRIC, column), most, "s");
    }
}

/// A fleet whose threads have each been paused for a second.
fn fill(cluster: &Cluster, count: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let clock = Arc::new(System::new());
    let (config, machine) = (cluster.config(), clock.clone());
    let term = runtime.block_on(async move {
        let fleet = Fleet::join(&config, machine).await?;
        let term = fleet.lead("127.0.0.1:1").await?;
        crate::result::Result::Ok(term)
    })?;
    let (mut store, now) = (term.store, clock.now());
    store.load(now)?;
    let pause = Pause { accrued: Duration::from_secs(1), since: None };
    let header = Header { revision: 2, pause, changed: now };
    let ids = (0..count).map(|number| ThreadId::parse("thread_id", &threads::id(number)));
    let ids = ids.collect::<std::result::Result<Vec<_>, _>>()?;
    for some in ids.chunks(BATCH) {
        let batch: Vec<_> = some.iter().map(|thread| Write::PutThread(thread, &header)).collect();
        store.commit(&batch)?;
    }
    // This gives up the leadership.
    drop(store);
    runtime.block_on(term.ended)?;
    Ok(())
}
