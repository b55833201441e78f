//! Runs the engine: takes calls from many tasks, one batch after the other, and answers when they are committed.
//!
//! With a store that keeps nothing, a call is processed where it is made, under a lock. With one that keeps, calls are
//! grouped (`group.rs`).
mod engine;
mod expiry_queue;
mod group_commit;
pub(crate) mod hub;
pub(crate) mod metrics;
pub(crate) mod quota;
mod quota_tracker;
mod slow_disk;
mod stall;
pub(crate) mod store;

pub use engine::{Call, Engine, Fatal, IDLE_SPAN, Outcome};

use crate::clock::Clock;
use crate::coordinator::hub::Hub;
use crate::coordinator::metrics::Metrics;
use crate::coordinator::quota::{Account, Limits};
use crate::coordinator::store::{OpenError, Store};
use crate::core::types::{MIN_TTL, ThreadId};
use crate::core::{Change, Command, Refusal, Timestamp};
use crate::sync::{Mutex, MutexGuard};
use group_commit::Group;
use stall::StallDetector;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long the keeper of the leases sleeps at most: tokio's timers stand still while the machine sleeps, leases do not. No
/// lease is shorter either: none that begins while it sleeps ends before it wakes.
const LONGEST_NAP: Duration = MIN_TTL;

/// How the coordinator is to be.
#[derive(Default)]
pub struct Settings {
    /// The lease of an increment that asks for none, 1 s to 24 h; `None`: for ever.
    pub anonymous_ttl: Option<Duration>,
    /// What callers may have; `None`: as much as they like.
    pub limits: Option<Limits>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// Who is told of every change.
    pub witness: Option<Box<dyn ChangeObserver>>,
}

/// A change that is durable, or needs not be.
#[derive(Debug)]
pub struct Changed<'a> {
    /// When it was made.
    pub now: Timestamp,
    /// Of which thread.
    pub thread: &'a ThreadId,
    /// What has changed.
    pub change: &'a Change,
    /// Who has asked for it; `None`: the end of a lease, or nobody says.
    pub by: Option<&'a Account>,
}

/// Is told of every change once it is committed, in the order of the revisions of each thread, and before anybody is
/// answered or sees it. Called where calls are judged: it must not wait.
pub trait ChangeObserver: Send + 'static {
    /// Something has changed.
    fn changed(&mut self, changed: &Changed<'_>);

    /// Whether it can take no more. Then increments are refused.
    fn is_full(&self) -> bool {
        false
    }
}

/// Takes calls. Dropped, it stops: what was taken is finished, and the store is closed.
pub struct Coordinator {
    hub: Arc<Hub>,
    mode: Mode,
}

enum Mode {
    /// The store keeps nothing: calls are processed where they are made.
    Inline { inline: Arc<Inline>, keeper: JoinHandle<()> },
    /// Calls share commits.
    Grouped(Group),
}

impl Coordinator {
    /// As [`Coordinator::start_with`], without limits.
    ///
    /// # Errors
    /// The store cannot be loaded.
    pub fn start(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        anonymous_ttl: Option<Duration>,
        fatal: impl Fn(Fatal) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::start_with(store, clock, Settings { anonymous_ttl, ..Settings::default() }, fatal)
    }

    /// Opens the engine on `store` and starts it, on the tokio runtime that this is called on. `fatal` is called when
    /// the store cannot be trusted any more; it has to end the process, and until then nobody is answered.
    ///
    /// # Errors
    /// The store cannot be loaded.
    pub fn start_with(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        fatal: impl Fn(Fatal) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let hub = Arc::<Hub>::default();
        let keeps = store.keeps();
        let engine = Engine::with(store, clock.clone(), settings, &hub)?;
        let mode = match keeps {
            true => Mode::Grouped(Group::start(engine, clock, hub.clone(), fatal)?),
            false => {
                let pulse = StallDetector::new(clock.boot());
                let inline = Arc::new(Inline { engine: Mutex::new(engine), clock, hub: hub.clone(), pulse });
                let keeper = tokio::spawn(keep_leases(inline.clone()));
                Mode::Inline { inline, keeper }
            }
        };
        Ok(Coordinator { hub, mode })
    }

    /// What is committed, for reads and watches.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Judges a command, and commits and publishes what it changes.
    ///
    /// # Errors
    /// It is refused; nothing was changed.
    ///
    /// # Cancel safety
    /// Dropped, the command may still be carried out.
    pub async fn call(&self, thread: ThreadId, command: Command) -> Result<crate::core::Answer, Refusal> {
        self.call_by(Call::from((thread, command))).await
    }

    /// As [`Coordinator::call`], with who calls.
    ///
    /// # Errors
    /// It is refused; nothing was changed.
    ///
    /// # Cancel safety
    /// Dropped, the command may still be carried out.
    pub async fn call_by(&self, call: Call) -> Result<crate::core::Answer, Refusal> {
        match &self.mode {
            Mode::Inline { inline, .. } => inline.process(&[call]).unwrap_or(Err(STOPPING)),
            Mode::Grouped(group) => group.call(call).await,
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        if let Mode::Inline { keeper, .. } = &self.mode {
            keeper.abort();
        }
    }
}

/// The answer to what cannot be taken any more.
const STOPPING: Refusal = Refusal::StoreUnavailable { why: "the server is stopping" };

/// An engine whose store keeps nothing.
struct Inline {
    engine: Mutex<Engine>,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    pulse: StallDetector,
}

impl Inline {
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().expect("the engine does not panic")
    }

    /// Processes a batch and publishes it; returns the outcome of the last call.
    fn process(&self, calls: &[Call]) -> Option<Outcome> {
        let (mut outcomes, mut committed) = (Vec::with_capacity(1), Vec::with_capacity(1));
        let mut engine = self.engine();
        let now = self.clock.boot();
        self.hub.horizon().begin(now);
        engine.stood_still(self.pulse.stood_still(now), &mut committed);
        engine.process(calls, &mut outcomes, &mut committed).expect("a store that keeps nothing does not fail");
        // Published under the lock: of one thread, revisions must reach the hub in their order.
        self.hub.publish(committed);
        self.hub.horizon().end();
        outcomes.pop()
    }
}

/// Lets leases end by themselves.
async fn keep_leases(inline: Arc<Inline>) {
    loop {
        inline.pulse.beat(inline.clock.boot());
        let due = inline.engine().next_due();
        let wait = nap(due, &*inline.clock);
        if wait.is_zero() {
            inline.process(&[]);
        } else {
            tokio::time::sleep(wait).await;
        }
    }
}

/// How long to sleep until `due`.
fn nap(due: i64, clock: &dyn Clock) -> Duration {
    let left = due.saturating_sub(clock.boot()).max(0);
    Duration::from_nanos(left.unsigned_abs()).min(LONGEST_NAP)
}
