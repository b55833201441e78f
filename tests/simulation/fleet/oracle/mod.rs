//! The oracle knows everything: what the leaders have decided and when, what etcd has applied, and every answer; it
//! checks the invariants of a fleet by their numbers (docs/guarantees.md).
//!
//! | file | content |
//! | --- | --- |
//! | `books` | which thread was paused when, in true time |
//! | `decided`, `records` | the decisions of leaders, and the records in etcd, as far as they are checked |
//! | `chain` | I1, and I6 of a takeover's clock |
//! | `commits` | I3, I5, I8 to I10 of what is committed |
//! | `told` | I2, I4 to I6, I8, I10 and I11 of what is answered and shown |
mod books;
mod chain;
mod commits;
mod decided;
mod records;
mod told;

pub(super) use told::{Asked, Told};

use super::machine::{Machine, nanos};
use books::{ClockError, State};
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::store::Write;
use prost::Message;
use records::{Entry, LeaderRecord};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::Instant;

/// The oracle. Clones share one state.
#[derive(Clone)]
pub(super) struct Oracle(Arc<Mutex<State>>);

impl Oracle {
    pub(super) fn new(start: Instant) -> Self {
        Oracle(Arc::new(Mutex::new(State::new(start))))
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

    /// The result of a run: lines, counts, and the first violation.
    pub(super) fn course(&self) -> (Vec<String>, BTreeMap<&'static str, u64>, Option<String>) {
        let state = self.state();
        (state.lines.clone(), state.counts.clone(), state.violation.clone())
    }

    pub(super) fn machine(&self, boot_id: u64, machine: Arc<Machine>) {
        self.state().machines.insert(boot_id, machine);
    }

    /// A replica has joined.
    pub(super) fn joined(&self, replica: u64, error: ClockError) {
        self.state().heard.insert(replica, error);
    }

    /// A leader has decided a batch.
    pub(super) fn decided(&self, encoded: Vec<u8>, batch: &[Write<'_>]) {
        let mut state = self.state();
        match decided::decided(batch) {
            Some(decided) => {
                let now = state.now();
                state.batches.insert(encoded, (now, decided));
            }
            None => state.violation("a thread was forgotten".into()),
        }
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

    /// A term starts to serve.
    pub(super) fn serves(&self, term: u64, replica: usize) {
        let mut state = self.state();
        state.served = state.now();
        *state.counts.entry("terms that served").or_default() += 1;
        state.line(format!("replica {replica} serves term {term}"));
    }

    /// Checks the answer to a change; `request` names the call.
    pub(super) fn answered(&self, thread: &str, request: &str, count: usize, revision: u64) {
        self.state().answered(thread, request, count, revision);
    }

    /// A renewal that was sent at `sent` was answered.
    pub(super) fn renewed(&self, id: ElicitationId, sent: Instant) {
        let mut state = self.state();
        let sent = nanos(sent - state.start);
        if let Some(open) = state.opened.get_mut(&id) {
            open.began = open.began.max(sent);
        }
    }

    /// A client reads now.
    pub(super) fn asks(&self, thread: &str) -> Asked {
        let revision = self.state().threads.get(thread).map_or(0, |books| books.acknowledged);
        Asked { revision, at: Some(Instant::now()) }
    }

    /// Whether the books know an elicitation that was acknowledged as opened.
    pub(super) fn is_open(&self, id: ElicitationId) -> bool {
        self.state().opened.get(&id).is_some_and(|open| !open.closed)
    }

    /// Checks a state that a replica has sent. `asked`: the time of the request, and the revision that was acknowledged
    /// by then. `reached`: the start of the replica's last call to etcd that was answered.
    pub(super) fn told(&self, who: &str, thread: &str, told: Told, asked: Asked, reached: Option<Instant>) {
        self.state().told(who, thread, told, asked, reached);
    }

    /// Checks a state that a watcher received.
    pub(super) fn watched(&self, watcher: usize, thread: &str, told: Told) {
        self.state().watched(watcher, thread, told);
    }

    /// The watchers that have not received the last state of what they watch.
    pub(super) fn left_behind(&self) -> Option<String> {
        self.state().left_behind()
    }

    /// The last state of a thread in the books.
    pub(super) fn last(&self, thread: &str) -> (u64, usize) {
        let state = self.state();
        let last = state.threads.get(thread).and_then(|books| books.states.last().copied());
        last.map_or((0, 0), |(revision, count, _)| (revision, count))
    }
}
