//! A simple model of what a store must hold; random batches; and a store for the tests of the engine.
use fastrand::Rng;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{
    Elicitation, Header, Open, Pause, PauseEnd, Record, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc,
    Timestamp,
};
use pausewatch::test_support::store::{CommitError, Contents, OpenError, Store, Write};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub(crate) fn thread_id(text: &str) -> ThreadId {
    ThreadId::parse("thread_id", text).expect("a valid id")
}

#[derive(Clone, Debug)]
enum Kept {
    Closing(RememberedClosing),
    Request(RememberedRequest),
}

/// A [`Write`] that owns its data.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    PutThread(ThreadId, Header),
    DeleteThread(ThreadId),
    PutElicitation(ThreadId, Open),
    DeleteElicitation(u64),
    PutClosing(ThreadId, RememberedClosing),
    PutRequest(ThreadId, RememberedRequest),
    DeleteMemory(u64),
    PutFloor(u64),
}

impl Change {
    fn write(&self) -> Write<'_> {
        match self {
            Change::PutThread(thread, header) => Write::PutThread(thread, header),
            Change::DeleteThread(thread) => Write::DeleteThread(thread),
            Change::PutElicitation(thread, open) => Write::PutElicitation(thread, open),
            Change::DeleteElicitation(row) => Write::DeleteElicitation(*row),
            Change::PutClosing(thread, closing) => Write::PutClosing(thread, closing),
            Change::PutRequest(thread, request) => Write::PutRequest(thread, request),
            Change::DeleteMemory(row) => Write::DeleteMemory(*row),
            Change::PutFloor(floor) => Write::PutFloor(*floor),
        }
    }
}

/// The batch as a store accepts it.
pub(crate) fn writes(batch: &[Change]) -> Vec<Write<'_>> {
    batch.iter().map(Change::write).collect()
}

/// Everything that was committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    threads: BTreeMap<ThreadId, Header>,
    elicitations: BTreeMap<u64, (ThreadId, Open)>,
    memory: BTreeMap<u64, (ThreadId, Kept)>,
    floor: u64,
    next_row: u64,
    /// The maximum extra length of the reason of a new elicitation, in bytes: it fills a disk quickly.
    pub(crate) ballast: usize,
}

impl Model {
    pub(crate) fn with_ballast(ballast: usize) -> Self {
        Model { ballast, ..Model::default() }
    }

