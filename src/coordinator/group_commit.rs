//! Group commit: the calls that are waiting share one fsync.
//!
//! A task on the runtime collects the waiting calls, commits them, publishes the changes and answers. It makes the
//! commit itself, because with a disk that takes a tenth of a millisecond, handing the batch to a thread and back costs
//! more than the commit (docs/decisions/0007-commits-on-the-workers.md). A slow disk must not hold up reads and
//! watches: while commits take long, or one may have to wait for the store's own work, a separate thread commits.
//!
//! - C1: every call that is taken is answered, in the order of the commits; its change is published before it is
//!   answered.
//! - C2: the engine stays locked from taking a batch until its results are handed out, or put into the outbox by the
//!   commit thread. A commit on the runtime first hands out the outbox. So the hub gets the revisions of each thread id
//!   in order.
//! - C3: a confirmed read sees everything that any process had answered before the read arrived. The confirmation comes
//!   after the publication of its batch, and the store has confirmed by then that no other process took over.
//!
//! Lock order: the engine, then the queue or the outbox.
use super::engine::{Call, DEPOSED, Engine, Fatal, Outcome, STOPPING};
use super::nap::{LONGEST_NAP, nap};
use super::slow_disk::SlowDiskDetector;
use super::stall::StallDetector;
use crate::clock::Clock;
use crate::coordinator::hub::{Committed, Hub};
use crate::coordinator::store::OpenError;
use crate::core::{Answer, Refusal};
use crate::sync::{AtomicI64, Condvar, Mutex, MutexGuard, thread};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// Maximum number of calls that wait for a commit. While the disk stalls, they take at most 64 MiB together.
const MAX_WAITING: usize = 32_768;
/// Maximum number of calls in one batch. It keeps a batch far below the size of a journal file.
const MAX_BATCH: usize = 1_024;

/// Accepts calls, and answers them when they are committed. When it is dropped, it closes the store.
pub(super) struct Group {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    task: JoinHandle<()>,
}

struct Shared {
    /// `None`: the store is closed.
    engine: Mutex<Option<Engine>>,
    queue: Mutex<RequestQueue>,
    /// Wakes the commit thread.
    go: Condvar,
    outbox: Mutex<Results>,
    /// There are calls in the queue or results in the outbox.
    filled: Notify,
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    /// When the engine has work without a call.
    next_due: AtomicI64,
    /// While the disk is slow, the commit thread commits.
    slow_disk_detector: SlowDiskDetector,
    /// Beats with each turn of the task.
    stall_detector: StallDetector,
    fatal: Box<dyn Fn(Fatal) + Send + Sync>,
}

#[derive(Default)]
struct RequestQueue {
    calls: Vec<Call>,
    callers: Vec<Caller>,
    reads: Vec<Read>,
    go: bool,
    stopping: bool,
    /// Another process has taken the store over.
    deposed: bool,
}

impl RequestQueue {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.reads.is_empty()
    }
}

type Caller = oneshot::Sender<Outcome>;
/// A read that waits for its confirmation.
type Read = oneshot::Sender<()>;

/// The results of batches.
#[derive(Default)]
struct Results {
    committed: Vec<Committed>,
    outcomes: Vec<Outcome>,
    callers: Vec<Caller>,
    reads: Vec<Read>,
}

