//! Knows all: what the leaders have decided and when, what etcd has applied, and what everybody was told; and checks the invariants of a
//! fleet by their numbers (docs/guarantees.md).
//!
//! The books are kept in true time, and of what was committed alone: a batch counts from when it was decided, once etcd has its log entry.
use super::machine::{MOST_DRIFT, Machine, nanos};
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::core::{Closing, Header};
use pausewatch::test_support::store::Write;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// The grain of the books, in nanoseconds.
const GRAIN: i64 = 10_000;
/// A leader that cannot commit for so long ends its term.
const COMMITTED_WITHIN: i64 = 4_000_000_000;
/// A replica that has reached nothing for so long shows nothing: 3 s, and how often it looks whether that is so.
const STALE: Duration = Duration::from_millis(3_100);

/// The fields of the leader record and of a log entry that are looked at here.
#[derive(Clone, PartialEq, Message)]
struct LeaderRecord {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint64, tag = "2")]
    seq: u64,
    #[prost(fixed64, tag = "3")]
    replica: u64,
    #[prost(sfixed64, tag = "6")]
    clock: i64,
    #[prost(fixed64, tag = "9")]
    machine: u64,
    #[prost(sfixed64, tag = "10")]
    machine_clock: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(bytes = "vec", tag = "4")]
    ops: Vec<u8>,
}

/// What a thread was told to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) revision: u64,
    pub(super) count: usize,
    pub(super) paused: bool,
    /// Nanoseconds.
    pub(super) total: i64,
}

/// What an answer has to be at least as new as.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) revision: u64,
    /// `None`: nobody asked anew.
    pub(super) at: Option<Instant>,
}

/// One change of a batch, as the engine has decided it.
enum Decided {
    Opened {
        thread: String,
        id: ElicitationId,
        row: u64,
        ttl: Option<Duration>,
    },
    Gone {
        row: u64,
    },
    Closed {
        id: ElicitationId,
        how: Closing,
    },
    /// A request id, and what its call is answered.
    Counted {
        name: String,
        thread: String,
        revision: u64,
        count: usize,
    },
    Header {
        thread: String,
        header: Header,
    },
}

#[derive(Default)]
struct Thread {
    /// Revision, count, true time.
    states: Vec<(u64, usize, i64)>,
    open: usize,
    paused_since: Option<i64>,
    accrued: i64,
    acknowledged: u64,
    /// The largest total that anybody was told in the open pause, and how far the cluster clock had gone back by then.
    told: Option<(i64, i64)>,
}

struct Open {
    thread: String,
    ttl: Option<Duration>,
    /// When its lease began at the latest, in true time.
    began: i64,
    closed: bool,
}

struct State {
    start: Instant,
    pub(super) lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    violation: Option<String>,
    machines: HashMap<u64, Arc<Machine>>,
    heard: HashMap<u64, Box<dyn Fn(u64) -> Option<i64> + Send>>,
    batches: HashMap<Vec<u8>, (i64, Vec<Decided>)>,
    threads: BTreeMap<String, Thread>,
    rows: HashMap<u64, String>,
    opened: HashMap<ElicitationId, Open>,
    counted: HashMap<String, u64>,
    answers: HashMap<String, (usize, u64)>,
    record: LeaderRecord,
    /// The cluster clock less true time at the last record, and its jumps so far, and those back.
    offset: i64,
    jumped: i64,
    back: i64,
    /// When a term began to serve last, in true time.
    served: i64,
    watchers: HashMap<(usize, String), u64>,
}

/// The oracle. Clones are the same one.
#[derive(Clone)]
pub(super) struct Oracle(Arc<Mutex<State>>);

