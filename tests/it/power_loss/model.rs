//! What the store should hold, and batches that change it as the coordinator would.
use fastrand::Rng;
use pausewatch::test_support::core::types::{ElicitationId, ThreadId};
use pausewatch::test_support::core::{
    Closing, Elicitation, Header, Open, Pause, Record, RememberedAnswer, RememberedClosing, RememberedRequest, Rpc,
    Timestamp,
};
use pausewatch::test_support::store::{Contents, Write};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Later than whatever a model writes down.
pub(super) const NOW: Timestamp = Timestamp { boot: 1 << 50, wall: 1 << 60 };
/// Open elicitations and remembered things that a model has at most, about.
const ENOUGH: usize = 150;

#[derive(Clone, Default)]
pub(super) struct Model {
    threads: BTreeMap<ThreadId, Thread>,
    floor: u64,
    clock: i64,
    rows: u64,
}

#[derive(Clone)]
struct Thread {
    header: Header,
    open: BTreeMap<u64, Open>,
    memory: BTreeMap<u64, Remembered>,
}

#[derive(Clone)]
enum Remembered {
    Closing(RememberedClosing),
    Request(RememberedRequest),
}

/// A [`Write`] that owns what it writes.
pub(super) enum Step {
    PutThread(ThreadId, Header),
    DeleteThread(ThreadId),
    PutElicitation(ThreadId, Open),
    DeleteElicitation(u64),
    PutClosing(ThreadId, RememberedClosing),
    PutRequest(ThreadId, RememberedRequest),
    DeleteMemory(u64),
    PutFloor(u64),
}

impl Step {
    pub(super) fn as_write(&self) -> Write<'_> {
        match self {
            Step::PutThread(thread, header) => Write::PutThread(thread, header),
            Step::DeleteThread(thread) => Write::DeleteThread(thread),
            Step::PutElicitation(thread, open) => Write::PutElicitation(thread, open),
            Step::DeleteElicitation(row) => Write::DeleteElicitation(*row),
            Step::PutClosing(thread, closing) => Write::PutClosing(thread, closing),
            Step::PutRequest(thread, request) => Write::PutRequest(thread, request),
            Step::DeleteMemory(row) => Write::DeleteMemory(*row),
            Step::PutFloor(floor) => Write::PutFloor(*floor),
        }
    }
}

/// A batch, and what the store holds after it.
pub(super) struct Batch {
    pub(super) after: Model,
    pub(super) steps: Vec<Step>,
}

impl Model {
    /// Some changes of some threads.
    pub(super) fn some_changes(&self, rng: &mut Rng) -> Batch {
        let mut batch = Batch { after: self.clone(), steps: Vec::new() };
        let most = if rng.u8(..4) == 0 { 60 } else { 6 };
        for _ in 0..rng.usize(1..=most) {
            let thread = ThreadId::parse("", &format!("thread-{}", rng.u8(..12))).unwrap();
            match rng.u8(..10) {
                0..=5 if batch.after.open_elicitations() < ENOUGH => {
                    batch.open(thread, rng.usize(..=1_024), rng.bool())
                }
                6 => batch.forget(&thread),
                _ => batch.close(&thread, rng.bool()),
            }
        }
        batch
    }

    /// About `bytes` of new elicitations.
    pub(super) fn increments(&self, bytes: usize) -> Batch {
        let mut batch = Batch { after: self.clone(), steps: Vec::new() };
        let thread = ThreadId::parse("", "busy").unwrap();
        (0..bytes / 1_000).for_each(|_| batch.open(thread.clone(), 1_000, true));
        batch
    }

    /// Closes the oldest elicitations, and forgets what is remembered as the coordinator does after a while. `None`:
    /// nothing is open.
    pub(super) fn decrements(&self, count: usize) -> Option<Batch> {
        let mut batch = Batch { after: self.clone(), steps: Vec::new() };
        for _ in 0..count {
            let (thread, _) = batch.after.threads.iter().find(|(_, thread)| !thread.open.is_empty())?;
            let thread = thread.clone();
            batch.close(&thread, true);
            if batch.after.threads[&thread].memory.len() > ENOUGH {
                batch.forget(&thread);
            }
        }
        Some(batch)
    }

    pub(super) fn open_elicitations(&self) -> usize {
        self.threads.values().map(|thread| thread.open.len()).sum()
    }

    /// Says how `found` differs from this.
    pub(super) fn compare(&self, found: &Contents) -> Result<(), String> {
        let mut rows = 0;
        let expected: Vec<_> = self.threads.iter().map(|(id, thread)| thread.record(id, &mut rows)).collect();
        if found.records == expected && found.floor == self.floor && found.next_row == rows {
            return Ok(());
        }
        let different = expected.iter().zip(&found.records).find(|(expected, found)| expected != found);
        let different = different.map(|(expected, found)| {
            let rows = |record: &Record| record.open.iter().map(|open| open.row).collect::<Vec<_>>();
            format!(
                "{}: expected {:?} {:?}, found {} {:?} {:?}, memory alike: {}",
                expected.thread,
                expected.header,
                rows(expected),
                found.thread,
                found.header,
                rows(found),
                expected.memory == found.memory
            )
        });
        Err(format!(
            "threads {} and {}, floor {} and {}, next row {rows} and {}; {different:?}",
            expected.len(),
            found.records.len(),
            self.floor,
            found.floor,
            found.next_row
        ))
    }
}