impl Group {
    pub(super) fn start(
        engine: Engine,
        clock: Arc<dyn Clock>,
        hub: Arc<Hub>,
        fatal: impl Fn(Fatal) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            next_due: AtomicI64::new(engine.next_due()),
            engine: Mutex::new(Some(engine)),
            queue: Mutex::default(),
            go: Condvar::new(),
            outbox: Mutex::default(),
            filled: Notify::new(),
            hub,
            stall_detector: StallDetector::new(clock.boot()),
            clock,
            slow_disk_detector: SlowDiskDetector::new(),
            fatal: Box::new(fatal),
        });
        let by_thread = shared.clone();
        let thread = thread::Builder::new().name("commit".into()).spawn(move || by_thread.commit_when_slow());
        let thread = thread.map_err(|error| OpenError::Io(format!("start the commit thread: {error}")))?;
        let task = tokio::spawn(commit_and_answer(shared.clone()));
        Ok(Group { shared, thread: Some(thread), task })
    }

    pub(super) async fn call(&self, mut call: Call) -> Result<Answer, Refusal> {
        let (caller, outcome) = oneshot::channel();
        {
            let mut queue = self.shared.queue();
            if queue.deposed {
                return Err(DEPOSED);
            }
            if queue.calls.len() >= MAX_WAITING {
                return Err(Refusal::StoreUnavailable { why: "too many calls wait for its disk" });
            }
            let waited = i64::try_from(call.waited.as_nanos()).unwrap_or(i64::MAX);
            call.came = self.shared.clock.boot().saturating_sub(waited);
            queue.calls.push(call);
            queue.callers.push(caller);
            if queue.calls.len() == 1 {
                self.shared.filled.notify_one();
            }
        }
        outcome.await.unwrap_or_else(|_| Err(self.shared.ending()))
    }

    /// Waits until the published state includes everything that any process had answered when this was called.
    pub(super) async fn confirm(&self) -> Result<(), Refusal> {
        let (read, confirmed) = oneshot::channel();
        {
            let mut queue = self.shared.queue();
            if queue.deposed {
                return Err(DEPOSED);
            }
            if queue.reads.len() >= MAX_WAITING {
                return Err(Refusal::StoreUnavailable { why: "too many reads wait for its disk" });
            }
            queue.reads.push(read);
            if queue.reads.len() == 1 {
                self.shared.filled.notify_one();
            }
        }
        confirmed.await.map_err(|_| self.shared.ending())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.queue().stopping = true;
        self.shared.go.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        drop(self.shared.engine.lock().expect("a panic ends the process").take());
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, RequestQueue> {
        self.queue.lock().expect("nothing panics while it holds the queue")
    }

    /// Why calls are not answered any more.
    fn ending(&self) -> Refusal {
        if self.queue().deposed { DEPOSED } else { STOPPING }
    }

    /// When the engine has work without a call. It is computed each time, because a sleep of the machine makes it
    /// earlier; while the thread has the engine locked, the last value is used.
    fn next_due(&self) -> i64 {
        let engine = self.engine.try_lock();
        let now = engine.ok().and_then(|engine| Some(engine.as_ref()?.next_due()));
        now.unwrap_or_else(|| self.next_due.load(Relaxed))
    }

    fn is_slow(&self) -> bool {
        self.slow_disk_detector.is_slow(self.clock.boot())
    }

    /// Commits the waiting calls, and ends leases that are due. `None`: the store is broken or closed.
    fn commit(&self, engine: &mut Option<Engine>) -> Option<Results> {
        let (calls, callers, reads) = self.take_batch();
        let mut results = Results { callers, reads, ..Results::default() };
        let writer = engine.as_mut()?;
        let before = self.clock.boot();
        self.hub.safe_time().begin(before);
        writer.extend_leases(self.stall_detector.take_stall(before), &mut results.committed);
        let mut done = writer.process(&calls, &mut results.outcomes, &mut results.committed);
        if calls.is_empty() && !results.reads.is_empty() {
            done = done.and_then(|()| writer.confirm());
        }
        self.slow_disk_detector.committed(before, self.clock.boot());
        if let Err(error) = done {
            *engine = None;
            if let Fatal::Deposed(_) = error {
                // The waiting callers learn that the outcome is unknown, and that another replica knows it.
                let mut queue = self.queue();
                *queue = RequestQueue { deposed: true, stopping: queue.stopping, ..RequestQueue::default() };
                drop(queue);
                (self.fatal)(error);
                return None;
            }
            (self.fatal)(error);
            // If `fatal` returns: the outcome of the calls is unknown, so even a refusal would be wrong.
            std::mem::forget(results);
            return None;
        }
        self.next_due.store(engine.as_ref()?.next_due(), Relaxed);
        Some(results)
    }

    fn take_batch(&self) -> (Vec<Call>, Vec<Caller>, Vec<Read>) {
        let mut queue = self.queue();
        let reads = std::mem::take(&mut queue.reads);
        if queue.calls.len() <= MAX_BATCH {
            return (std::mem::take(&mut queue.calls), std::mem::take(&mut queue.callers), reads);
        }
        (queue.calls.drain(..MAX_BATCH).collect(), queue.callers.drain(..MAX_BATCH).collect(), reads)
    }

    /// Publishes, then answers.
    fn hand_out(&self, results: Results) {
        self.hub.publish(results.committed);
        for (caller, outcome) in results.callers.into_iter().zip(results.outcomes) {
            // The change counts even if its caller has gone away.
            let _ = caller.send(outcome);
        }
        for read in results.reads {
            let _ = read.send(());
        }
    }

    fn hand_out_what_is_left(&self) {
        let left = {
            let mut outbox = self.outbox.lock().expect("nothing panics while it holds the outbox");
            self.hub.safe_time().take();
            std::mem::take(&mut *outbox)
        };
        self.hand_out(left);
        self.hub.safe_time().published();
    }

    /// Hands out the results of the commit thread, and commits one batch on the runtime unless that may take long.
    fn step(&self) -> Next {
        self.stall_detector.beat(self.clock.boot());
        self.hand_out_what_is_left();
        let nap = nap(self.next_due(), &*self.clock);
        if self.queue().is_empty() && !nap.is_zero() {
            return Next::Nap(nap);
        }
        let may_wait = |engine: &Option<Engine>| engine.as_ref().is_some_and(Engine::may_wait);
        let free = (!self.is_slow()).then(|| self.engine.try_lock().ok()).flatten();
        let Some(mut engine) = free.filter(|engine| !may_wait(engine)) else {
            self.queue().go = true;
            self.go.notify_one();
            return Next::Thread;
        };
        self.hand_out_what_is_left();
        let Some(results) = self.commit(&mut engine) else { return Next::End };
        self.hand_out(results);
        self.hub.safe_time().end();
        Next::Yield
    }

    /// The loop of the commit thread.
    fn commit_when_slow(&self) {
        let _guard = AbortOnPanic;
        loop {
            let mut queue = self.queue();
            while !queue.go && !queue.stopping {
                queue = self.go.wait(queue).expect("nothing panics while it holds the queue");
            }
            if queue.stopping && queue.is_empty() {
                return;
            }
            drop(queue);
            let mut engine = self.engine.lock().expect("a panic ends the process");
            let Some(mut results) = self.commit(&mut engine) else { return };
            {
                let mut outbox = self.outbox.lock().expect("nothing panics while it holds the outbox");
                outbox.committed.append(&mut results.committed);
                outbox.outcomes.append(&mut results.outcomes);
                outbox.callers.append(&mut results.callers);
                outbox.reads.append(&mut results.reads);
                self.hub.safe_time().wait();
                let mut queue = self.queue();
                queue.go = !queue.is_empty() && self.is_slow();
            }
            drop(engine);
            self.filled.notify_one();
        }
    }
}

/// The task on the runtime.
async fn commit_and_answer(shared: Arc<Shared>) {
    loop {
        // The guard is not held across an await: a task that is dropped while others panic has not panicked itself.
        let next = {
            let _guard = AbortOnPanic;
            shared.step()
        };
        match next {
            Next::Nap(time) => _ = tokio::time::timeout(time, shared.filled.notified()).await,
            // Wakes regularly, so that the stall detector sees a beat while a commit takes long.
            Next::Thread => _ = tokio::time::timeout(LONGEST_NAP, shared.filled.notified()).await,
            Next::Yield => tokio::task::yield_now().await,
            Next::End => return,
        }
    }
}

/// The next action of the task.
enum Next {
    /// Wait for calls, or for results of the commit thread, at most for this time: then something is due.
    Nap(Duration),
    /// Wait for the results of the commit thread.
    Thread,
    /// Let answered callers and reads run before the next batch.
    Yield,
    /// Stop: the store is closed.
    End,
}

/// After a panic no call can be answered, and the state may be inconsistent: a new process starts from the store.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
