//! The thread that copies full journal files into the database, and the files that it exchanges with the writer.
//!
//! The writer hands over each full file and takes a free one. The thread applies several full files in one transaction,
//! or fewer if the writer waits for a free one. If there is no space even with the reserve, the thread stops until it
//! is asked to try again; the writer then runs out of files, and refuses batches.
//!
//! - K1: the writer waits only while the thread works, and then gets a free file or the reason why there is none.
use super::database::{ApplyError, Database, View, caught};
use super::disk::{Disk, Health, is_no_space, is_out_of_files};
use super::journal::{self, Journal, ReadError};
#[cfg(target_os = "linux")]
use super::lower_priority::lower_priority;
use super::segments::{self, MAX_SEGMENTS, Pool, Segment};
use crate::coordinator::store::rows::RowCodec;
use crate::coordinator::store::{Contents, OpenError, ops};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

/// While the writer does not wait for a file, a transaction begins when this many files are full.
const ENOUGH: usize = 4;

/// The maximum wait for a view of the database: far longer than a transaction takes.
const VIEW_WITHIN: Duration = Duration::from_secs(30);

/// The writer's side.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why there is no file to write to.
pub(super) enum NoFile {
    /// The disk is full: no file becomes free until there is space.
    DiskFull,
    /// The database cannot be trusted any more.
    Broken(String),
}

/// What the writer and the thread share.
struct Shared {
    disk: Arc<dyn Disk>,
    health: Arc<Health>,
    /// The store, in messages.
    name: String,
    state: Mutex<State>,
    changed: Condvar,
    /// Why the database cannot be trusted any more. Outside of the lock, so that no commit waits for the thread, which
    /// has a low priority and may be stopped while it holds the lock.
    broken: OnceLock<String>,
}

#[derive(Default)]
struct State {
    pool: Pool,
    database: Option<Database>,
    writer_waits: bool,
    out_of_space: bool,
    /// There may be space again: try to apply the full files.
    retry: bool,
    finishing: bool,
    /// The thread must end without applying the rest.
    abandoned: bool,
}

impl State {
    fn is_closed(&self) -> bool {
        self.finishing || self.abandoned
    }

    /// Whether the thread has something to do now.
    fn has_work(&self) -> bool {
        let wanted = match self.out_of_space {
            true => self.retry,
            false => self.pool.full.len() >= ENOUGH || self.writer_waits && !self.pool.full.is_empty(),
        };
        wanted || self.finishing || self.abandoned
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the pool")
    }
}

impl Checkpoints {
    pub(super) fn start(
        database: Database,
        pool: Pool,
        disk: Arc<dyn Disk>,
        health: Arc<Health>,
        name: &str,
    ) -> Result<Self, OpenError> {
        let state = Mutex::new(State { pool, database: Some(database), ..State::default() });
        let (changed, broken, name) = (Condvar::new(), OnceLock::new(), name.to_owned());
        let shared = Arc::new(Shared { disk, health, name, state, changed, broken });
        let by_thread = shared.clone();
        let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || by_thread.run());
        let thread = thread.map_err(|error| OpenError::Io(format!("start the checkpoint thread: {error}")))?;
        Ok(Checkpoints { shared, thread: Some(thread) })
    }

    /// Reads everything that the database has.
    pub(super) fn read(&self, codec: RowCodec, name: &str) -> Result<Contents, OpenError> {
        self.shared.lock().database.as_ref().expect("nothing is written before all is read").read(codec, name)
    }

    pub(super) fn viewer(&self) -> Viewer {
        Viewer(self.shared.clone())
    }

    /// Why the database cannot be trusted any more.
    pub(super) fn broken(&self) -> Option<&str> {
        self.shared.broken.get().map(String::as_str)
    }

    /// Whether the database has space to apply full files. If not, the thread tries again.
    pub(super) fn retry(&self) -> bool {
        let mut state = self.shared.lock();
        state.retry = state.out_of_space;
        self.shared.changed.notify_all();
        !state.out_of_space
    }

    /// Hands over a full file.
    pub(super) fn hand_over(&self, full: Segment) {
        self.shared.lock().pool.full.push_back(full);
        self.shared.changed.notify_all();
    }

    /// Whether there is certainly a free file now. Does not wait: `false` if the thread has the lock.
    pub(super) fn has_free_segment(&self) -> bool {
        self.shared.state.try_lock().is_ok_and(|state| !state.pool.free.is_empty())
    }

    /// A file to write to: a free one, a new one, or the first that becomes free.
    pub(super) fn free_segment(&self) -> Result<Segment, NoFile> {
        let mut state = self.shared.lock();
        loop {
            if let Some(free) = state.pool.free.pop() {
                return Ok(free);
            }
            if let Some(why) = self.broken() {
                return Err(NoFile::Broken(why.to_owned()));
            }
            if state.out_of_space {
                return Err(NoFile::DiskFull);
            }
            // On a full disk the remaining space is that of the reserve, which is for the database.
            let Shared { disk, health, .. } = &*self.shared;
            let may_grow = !health.full.load(Relaxed) && !disk.is_low();
            if state.pool.next_number < MAX_SEGMENTS && may_grow {
                match segments::create(&**disk, state.pool.next_number) {
                    Ok(made) => {
                        state.pool.next_number += 1;
                        return Ok(made);
                    }
                    Err(error) if is_no_space(&error) => health.full.store(true, Relaxed),
                    // No new file is needed: the writer waits for an existing one.
                    Err(error) if is_out_of_files(&error) => {}
                    Err(error) => return Err(NoFile::Broken(format!("make a file of the journal: {error}"))),
                }
            }
            state.writer_waits = true;
            self.shared.changed.notify_all();
            state = self.shared.changed.wait(state).expect("nothing panics while it holds the pool");
            state.writer_waits = false;
        }
    }

    /// Applies the rest of the journal, and closes the database.
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