impl Thread {
    /// As the store gives it: with leases that begin now.
    fn record(&self, id: &ThreadId, rows: &mut u64) -> Record {
        let mut record = Record::new(id.clone(), 0, NOW);
        record.header = self.header;
        for open in self.open.values() {
            let lease = open.lease.map(|(length, _)| (length, NOW.after(length)));
            record.open.push(Open { lease, ..open.clone() });
            *rows = open.row.max(*rows - u64::from(*rows > 0)) + 1;
        }
        for remembered in self.memory.values() {
            let row = match remembered {
                Remembered::Closing(closing) => {
                    record.memory.push_closing(*closing);
                    closing.row
                }
                Remembered::Request(request) => {
                    record.memory.push_request(request.clone());
                    request.row
                }
            };
            *rows = row.max(*rows - u64::from(*rows > 0)) + 1;
        }
        record
    }
}

impl Batch {
    fn now(&mut self) -> Timestamp {
        self.after.clock += 1;
        Timestamp { boot: self.after.clock, wall: 1_000_000 + self.after.clock }
    }

    fn row(&mut self) -> u64 {
        self.after.rows += 1;
        self.after.rows - 1
    }

    fn change(&mut self, id: &ThreadId, change: impl FnOnce(&mut Thread)) {
        let now = self.now();
        let floor = self.after.floor;
        let thread = self.after.threads.entry(id.clone()).or_insert_with(|| Thread {
            header: Header { revision: floor, pause: Pause::default(), changed: now },
            open: BTreeMap::new(),
            memory: BTreeMap::new(),
        });
        change(thread);
        let pause = thread.header.pause.turned(!thread.open.is_empty(), now);
        thread.header = Header { revision: thread.header.revision + 1, pause, changed: now };
        self.steps.push(Step::PutThread(id.clone(), thread.header));
    }

    fn open(&mut self, thread: ThreadId, reason: usize, with_request: bool) {
        let (now, row) = (self.now(), self.row());
        let id = ElicitationId(u128::from(row) << 64 | 7);
        let reason = "why? ".chars().cycle().take(reason).collect::<String>().into();
        let elicitation = Elicitation { id, reason, holder: "a holder".into(), created: now };
        let lease = (row % 3 > 0).then(|| (Duration::from_secs(1 + row), now.after(Duration::from_secs(1 + row))));
        let open = Open { elicitation: Arc::new(elicitation), lease, anonymous: row % 2 == 0, row };
        self.steps.push(Step::PutElicitation(thread.clone(), open.clone()));
        let opened = Some((id, open.ends()));
        self.change(&thread, |thread| _ = thread.open.insert(row, open));
        if with_request {
            self.remember_request(&thread, Rpc::Increment, opened);
        }
    }

    /// Closes the oldest, if there is one.
    fn close(&mut self, thread: &ThreadId, with_request: bool) {
        let Some(known) = self.after.threads.get(thread) else { return };
        let Some((&closed, open)) = known.open.first_key_value() else { return };
        let id = open.elicitation.id;
        let (at, row) = (self.now(), self.row());
        let how = [Closing::Released, Closing::Expired, Closing::Capped][(row % 3) as usize];
        let closing = RememberedClosing { id, how, by_admin: false, at, row };
        self.steps.push(Step::DeleteElicitation(closed));
        self.steps.push(Step::PutClosing(thread.clone(), closing));
        self.change(thread, |thread| {
            thread.open.remove(&closed);
            thread.memory.insert(row, Remembered::Closing(closing));
        });
        if with_request {
            self.remember_request(thread, Rpc::Decrement, None);
        }
    }

    fn remember_request(&mut self, id: &ThreadId, rpc: Rpc, opened: Option<(ElicitationId, Option<Timestamp>)>) {
        let (at, row) = (self.now(), self.row());
        let thread = self.after.threads.get_mut(id).unwrap();
        let count = u32::try_from(thread.open.len()).unwrap();
        let answer = RememberedAnswer { count, revision: thread.header.revision, opened };
        let request_id = format!("request {row}").into();
        let request = RememberedRequest { rpc, request_id, fingerprint: u128::from(row) * 3, answer, at, row };
        thread.memory.insert(row, Remembered::Request(request.clone()));
        self.steps.push(Step::PutRequest(id.clone(), request));
    }

    /// Forgets the oldest half of what is remembered, and the thread itself if nothing keeps it.
    fn forget(&mut self, id: &ThreadId) {
        let Some(thread) = self.after.threads.get_mut(id) else { return };
        for _ in 0..thread.memory.len().div_ceil(2) {
            let (row, _) = thread.memory.pop_first().unwrap();
            self.steps.push(Step::DeleteMemory(row));
        }
        if thread.memory.is_empty() && thread.open.is_empty() {
            let revision = thread.header.revision;
            self.after.threads.remove(id);
            self.after.floor = self.after.floor.max(revision);
            self.steps.push(Step::DeleteThread(id.clone()));
            self.steps.push(Step::PutFloor(self.after.floor));
        }
    }
}