impl Oracle {
    pub(super) fn new(start: Instant) -> Self {
        Oracle(Arc::new(Mutex::new(State {
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
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }

    pub(super) fn line(&self, what: impl AsRef<str>) {
        self.state().line(what);
    }

    pub(super) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(super) fn add(&self, what: &'static str, more: u64) {
        *self.state().counts.entry(what).or_default() += more;
    }

    pub(super) fn violation(&self, what: String) {
        self.state().violation(what);
    }

    pub(super) fn has_violation(&self) -> bool {
        self.state().violation.is_some()
    }

    /// What happened: lines, counts, and the first violation.
    pub(super) fn course(&self) -> (Vec<String>, BTreeMap<&'static str, u64>, Option<String>) {
        let state = self.state();
        (state.lines.clone(), state.counts.clone(), state.violation.clone())
    }

    pub(super) fn machine(&self, boot_id: u64, machine: Arc<Machine>) {
        self.state().machines.insert(boot_id, machine);
    }

    /// `error`: how far the clock of this replica may be wrong that takes over from a term.
    pub(super) fn joined(&self, replica: u64, error: impl Fn(u64) -> Option<i64> + Send + 'static) {
        self.state().heard.insert(replica, Box::new(error));
    }

    /// A leader has decided a batch.
    pub(super) fn decided(&self, encoded: Vec<u8>, batch: &[Write<'_>]) {
        let mut state = self.state();
        let now = state.now();
        let mut decided = Vec::new();
        for write in batch {
            decided.push(match write {
                Write::PutElicitation(thread, open) => Decided::Opened {
                    thread: thread.to_string(),
                    id: open.elicitation.id,
                    row: open.row,
                    ttl: open.lease.map(|(length, _)| length),
                },
                Write::DeleteElicitation(row) => Decided::Gone { row: *row },
                Write::PutClosing(_, closing) => Decided::Closed { id: closing.id, how: closing.how },
                Write::PutRequest(thread, request) => Decided::Counted {
                    name: format!("{:?} {thread} {}", request.rpc, request.request_id),
                    thread: thread.to_string(),
                    revision: request.answer.revision,
                    count: request.answer.count as usize,
                },
                Write::PutThread(thread, header) => Decided::Header { thread: thread.to_string(), header: **header },
                Write::DeleteMemory(_) => continue,
                Write::DeleteThread(_) | Write::PutFloor(_) => return state.violation("a thread was forgotten".into()),
            });
        }
        state.batches.insert(encoded, (now, decided));
    }

    /// etcd has applied a transaction.
    pub(super) fn written(&self, written: &[(Vec<u8>, Vec<u8>)]) {
        let mut state = self.state();
        if state.violation.is_some() {
            return;
        }
        let record = written.iter().find(|(key, _)| key.ends_with(b"/leader"));
        let entry = written.iter().find(|(key, _)| key.windows(5).any(|part| part == b"/log/"));
        let Some((_, record)) = record else { return };
        let record = LeaderRecord::decode(&record[..]).expect("it is a record");
        let entry = entry.map(|(_, value)| Entry::decode(&value[..]).expect("it is an entry"));
        state.chained(&record, entry.as_ref());
        state.record = record;
        if let Some(entry) = entry {
            match state.batches.remove(&entry.ops) {
                Some((at, decided)) => state.committed(at, decided),
                None => state.violation("I2: a batch was committed that nobody has decided, or twice (I3)".into()),
            }
        }
    }

    /// A term begins to serve.
    pub(super) fn serves(&self, term: u64, replica: usize) {
        let mut state = self.state();
        state.served = state.now();
        *state.counts.entry("terms that served").or_default() += 1;
        state.line(format!("replica {replica} serves term {term}"));
    }

    /// An answer to a change: `request` names the call.
    pub(super) fn answered(&self, thread: &str, request: &str, count: usize, revision: u64) {
        let mut state = self.state();
        *state.counts.entry("changes that were acknowledged").or_default() += 1;
        let known = *state.answers.entry(request.to_owned()).or_insert((count, revision));
        if known != (count, revision) {
            state.violation(format!("I10: {request} was answered {known:?}, then {:?}", (count, revision)));
        }
        if state.state_of(thread, revision).is_none_or(|(_, known, _)| known != count) {
            state.violation(format!("I2: {request} was answered revision {revision}, count {count}: not in the log"));
        }
        let books = state.threads.entry(thread.to_owned()).or_default();
        books.acknowledged = books.acknowledged.max(revision);
    }

    /// A renewal that was sent at `sent` was answered.
    pub(super) fn renewed(&self, id: ElicitationId, sent: Instant) {
        let mut state = self.state();
        let sent = nanos(sent - state.start);
        if let Some(open) = state.opened.get_mut(&id) {
            open.began = open.began.max(sent);
        }
    }

    /// Somebody asks now.
    pub(super) fn asks(&self, thread: &str) -> Asked {
        let revision = self.state().threads.get(thread).map_or(0, |books| books.acknowledged);
        Asked { revision, at: Some(Instant::now()) }
    }

    /// Whether what was acknowledged as opened is known to the books.
    pub(super) fn is_open(&self, id: ElicitationId) -> bool {
        self.state().opened.get(&id).is_some_and(|open| !open.closed)
    }

    /// A replica has sent a state. `asked`: when it was asked for, and the revision that was acknowledged by then. `reached`: when its
    /// last call to etcd began that was answered.
    pub(super) fn told(&self, who: &str, thread: &str, told: Told, asked: Asked, reached: Option<Instant>) {
        let mut state = self.state();
        let at_least = asked.revision;
        if reached.is_some_and(|since| since.elapsed() > STALE) {
            state.violation(format!(
                "I11: {who} shows {thread}, and has not reached etcd for {:?}",
                reached.map(|at| at.elapsed())
            ));
        }
        if told.revision < at_least {
            state.violation(format!(
                "I4: {who} shows revision {} of {thread}; {at_least} was answered before",
                told.revision
            ));
        }
        // Durations are told up to the batch that the leader is committing.
        let began = asked.at.map(|at| nanos(at - state.start) - COMMITTED_WITHIN);
        state.check_told(who, thread, told, began);
    }

    /// A watcher was told a state.
    pub(super) fn watched(&self, watcher: usize, thread: &str, told: Told) {
        let mut state = self.state();
        *state.counts.entry("states that watchers were told").or_default() += 1;
        let last = state.watchers.entry((watcher, thread.to_owned())).or_default();
        let before = std::mem::replace(last, told.revision);
        if told.revision < before {
            state.violation(format!(
                "I5: watcher {watcher} was told revision {} of {thread} after {before}",
                told.revision
            ));
        }
    }

    /// Which watchers have not been told the last state of what they watch.
    pub(super) fn left_behind(&self) -> Option<String> {
        let state = self.state();
        state.watchers.iter().find_map(|((watcher, thread), revision)| {
            let last = state.threads.get(thread)?.states.last()?.0;
            (*revision != last)
                .then(|| format!("watcher {watcher} was left at revision {revision} of {thread}, not {last}"))
        })
    }

    /// The last state of a thread, as the books have it.
    pub(super) fn last(&self, thread: &str) -> (u64, usize) {
        let state = self.state();
        let last = state.threads.get(thread).and_then(|books| books.states.last().copied());
        last.map_or((0, 0), |(revision, count, _)| (revision, count))
    }
}

impl State {
    fn now(&self) -> i64 {
        nanos(Instant::now() - self.start)
    }

    fn line(&mut self, what: impl AsRef<str>) {
        let now = Duration::from_nanos(self.now().unsigned_abs());
        self.lines.push(format!("{:>9.3} {}", now.as_secs_f64(), what.as_ref()));
    }

    fn violation(&mut self, what: String) {
        self.line(format!("VIOLATION of {what}"));
        self.violation.get_or_insert(what);
    }

    fn state_of(&self, thread: &str, revision: u64) -> Option<(u64, usize, i64)> {
        if revision == 0 {
            return Some((0, 0, 0));
        }
        let states = &self.threads.get(thread)?.states;
        states.binary_search_by_key(&revision, |state| state.0).ok().map(|found| states[found])
    }

    /// I1: one chain of leader records. I6: the clock of a takeover.
    fn chained(&mut self, record: &LeaderRecord, entry: Option<&Entry>) {
        let before = self.record.clone();
        let taken_over = record.term == before.term + 1 && record.seq == before.seq && entry.is_none();
        let goes_on = record.term == before.term
            && record.replica == before.replica
            && record.seq == before.seq + u64::from(entry.is_some())
            && entry.is_none_or(|entry| entry.term == record.term);
        if !taken_over && !goes_on {
            self.violation(format!("I1: {record:?} (with an entry: {}) follows {before:?}", entry.is_some()));
        }
        if record.clock < before.clock && before.term > 0 {
            self.violation(format!("I6: the cluster clock went from {} to {}", before.clock, record.clock));
        }
        let truth = self.machines[&record.machine].truth(record.machine_clock);
        let offset = record.clock - truth;
        if taken_over && before.term > 0 {
            *self.counts.entry("takeovers").or_default() += 1;
            // Since the record before, the clock of that leader has run on.
            let last = self.machines[&before.machine].truth(before.machine_clock);
            let drift = (truth - last) / 1_000_000 * (2 * MOST_DRIFT) + 2_000_000_000 / 1_000_000 * (2 * MOST_DRIFT);
            let jump = offset - self.offset;
            let error = self.heard.get(&record.replica).and_then(|error| error(before.term));
            let exact = (record.machine == before.machine).then_some(0);
            if let Some(error) = exact.or(error)
                && jump.abs() > error + drift + GRAIN
            {
                self.violation(format!("I6: a takeover moves the clock by {jump} ns, and may by {error} + {drift}"));
            }
            self.jumped += jump.abs();
            self.back += (-jump).max(0);
            if record.machine != before.machine && error.is_none() {
                *self.counts.entry("takeovers by the wall clock").or_default() += 1;
            }
            self.line(format!("term {} begins, its clock {} us away", record.term, jump / 1_000));
        }
        self.offset = offset;
    }

    fn committed(&mut self, at: i64, decided: Vec<Decided>) {
        for decided in decided {
            match decided {
                Decided::Opened { thread, id, row, ttl } => {
                    let open = Open { thread: thread.clone(), ttl, began: at, closed: false };
                    if self.opened.insert(id, open).is_some() {
                        self.violation(format!("I3: {thread}: one elicitation is opened twice"));
                    }
                    self.rows.insert(row, thread.clone());
                    let books = self.threads.entry(thread).or_default();
                    books.open += 1;
                    books.paused_since.get_or_insert(at);
                }
                Decided::Gone { row } => {
                    let Some(thread) = self.rows.remove(&row) else {
                        self.violation(format!("I3: row {row} is closed twice, or never was"));
                        continue;
                    };
                    let books = self.threads.get_mut(&thread).expect("it was opened");
                    books.open -= 1;
                    if books.open == 0 {
                        books.accrued += at - books.paused_since.take().expect("it was paused");
                    }
                }
                Decided::Closed { id, how } => self.closed(at, id, how),
                Decided::Counted { name, thread, revision, count } => {
                    let times = self.counted.entry(name.clone()).or_default();
                    *times += 1;
                    if *times > 1 {
                        self.violation(format!("I10: {name} counts twice"));
                    }
                    self.reached(at, &thread, revision, count);
                }
                Decided::Header { thread, header } => self.changed(at, thread, header),
            }
        }
    }

    /// I9: no lease ends early.
    fn closed(&mut self, at: i64, id: ElicitationId, how: Closing) {
        let served = self.served;
        let slack = self.slack(at);
        let Some(open) = self.opened.get_mut(&id) else { return self.violation("I3: what never was is closed".into()) };
        open.closed = true;
        if how != Closing::Expired {
            return;
        }
        *self.counts.entry("leases that ended").or_default() += 1;
        let ttl = open.ttl.map_or(0, nanos);
        let began = open.began.max(served);
        if at + slack < began + ttl {
            let what = format!("I9: a lease of {ttl} ns on {} ended after {} ns", open.thread, at - began);
            self.violation(what);
        }
    }

    /// A thread has this revision from then on. A batch may have several of one thread, the last of which it has twice.
    fn reached(&mut self, at: i64, thread: &str, revision: u64, count: usize) {
        let states = &mut self.threads.entry(thread.to_owned()).or_default().states;
        let (last, known, when) = states.last().copied().unwrap_or_default();
        if revision > last {
            return states.push((revision, count, at));
        }
        if (revision, count, at) != (last, known, when) {
            self.violation(format!("I5: revision {revision} of {thread}, count {count}, after {last}, count {known}"));
        }
    }

    fn changed(&mut self, at: i64, thread: String, header: Header) {
        let back = self.back;
        let books = self.threads.entry(thread.clone()).or_default();
        let (open, accrued) = (books.open, nanos(header.pause.accrued));
        let told = books.told;
        if header.pause.since.is_none() {
            books.told = None;
        }
        self.reached(at, &thread, header.revision, open);
        if header.pause.since.is_some() != (open > 0) {
            self.violation(format!("I8: {thread} has {open} open, and is paused: {}", header.pause.since.is_some()));
        }
        if let (Some((told, before)), None) = (told, header.pause.since)
            && told > accrued + (back - before) + GRAIN
        {
            self.violation(format!(
                "I6: {thread} was told to have been paused for {told} ns; at its end it was {accrued} ns"
            ));
        }
    }

    /// How far totals may be from the truth by now.
    fn slack(&self, at: i64) -> i64 {
        at / 1_000_000 * MOST_DRIFT + self.jumped + GRAIN
    }

    fn check_told(&mut self, who: &str, thread: &str, told: Told, began: Option<i64>) {
        let now = self.now();
        let Some((_, count, _)) = self.state_of(thread, told.revision) else {
            return self.violation(format!("I2: {who} shows {told:?} of {thread}, which was never committed"));
        };
        let (slack, back) = (self.slack(now), self.back);
        let books = self.threads.entry(thread.to_owned()).or_default();
        // The open pause may have ended since, by a change that was not shown yet.
        let is_last = books.states.last().is_none_or(|last| last.0 == told.revision);
        let paused_for = |until: i64| books.paused_since.map_or(0, |since| (until - since).max(0));
        let (least, most) = match told.paused {
            false if is_last => (books.accrued, books.accrued),
            // A follower tells durations up to what the leader has vouched for; whoever asks anew, is told up to then.
            true if is_last => (books.accrued + began.map_or(0, paused_for), books.accrued + paused_for(now)),
            _ => (0, books.accrued + paused_for(now)),
        };
        if told.paused && is_last {
            let (known, before) = books.told.unwrap_or((0, back));
            books.told = Some(if told.total > known { (told.total, back) } else { (known, before) });
        }
        if told.count != count || told.paused != (count > 0) {
            self.violation(format!("I8: {who} shows {told:?} of {thread}; the log has count {count}"));
        }
        if told.total + slack < least || told.total > most + slack {
            self.violation(format!(
                "I6: {who} shows {told:?} of {thread}; it was paused for {least} to {most} ns, give or take {slack}"
            ));
        }
    }
}
