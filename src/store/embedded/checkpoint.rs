//! The thread that carries the journal into the database, and the files that go back and forth.
//!
//! The writer hands over a file when it is full and takes a free one. The thread takes up several full files in one
//! transaction, or fewer when the writer waits for one. When there is no space even with the reserve, it goes on trying
//! once a second; the writer then runs out of files, and refuses.
use super::base::{ApplyError, Base};
use super::disk::{Disk, Health};
use super::journal::{self, Journal, MAX_SEGMENTS, Pool, ReadError, Segment};
use super::rows::Stamper;
use crate::store::{Contents, OpenError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Full files that are worth a transaction, while the writer has others.
const ENOUGH: usize = 4;
/// How often the database is opened anew after it ran out of space.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// Of nice(1).
#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

/// The writer's end.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why there is no file to write to.
pub(super) enum NoFile {
    /// Nor will there be, until there is space.
    DiskFull,
    /// The database cannot be trusted any more.
    Broken(String),
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pool: Pool,
    base: Option<Base>,
    writer_waits: bool,
    out_of_space: bool,
    broken: Option<String>,
    finishing: bool,
}

impl State {
    /// Whether the thread has something to do now.
    fn has_work(&self) -> bool {
        self.finishing || self.pool.full.len() >= ENOUGH || self.writer_waits && !self.pool.full.is_empty()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the pool")
    }
}

impl Checkpoints {
    pub(super) fn start(
        base: Base,
        free: Vec<Segment>,
        disk: Arc<dyn Disk>,
        health: Arc<Health>,
        name: &str,
    ) -> Result<Self, OpenError> {
        let shared = Arc::<Shared>::default();
        {
            let mut state = shared.lock();
            state.pool.made = free.len() as u64 + 1;
            state.pool.free = free;
            state.base = Some(base);
        }
        let thread = Carrier { shared: shared.clone(), disk: disk.clone(), health, name: name.to_owned() };
        let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || thread.run());
        let thread = thread.map_err(|error| OpenError::Io(format!("start the checkpoint thread: {error}")))?;
        Ok(Checkpoints { shared, disk, thread: Some(thread) })
    }

    /// Reads everything that the database has.
    pub(super) fn read(&self, stamper: Stamper, name: &str) -> Result<Contents, OpenError> {
        self.shared.lock().base.as_ref().expect("nothing is written before all is read").read(stamper, name)
    }

    /// Why the database cannot be trusted any more.
    pub(super) fn broken(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// Whether the database takes up what there is.
    pub(super) fn is_working(&self) -> bool {
        !self.shared.lock().out_of_space
    }

    /// A full file, to be taken up.
    pub(super) fn take_up(&self, full: Segment) {
        self.shared.lock().pool.full.push_back(full);
        self.shared.changed.notify_all();
    }

    /// A file to write to: a free one, a new one, or the first that becomes free.
    pub(super) fn free_segment(&self) -> Result<Segment, NoFile> {
        let mut state = self.shared.lock();
        loop {
            if let Some(free) = state.pool.free.pop() {
                return Ok(free);
            }
            if let Some(why) = &state.broken {
                return Err(NoFile::Broken(why.clone()));
            }
            if state.out_of_space {
                return Err(NoFile::DiskFull);
            }
            if state.pool.made < MAX_SEGMENTS && !self.disk.is_low() {
                let number = state.pool.made;
                if let Ok(made) = journal::create(&*self.disk, number) {
                    state.pool.made += 1;
                    return Ok(made);
                }
            }
            state.writer_waits = true;
            self.shared.changed.notify_all();
            state = self.shared.changed.wait(state).expect("nothing panics while it holds the pool");
            state.writer_waits = false;
        }
    }

    /// Carries over all that is left, and closes the database.
    pub(super) fn finish(&mut self, journal: Journal) {
        if !journal.is_empty() {
            self.shared.lock().pool.full.push_back(journal.into_active());
        }
        self.shared.lock().finishing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's end.
struct Carrier {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    health: Arc<Health>,
    name: String,
}

impl Carrier {
    fn run(self) {
        // Nobody waits for it as a rule, and those who are served must not wait for a core. On Linux this is the
        // thread's own priority (setpriority(2), notes); elsewhere it would be that of the process.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        loop {
            let mut state = self.shared.lock();
            while !state.has_work() {
                state = self.shared.changed.wait(state).expect("nothing panics while it holds the pool");
            }
            let full: Vec<_> = state.pool.full.drain(..).collect();
            let finishing = state.finishing;
            if full.is_empty() {
                state.base = None;
                return;
            }
            let base = state.base.take();
            drop(state);
            let (base, carried) = self.carry(base, &full);
            let mut state = self.shared.lock();
            state.base = base;
            match carried {
                Ok(()) => {
                    state.out_of_space = false;
                    state.pool.free.extend(full.into_iter().map(Segment::reused));
                }
                Err(ApplyError::Broken(why)) => {
                    state.broken = Some(why);
                    self.shared.changed.notify_all();
                    return;
                }
                Err(ApplyError::NoSpace) => {
                    state.out_of_space = true;
                    full.into_iter().rev().for_each(|segment| state.pool.full.push_front(segment));
                    if finishing {
                        // The journal keeps it for the next process.
                        return;
                    }
                }
            }
            self.shared.changed.notify_all();
            let pause = state.out_of_space;
            drop(state);
            if pause {
                thread::sleep(REOPEN_EVERY);
            }
        }
    }

    /// Takes up the files in one transaction. A database that has run out of space is closed: it must be opened anew.
    fn carry(&self, base: Option<Base>, full: &[Segment]) -> (Option<Base>, Result<(), ApplyError>) {
        let base = match base {
            Some(base) => base,
            None => match Base::open(&self.disk, &self.health, &self.name) {
                Ok((base, _)) => base,
                Err(OpenError::Io(_)) => return (None, Err(ApplyError::NoSpace)),
                Err(error) => return (None, Err(ApplyError::Broken(error.to_string()))),
            },
        };
        let damaged = |error| match error {
            ReadError::Io(error) => ApplyError::Broken(format!("read the journal: {error}")),
            ReadError::Damaged(why) => ApplyError::Broken(why),
        };
        let payloads: Result<Vec<_>, _> = full.iter().map(|segment| segment.payloads().map_err(damaged)).collect();
        let done = payloads.and_then(|payloads| {
            let changes = journal::changes(payloads.iter().flatten().map(Vec::as_slice));
            let changes = changes.ok_or_else(|| ApplyError::Broken("the journal makes no sense".into()))?;
            base.apply(&changes, full.last().map_or(0, |segment| segment.last))
        });
        match done {
            Err(ApplyError::NoSpace) => (None, done),
            done => (Some(base), done),
        }
    }
}
