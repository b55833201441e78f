//! The thread that owns the engine of a store that keeps, and the task that answers for it.
//!
//! C1: what is taken is answered, in the order of its commits; publishing comes before answering.
use super::engine::{Call, Engine, Fatal, Outcome};
use super::{STOPPING, nap};
use crate::clock::Clock;
use crate::core::{Answer, Refusal};
use crate::hub::{Committed, Hub};
use crate::store::OpenError;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// Calls that wait for a commit, at most. Each is a stream of some connection, whose number is limited too; this bounds
/// what they take together, at about 64 MiB, while the disk stalls.
const MAX_WAITING: usize = 32_768;

/// Hands calls to the committing thread. Dropped, it finishes what was taken and closes the store.
pub(super) struct Committer {
    inbox: Arc<Inbox>,
    thread: Option<thread::JoinHandle<()>>,
    answering: JoinHandle<()>,
}

/// Calls on their way to the thread.
#[derive(Default)]
struct Inbox {
    state: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    callers: Vec<Caller>,
    /// The thread has nothing to do and must be woken.
    idle: bool,
    stopping: bool,
}

type Caller = oneshot::Sender<Outcome>;

/// Batches on their way back.
#[derive(Default)]
struct Outbox {
    state: Mutex<Done>,
    filled: Notify,
}

#[derive(Default)]
struct Done {
    committed: Vec<Committed>,
    outcomes: Vec<Outcome>,
    callers: Vec<Caller>,
}

impl Committer {
    pub(super) fn start(
        engine: Engine,
        clock: Arc<dyn Clock>,
        hub: Arc<Hub>,
        fatal: impl Fn(Fatal) + Send + 'static,
    ) -> Result<Self, OpenError> {
        let (inbox, outbox) = (Arc::<Inbox>::default(), Arc::<Outbox>::default());
        let (calls, done) = (inbox.clone(), outbox.clone());
        let run = move || {
            let _guard = AbortOnPanic;
            commit_batches(engine, &*clock, &calls, &done, fatal);
        };
        let thread = thread::Builder::new().name("commit".into()).spawn(run);
        let thread = thread.map_err(|error| OpenError::Io(format!("start the commit thread: {error}")))?;
        let answering = tokio::spawn(answer(outbox, hub));
        Ok(Committer { inbox, thread: Some(thread), answering })
    }

    pub(super) async fn call(&self, call: Call) -> Result<Answer, Refusal> {
        let (caller, outcome) = oneshot::channel();
        {
            let mut waiting = self.inbox.state.lock().expect("nothing panics while it holds the inbox");
            if waiting.calls.len() >= MAX_WAITING {
                return Err(Refusal::StoreUnavailable { why: "too many calls wait for its disk" });
            }
            waiting.calls.push(call);
            waiting.callers.push(caller);
            if std::mem::take(&mut waiting.idle) {
                self.inbox.filled.notify_one();
            }
        }
        outcome.await.unwrap_or(Err(STOPPING))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.inbox.state.lock().expect("nothing panics while it holds the inbox").stopping = true;
        self.inbox.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.answering.abort();
    }
}

/// The thread: one batch after the other, until there is nothing left and the committer was dropped.
fn commit_batches(mut engine: Engine, clock: &dyn Clock, inbox: &Inbox, outbox: &Outbox, fatal: impl Fn(Fatal)) {
    let (mut calls, mut callers) = (Vec::new(), Vec::new());
    let (mut outcomes, mut committed) = (Vec::new(), Vec::new());
    loop {
        let mut waiting = inbox.state.lock().expect("nothing panics while it holds the inbox");
        while waiting.calls.is_empty() && !waiting.stopping {
            let wait = nap(engine.next_due(), clock);
            if wait.is_zero() {
                break;
            }
            waiting.idle = true;
            waiting = inbox.filled.wait_timeout(waiting, wait).expect("nothing panics while it holds the inbox").0;
            waiting.idle = false;
        }
        if waiting.stopping && waiting.calls.is_empty() {
            return;
        }
        std::mem::swap(&mut calls, &mut waiting.calls);
        std::mem::swap(&mut callers, &mut waiting.callers);
        drop(waiting);
        if let Err(error) = engine.process(&calls, &mut outcomes, &mut committed) {
            fatal(error);
            // Should the process live on, their outcome is unknown: an answer, even a refusal, would be a lie.
            std::mem::forget(callers);
            return;
        }
        calls.clear();
        if outcomes.is_empty() && committed.is_empty() {
            continue;
        }
        let mut done = outbox.state.lock().expect("nothing panics while it holds the outbox");
        done.committed.append(&mut committed);
        done.outcomes.append(&mut outcomes);
        done.callers.append(&mut callers);
        drop(done);
        outbox.filled.notify_one();
    }
}

/// Without the thread nobody is answered, and what it owned is half-changed: a new process starts from the store.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// The task: publishes what was committed, then answers.
async fn answer(outbox: Arc<Outbox>, hub: Arc<Hub>) {
    loop {
        outbox.filled.notified().await;
        let done = std::mem::take(&mut *outbox.state.lock().expect("nothing panics while it holds the outbox"));
        hub.publish(done.committed);
        for (caller, outcome) in done.callers.into_iter().zip(done.outcomes) {
            // A caller that went away has its change all the same.
            let _ = caller.send(outcome);
        }
    }
}
