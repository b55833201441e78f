//! `stores`: the cost of making changes durable, in our store and in the alternatives.
//!
//! A change is what an increment stores: a thread's header and an elicitation, some 200 bytes, of a random thread.
use crate::measure::{Latencies, own_cpu_seconds};
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::threads;
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Elicitation, Header, Open, Pause, Timestamp};
use pausewatch::test_support::store::{Embedded, Store, Write};
use redb::{Database, TableDefinition};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: u64 = 10_000;
/// The bytes of a change in stores with another format.
const CHANGE: usize = 200;
/// The number of changes in a batch.
const BATCHES: [usize; 2] = [1, 128];
/// The size of the file that is filled beforehand and overwritten, as a file of our journal.
const FILLED: usize = 1 << 20;
const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");

/// Makes a batch durable. The arguments are the number of its first change, and its threads.
type Commit = Box<dyn FnMut(u64, &[u64]) -> Result<()>>;
type OpenStore = fn(&Path) -> Result<Commit>;

const STORES: [(&str, OpenStore); 4] = [
    ("embedded", embedded),
    ("redb alone", redb_alone),
    ("append, fdatasync", append),
    ("append into a filled file", append_filled),
];

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let title = "stores: one thread, one durable batch after the other";
    let mut table = Table::new(title, STORES.map(|(name, _)| name));
    for run in 1..=settings.runs {
        eprintln!("stores: run {run} of {}", settings.runs);
        for batch in BATCHES {
            for (name, open) in STORES {
                let data = settings.data_dir()?;
                let (mut times, cpu) = measure(open(data.path())?, batch, settings.per_case)?;
                let case = format!("{batch} change{} a batch", if batch == 1 { "" } else { "s" });
                let [p50, p99] = times.percentiles([50.0, 99.0]);
                table.add((&case, "p50, us", name), p50);
                table.add((&case, "p99, us", name), p99);
                let changes = times.count() * batch as f64;
                table.add((&case, "CPU, s / 100,000 changes", name), cpu / changes * 1e5);
            }
        }
    }
    Ok(table)
}

fn measure(mut commit: Commit, batch: usize, time: Duration) -> Result<(Latencies, f64)> {
    let (mut times, mut next, mut random) = (Latencies::default(), 0, 0x9E37_79B9_7F4A_7C15_u64);
    let (begin, before) = (Instant::now(), own_cpu_seconds());
    let mut threads = Vec::with_capacity(batch);
    while begin.elapsed() < time {
        threads.clear();
        threads.extend((0..batch).map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % THREADS
        }));
        let start = Instant::now();
        commit(next, &threads)?;
        times.record(start.elapsed());
        next += batch as u64;
    }
    Ok((times, own_cpu_seconds() - before))
}

fn embedded(directory: &Path) -> Result<Commit> {
    let clock = System::new();
    let mut store = Embedded::open(directory, clock.boot_id())?;
    let now = clock.now();
    store.load(now)?;
    let ids = (0..THREADS).map(|number| ThreadId::parse("thread_id", &threads::id(number as usize)));
    let ids: Vec<_> = ids.collect::<std::result::Result<_, _>>()?;
    Ok(Box::new(move |first, threads| {
        let changes = threads.iter().zip(first..).map(|(&thread, row)| (&ids[thread as usize], increment(row, now)));
        let changes: Vec<_> = changes.collect();
        let writes = changes.iter().flat_map(|(thread, (header, open))| {
            [Write::PutThread(thread, header), Write::PutElicitation(thread, open)]
        });
        Ok(store.commit(&writes.collect::<Vec<_>>())?)
    }))
}

/// The rows of a thread after an increment.
fn increment(row: u64, now: Timestamp) -> (Header, Open) {
    let pause = Pause { accrued: Duration::from_secs(1), since: Some(now) };
    let elicitation = Elicitation {
        id: ElicitationId(row.into()),
        reason: "May I download the history of your credit card?".into(),
        holder: "approve on desk-17 (12345)".into(),
        created: now,
    };
    let lease = Some((Duration::from_secs(30), now.after(Duration::from_secs(30))));
    let open = Open { elicitation: Arc::new(elicitation), lease, anonymous: false, row };
    (Header { revision: row + 1, pause, changed: now }, open)
}

fn redb_alone(directory: &Path) -> Result<Commit> {
    let database = Database::create(directory.join("redb"))?;
    Ok(Box::new(move |_, threads| {
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for thread in threads {
                table.insert(thread, &[7; CHANGE][..])?;
            }
        }
        Ok(transaction.commit()?)
    }))
}

/// The content of a batch in stores without a format.
fn bytes(threads: &[u64]) -> Vec<u8> {
    threads.iter().flat_map(|thread| thread.to_be_bytes().into_iter().chain([7; CHANGE])).collect()
}

fn append(directory: &Path) -> Result<Commit> {
    let mut file = File::create(directory.join("log"))?;
    Ok(Box::new(move |_, threads| {
        file.write_all(&bytes(threads))?;
        Ok(file.sync_data()?)
    }))
}

fn append_filled(directory: &Path) -> Result<Commit> {
    let file = File::create(directory.join("log"))?;
    file.write_all_at(&vec![0; FILLED], 0)?;
    file.sync_all()?;
    let mut end = 0;
    Ok(Box::new(move |_, threads| {
        let bytes = bytes(threads);
        if end + bytes.len() > FILLED {
            end = 0;
        }
        file.write_all_at(&bytes, end as u64)?;
        end += bytes.len();
        Ok(file.sync_data()?)
    }))
}
