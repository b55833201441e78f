//! `history`: the hub's cost of storing a pause that has ended, and of searching all stored ones.
use crate::result::Result;
use crate::table::Table;
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{Elicitation, Header, Pause, PauseEnd, Timestamp};
use pausewatch::test_support::hub::{ClosedElicitation, Committed, Event, History, Hub, PauseFilter};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const COLUMN: &str = "pausewatch";
const THREADS: usize = 1_000;
const PAUSES: i64 = 1_000_000;
const READS: u32 = 1_000;

pub(crate) fn run() -> Result<Table> {
    eprintln!("history: {PAUSES} pauses");
    let mut table = Table::new("history: pauses that have ended, texts of 100 bytes", [COLUMN]);
    let threads = (0..THREADS).map(|i| ThreadId::parse("", &format!("conversation-{i}")));
    let threads = threads.collect::<std::result::Result<Vec<_>, _>>()?;
    keep(&threads, &mut table);
    read(&threads, &mut table)?;
    table.goal_at_most("a pause that is kept", (KEPT, NANOSECONDS, COLUMN), 500.0, "ns");
    Ok(table)
}

const KEPT: &str = "one is kept, the oldest gives way";
const NANOSECONDS: &str = "ns";

fn at(nanos: i64) -> Timestamp {
    Timestamp { boot: nanos, wall: nanos }
}

fn elicitation(id: i64) -> Arc<Elicitation> {
    Arc::new(Elicitation {
        id: ElicitationId(id.unsigned_abs().into()),
        reason: "Delete the branch feature/payments of the repository shop? It has 3 commits.".into(),
        holder: "ask[29620]@laptop".into(),
        created: at(id),
    })
}

/// The elicitations are not part of the cost, because the record has them anyway.
fn keep(threads: &[ThreadId], table: &mut Table) {
    let mut history = History::default();
    let mut nanos = 0;
    for from in (0..PAUSES).step_by(10_000) {
        let ended: Vec<_> = (from..from + 10_000)
            .map(|id| ClosedElicitation {
                elicitation: elicitation(id),
                closed: at(id + 5),
                how: PauseEnd::Decremented,
            })
            .collect();
        let start = Instant::now();
        for (i, closed) in ended.into_iter().enumerate() {
            history.end(&threads[i % THREADS], closed.elicitation.created, None, closed);
        }
        nanos += start.elapsed().as_nanos();
    }
    black_box(&history);
    table.add((KEPT, NANOSECONDS, COLUMN), nanos as f64 / PAUSES as f64);
}

fn read(threads: &[ThreadId], table: &mut Table) -> Result<()> {
    let hub = Hub::default();
    let header = |revision: i64, since| Header {
        revision: revision.unsigned_abs(),
        pause: Pause { since, ..Pause::default() },
        changed: at(revision),
    };
    for id in 0..10_000 {
        let thread = &threads[id as usize % THREADS];
        let (opened, closed) = (header(2 * id, Some(at(2 * id))), header(2 * id + 1, None));
        let elicitation = elicitation(id);
        let events = [
            (closed, Event::Closed(elicitation.id, PauseEnd::Decremented)),
            (opened, Event::Opened(elicitation, None)),
        ];
        let committed = |(header, event)| Committed { thread: thread.clone(), header, event };
        hub.publish(events.into_iter().rev().map(committed));
    }
    let unknown = ThreadId::parse("", "nobody")?;
    let everything = PauseFilter { scope: &Scope::ALL, thread: None, ended: i64::MIN..i64::MAX };
    let nothing = PauseFilter { thread: Some(&unknown), ..everything.clone() };
    for (case, filter, size) in
        [("a page of 100", &everything, 100), ("none of all that are kept matches", &nothing, 100)]
    {
        let start = Instant::now();
        for _ in 0..READS {
            black_box(hub.pauses(u64::MAX, size, filter));
        }
        table.add((case, "us", COLUMN), start.elapsed().as_secs_f64() * 1e6 / f64::from(READS));
    }
    let kept = hub.pauses(u64::MAX, usize::MAX, &everything).pauses.len();
    table.add(("kept in 1 MiB", "pauses", COLUMN), kept as f64);
    Ok(())
}
