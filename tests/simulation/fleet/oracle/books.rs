//! The books: which thread was paused when, in true time, based only on what was committed. A batch counts from the
//! time of its decision, once etcd has its log entry.
use super::super::machine::{MOST_DRIFT, Machine, nanos};
use super::decided::Decided;
use super::records::LeaderRecord;
use pausewatch::test_support::core::types::ElicitationId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The resolution of the books, in nanoseconds.
pub(super) const GRAIN: i64 = 10_000;

/// A thread.
#[derive(Default)]
pub(super) struct Thread {
    /// Revision, count, true time.
    pub(super) states: Vec<(u64, usize, i64)>,
    pub(super) open: usize,
    pub(super) paused_since: Option<i64>,
    pub(super) accrued: i64,
    pub(super) acknowledged: u64,
    /// The largest total that was shown in the open pause, and how far the cluster clock had gone back by then.
    pub(super) told: Option<(i64, i64)>,
}

/// An elicitation that was opened.
pub(super) struct Open {
    pub(super) thread: String,
    pub(super) ttl: Option<Duration>,
    /// The latest true time at which its lease may have started.
    pub(super) began: i64,
    pub(super) closed: bool,
}

/// The maximum clock error of a replica that takes over from a term, at a time of its machine's clock.
pub(super) type ClockError = Box<dyn Fn(u64, i64) -> Option<i64> + Send>;

/// The books.
pub(super) struct State {
    pub(super) start: Instant,
    pub(super) lines: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) violation: Option<String>,
    pub(super) machines: HashMap<u64, Arc<Machine>>,
    pub(super) heard: HashMap<u64, ClockError>,
    pub(super) batches: HashMap<Vec<u8>, (i64, Vec<Decided>)>,
    pub(super) threads: BTreeMap<String, Thread>,
    pub(super) rows: HashMap<u64, String>,
    pub(super) opened: HashMap<ElicitationId, Open>,
    pub(super) counted: HashMap<String, u64>,
    pub(super) answers: HashMap<String, (usize, u64)>,
    pub(super) record: LeaderRecord,
    /// The cluster clock minus true time at the last record, the sum of its jumps, and the sum of its jumps back.
    pub(super) offset: i64,
    pub(super) jumped: i64,
    pub(super) back: i64,
    /// The true time at which a term last started to serve.
    pub(super) served: i64,
    pub(super) watchers: HashMap<(usize, String), u64>,
}

impl State {
    pub(super) fn new(start: Instant) -> Self {
        State {
            start,
            lines: Vec::new(),
            counts: BTreeMap::new(),
            violation: None,
            machines: HashMap::new(),
            heard: HashMap::new(),
            batches: HashMap::new(),
            threads: BTreeMap::new(),
            rows: HashMap::new(),
            opened: HashMap::new(),
            counted: HashMap::new(),
            answers: HashMap::new(),
            record: LeaderRecord::default(),
            offset: 0,
            jumped: 0,
            back: 0,
            served: 0,
            watchers: HashMap::new(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        nanos(Instant::now() - self.start)
    }

    pub(super) fn line(&mut self, what: impl AsRef<str>) {
        let now = Duration::from_nanos(self.now().unsigned_abs());
        self.lines.push(format!("{:>9.3} {}", now.as_secs_f64(), what.as_ref()));
    }

    pub(super) fn violation(&mut self, what: String) {
        self.line(format!("VIOLATION of {what}"));
        self.violation.get_or_insert(what);
    }

    pub(super) fn state_of(&self, thread: &str, revision: u64) -> Option<(u64, usize, i64)> {
        if revision == 0 {
            return Some((0, 0, 0));
        }
        let states = &self.threads.get(thread)?.states;
        states.binary_search_by_key(&revision, |state| state.0).ok().map(|found| states[found])
    }

    /// The maximum error of totals at this time.
    pub(super) fn slack(&self, at: i64) -> i64 {
        at / 1_000_000 * MOST_DRIFT + self.jumped + GRAIN
    }
}