    pub(crate) fn apply(&mut self, batch: &[Write<'_>]) {
        for write in batch {
            match *write {
                Write::PutThread(thread, header) => _ = self.threads.insert(thread.clone(), *header),
                Write::DeleteThread(thread) => _ = self.threads.remove(thread),
                Write::PutElicitation(thread, open) => {
                    self.elicitations.insert(open.row, (thread.clone(), open.clone()));
                }
                Write::DeleteElicitation(row) => _ = self.elicitations.remove(&row),
                Write::PutClosing(thread, closing) => {
                    self.memory.insert(closing.row, (thread.clone(), Kept::Closing(*closing)));
                }
                Write::PutRequest(thread, request) => {
                    self.memory.insert(request.row, (thread.clone(), Kept::Request(request.clone())));
                }
                Write::DeleteMemory(row) => _ = self.memory.remove(&row),
                Write::PutFloor(floor) => self.floor = floor,
            }
        }
    }

    /// The expected contents of a load at `now`, by thread: leases restart then.
    pub(crate) fn contents(&self, now: Timestamp) -> Contents {
        let record = |(thread, header): (&ThreadId, &Header)| {
            let mut record = Record::new(thread.clone(), 0, now);
            record.header = *header;
            let own = self.elicitations.values().filter(|(of, _)| of == thread);
            record.open = own.map(|(_, open)| open.clone()).collect();
            for open in &mut record.open {
                open.lease = open.lease.map(|(length, _)| (length, now.after(length)));
            }
            for (_, kept) in self.memory.values().filter(|(of, _)| of == thread) {
                match kept.clone() {
                    Kept::Closing(closing) => record.memory.push_closing(closing),
                    Kept::Request(request) => record.memory.push_request(request),
                }
            }
            record
        };
        let rows = self.elicitations.keys().chain(self.memory.keys());
        let next_row = rows.max().map_or(0, |row| row + 1);
        Contents { records: self.threads.iter().map(record).collect(), floor: self.floor, next_row, epoch: 0 }
    }

    /// Whether `loaded` at `now` equals this model.
    pub(crate) fn is(&self, loaded: &Contents, now: Timestamp) -> bool {
        self.compare(loaded, now).is_ok()
    }

    /// Describes how `loaded` at `now` differs from this model.
    pub(crate) fn compare(&self, loaded: &Contents, now: Timestamp) -> Result<(), String> {
        let expected = self.contents(now);
        let mut found: Vec<_> = loaded.records.iter().collect();
        found.sort_by(|a, b| a.thread.cmp(&b.thread));
        let different = expected.records.iter().zip(&found).find(|(expected, found)| expected != *found);
        let is_right = different.is_none() && found.len() == expected.records.len();
        if is_right && loaded.floor == expected.floor && loaded.next_row >= expected.next_row {
            return Ok(());
        }
        let numbers = |contents: &Contents| (contents.records.len(), contents.floor, contents.next_row);
        Err(format!(
            "threads, floor, next row: expected {:?}, found {:?}; {different:?}",
            numbers(&expected),
            numbers(loaded)
        ))
    }

    /// A few changes that an engine could make at `now`, on one of eight threads.
    pub(crate) fn random_batch(&mut self, random: &mut Rng, now: Timestamp) -> Vec<Change> {
        let before = self.clone();
        let mut batch = Vec::new();
        for _ in 0..1 + random.usize(..4) {
            let thread = thread_id(&format!("thread {}", random.usize(..8)));
            let mut change = self.random_change(random, thread, now);
            self.apply(&writes(&change));
            batch.append(&mut change);
        }
        let next_row = self.next_row;
        *self = before;
        self.next_row = next_row;
        batch
    }

    /// New elicitations of a new thread, about `bytes` in total.
    pub(crate) fn increments(&mut self, bytes: usize, now: Timestamp) -> Vec<Change> {
        let thread = thread_id(&format!("busy {}", self.next_row));
        let mut header = Header { revision: self.floor, pause: Pause::default(), changed: now };
        let mut batch = Vec::new();
        for count in 1..=bytes / 1_000 {
            let row = self.next_row;
            self.next_row += 2;
            let reason = "why? ".repeat(200).into();
            let id = ElicitationId(u128::from(row));
            let elicitation = Arc::new(Elicitation { id, reason, holder: "a holder".into(), created: now });
            let open = Open { elicitation, lease: None, anonymous: true, row };
            batch.extend(opening(&thread, &mut header, count, open, now));
        }
        batch
    }

    /// A batch that closes one elicitation, if any is open.
    pub(crate) fn close_one(&mut self, now: Timestamp) -> Option<Vec<Change>> {
        let (thread, row) = self.elicitations.iter().next().map(|(row, (thread, _))| (thread.clone(), *row))?;
        let fresh = self.next_row;
        self.next_row += 2;
        Some(self.close(thread, row, PauseEnd::Decremented, fresh, now))
    }

    fn close(&self, thread: ThreadId, closed: u64, how: PauseEnd, row: u64, now: Timestamp) -> Vec<Change> {
        let before = self.threads[&thread];
        let left = self.elicitations.values().filter(|(of, _)| *of == thread).count() - 1;
        let revision = before.revision + 1;
        let header = Header { revision, pause: before.pause.turned(left > 0, now), changed: now };
        let id = self.elicitations[&closed].1.elicitation.id;
        let answer = RememberedAnswer { count: left as u32, revision, opened: None };
        vec![
            Change::DeleteElicitation(closed),
            Change::PutClosing(thread.clone(), RememberedClosing { id, how, at: now, row }),
            Change::PutRequest(thread.clone(), request(Rpc::Decrement, answer, now, row + 1)),
            Change::PutThread(thread, header),
        ]
    }

    fn random_change(&mut self, random: &mut Rng, thread: ThreadId, now: Timestamp) -> Vec<Change> {
        let row = self.next_row;
        self.next_row += 2;
        let open: Vec<u64> =
            self.elicitations.iter().filter(|(_, (of, _))| *of == thread).map(|(row, _)| *row).collect();
        let kept: Vec<u64> = self.memory.iter().filter(|(_, (of, _))| *of == thread).map(|(row, _)| *row).collect();
        let known = self.threads.get(&thread);
        let before = known.copied().unwrap_or(Header { revision: self.floor, pause: Pause::default(), changed: now });
        let id = ElicitationId(u128::from(random.u64(..)) << 64 | u128::from(row));
        match random.usize(..5) {
            0 | 1 => {
                let reason = "because ".repeat(random.usize(..40 + self.ballast / 8)).into();
                let elicitation = Elicitation { id, reason, holder: "a holder".into(), created: now };
                let lease = random.bool().then(|| Duration::from_secs(1 + random.u64(..60)));
                let lease = lease.map(|length| (length, now.after(length)));
                let open_one = Open { elicitation: Arc::new(elicitation), lease, anonymous: lease.is_none(), row };
                opening(&thread, &mut { before }, open.len() + 1, open_one, now).into()
            }
            2 | 3 if !open.is_empty() => {
                let closed = open[random.usize(..open.len())];
                let how = [PauseEnd::Decremented, PauseEnd::Expired, PauseEnd::MaxPause][random.usize(..3)];
                self.close(thread, closed, how, row, now)
            }
            _ if open.is_empty() && known.is_some() => {
                let mut changes: Vec<_> = kept.iter().map(|&row| Change::DeleteMemory(row)).collect();
                changes.push(Change::DeleteThread(thread));
                changes.push(Change::PutFloor(self.floor.max(before.revision)));
                changes
            }
            _ => kept.first().map(|&row| Change::DeleteMemory(row)).into_iter().collect(),
        }
    }
}

/// The changes that open the `count`th elicitation of a thread with this header.
fn opening(thread: &ThreadId, header: &mut Header, count: usize, open: Open, now: Timestamp) -> [Change; 3] {
    let (revision, row) = (header.revision + 1, open.row + 1);
    *header = Header { revision, pause: header.pause.turned(true, now), changed: now };
    let opened = Some((open.elicitation.id, open.ends()));
    let answer = RememberedAnswer { count: count as u32, revision, opened };
    [
        Change::PutElicitation(thread.clone(), open),
        Change::PutRequest(thread.clone(), request(Rpc::Increment, answer, now, row)),
        Change::PutThread(thread.clone(), *header),
    ]
}

fn request(rpc: Rpc, answer: RememberedAnswer, at: Timestamp, row: u64) -> RememberedRequest {
    let fingerprint = u128::from(row) * 0x1234_5678_9abc_def0_1234_5678;
    RememberedRequest { rpc, request_id: format!("request {row}").into(), fingerprint, answer, at, row }
}

/// A memory store that follows the test's orders.
#[derive(Clone, Default)]
pub(crate) struct Obedient(Arc<Mutex<Orders>>);

/// The test's orders, and what the store has recorded.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) refuse: bool,
    pub(crate) fatal: bool,
    /// Another process has taken the store over.
    pub(crate) deposed: bool,
    /// How often the store was asked whether it was deposed.
    pub(crate) confirmed: usize,
    pub(crate) full: bool,
    /// The next batch may take long.
    pub(crate) slow: bool,
    /// Whether `recover` ends `refuse` and `full`.
    pub(crate) recovers: bool,
    pub(crate) recoveries: usize,
    /// The sizes of the committed batches.
    pub(crate) batches: Vec<usize>,
    pub(crate) model: Model,
}

impl Obedient {
    pub(crate) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().expect("no panic while locked")
    }
}

impl Store for Obedient {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        Ok(self.orders().model.contents(now))
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let mut orders = self.orders();
        if orders.deposed {
            return Err(CommitError::Deposed("told to".into()));
        }
        if orders.fatal {
            return Err(CommitError::Fatal("told to".into()));
        }
        if orders.refuse {
            return Err(CommitError::Refused("told to".into()));
        }
        orders.batches.push(batch.len());
        orders.model.apply(batch);
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), CommitError> {
        let mut orders = self.orders();
        orders.confirmed += 1;
        if orders.deposed { Err(CommitError::Deposed("told to".into())) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.orders().full
    }

    fn may_wait(&self) -> bool {
        self.orders().slow
    }

    fn recover(&mut self) {
        let mut orders = self.orders();
        orders.recoveries += 1;
        if orders.recovers {
            (orders.refuse, orders.full) = (false, false);
        }
    }
}