/// Creates views of the database, from any thread.
#[derive(Clone)]
pub(super) struct Viewer(Arc<Shared>);

impl Viewer {
    /// The database after its latest transaction. Waits for a running one.
    pub(super) fn view(&self, name: &str) -> Result<View, OpenError> {
        let unusable = |why: &str| OpenError::Io(format!("{name}: {why}"));
        let busy = |state: &mut State| {
            state.database.is_none() && !state.is_closed() && !state.out_of_space && self.0.broken.get().is_none()
        };
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), VIEW_WITHIN, busy);
        let (state, _) = waited.expect("nothing panics while it holds the pool");
        match (&state.database, self.0.broken.get()) {
            (_, Some(why)) => Err(unusable(why)),
            _ if state.is_closed() => Err(unusable("the store was closed")),
            (Some(database), _) => database.view(name),
            _ if state.out_of_space => Err(unusable("the disk is full: make room, and try again")),
            _ => Err(unusable("the database has been busy for too long: try again")),
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.shared.lock().abandoned = true;
        self.shared.changed.notify_all();
    }
}

/// The thread's side.
impl Shared {
    fn run(&self) {
        #[cfg(target_os = "linux")]
        lower_priority();
        loop {
            let mut state = self.lock();
            while !state.has_work() {
                state = self.changed.wait(state).expect("nothing panics while it holds the pool");
            }
            let full: Vec<_> = state.pool.full.drain(..).collect();
            let finishing = state.finishing;
            let database = state.database.take();
            state.retry = false;
            let nothing_left = finishing && full.is_empty();
            if state.abandoned || nothing_left {
                drop(state);
                drop(database);
                return;
            }
            drop(state);
            let (database, applied) = caught(|| self.apply_segments(database, &full))
                .unwrap_or_else(|panic| (None, Err(ApplyError::Broken(panic))));
            let full = full.into_iter();
            // Files are truncated before the lock is taken, so that the writer does not wait for it.
            let (free, full): (Vec<_>, Vec<_>) = match applied {
                Ok(()) => (full.map(Segment::reused).collect(), Vec::new()),
                Err(_) => (Vec::new(), full.collect()),
            };
            let mut state = self.lock();
            state.database = database;
            state.pool.free.extend(free);
            full.into_iter().rev().for_each(|segment| state.pool.full.push_front(segment));
            state.out_of_space = matches!(applied, Err(ApplyError::NoSpace));
            let is_broken = matches!(applied, Err(ApplyError::Broken(_)));
            if let Err(ApplyError::Broken(why)) = applied {
                self.health.broken.store(true, Relaxed);
                let _ = self.broken.set(why);
            }
            if state.out_of_space {
                self.health.full.store(true, Relaxed);
            }
            self.changed.notify_all();
            // The journal keeps what could not be applied, for the next process.
            if is_broken || finishing && state.out_of_space {
                return;
            }
        }
    }

    /// Applies the files in one transaction. If there is no space, the database is closed, because it must be reopened
    /// before it can be used again.
    fn apply_segments(
        &self,
        database: Option<Database>,
        full: &[Segment],
    ) -> (Option<Database>, Result<(), ApplyError>) {
        let database = match database {
            Some(database) => database,
            None => match Database::open(&self.disk, &self.health, &self.name) {
                Ok(database) => database,
                Err(unopened) if unopened.no_space => return (None, Err(ApplyError::NoSpace)),
                Err(unopened) => return (None, Err(ApplyError::Broken(unopened.error.to_string()))),
            },
        };
        let damaged = |error| match error {
            ReadError::Io(error) => ApplyError::Broken(format!("read the journal: {error}")),
            ReadError::Damaged(why) => ApplyError::Broken(why),
        };
        let payloads: Result<Vec<_>, _> =
            full.iter().map(|segment| journal::payloads(segment, database.seed).map_err(damaged)).collect();
        let done = payloads.and_then(|payloads| {
            let changes = ops::decode(payloads.iter().flatten().map(Vec::as_slice));
            let changes = changes.ok_or_else(|| ApplyError::Broken("the journal is invalid".into()))?;
            database.apply(&changes, full.last().map_or(0, |segment| segment.last))
        });
        match done {
            Err(ApplyError::NoSpace) => (None, done),
            done => (Some(database), done),
        }
    }
}
