//! Runs the engine: takes calls from many tasks, processes them in batches, and answers each when it is committed.
//!
//! With a store that keeps nothing (memory), each call is processed in the task that makes it, under a lock. With other
//! stores, calls share commits (`group_commit.rs`).
mod engine;
mod expiry_queue;
mod group_commit;
pub(crate) mod hub;
pub(crate) mod metrics;
mod nap;
mod observer;
pub(crate) mod quota;
mod quota_tracker;
mod settings;
mod slow_disk;
mod stall;
pub(crate) mod store;

pub use engine::{Call, Engine, Fatal, IDLE_SPAN, Outcome};
pub use observer::{ChangeObserver, Changed};
pub use settings::Settings;

use crate::clock::Clock;
use crate::coordinator::hub::Hub;
use crate::coordinator::store::{OpenError, Store};
use crate::core::types::ThreadId;
use crate::core::{Command, Refusal};
use crate::sync::{Mutex, MutexGuard};
use engine::STOPPING;
use group_commit::Group;
use nap::nap;
use stall::StallDetector;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Accepts calls. When it is dropped, it finishes the accepted calls and closes the store.
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

    /// Opens the engine on `store` and starts it on the current tokio runtime. `fatal` is called when the store can no
    /// longer be trusted, or when another replica has taken over. After [`Fatal::Broken`] it must end the process; no
    /// call is answered until then.
    ///
    /// # Errors
    /// The store cannot be loaded.
    pub fn start_with(
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        fatal: impl Fn(Fatal) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::start_on(Arc::default(), store, clock, settings, fatal)
    }

    /// As [`Coordinator::start_with`], with a hub that may already have watchers: they continue.
    ///
    /// # Errors
    /// The store cannot be loaded.
    pub fn start_on(
        hub: Arc<Hub>,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        fatal: impl Fn(Fatal) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let keeps = store.keeps();
        let engine = Engine::with(store, clock.clone(), settings, &hub)?;
        let mode = match keeps {
            true => Mode::Grouped(Group::start(engine, clock, hub.clone(), fatal)?),
            false => {
                let stall_detector = StallDetector::new(clock.boot());
                let inline = Arc::new(Inline { engine: Mutex::new(engine), clock, hub: hub.clone(), stall_detector });
                let keeper = tokio::spawn(keep_leases(inline.clone()));
                Mode::Inline { inline, keeper }
            }
        };
        Ok(Coordinator { hub, mode })
    }

    /// The committed state, for reads and watches.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Evaluates a command, and commits and publishes its change.
    ///
    /// # Errors
    /// The command is refused; nothing was changed, except possibly with [`Refusal::NotLeading`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may still be carried out.
    pub async fn call(&self, thread: ThreadId, command: Command) -> Result<crate::core::Answer, Refusal> {
        self.call_by(Call::from((thread, command))).await
    }

    /// As [`Coordinator::call`], with the caller.
    ///
    /// # Errors
    /// As [`Coordinator::call`].
    ///
    /// # Cancel safety
    /// As [`Coordinator::call`].
    pub async fn call_by(&self, call: Call) -> Result<crate::core::Answer, Refusal> {
        match &self.mode {
            Mode::Inline { inline, .. } => inline.process(&[call]).unwrap_or(Err(STOPPING)),
            Mode::Grouped(group) => group.call(call).await,
        }
    }

    /// Waits until the hub shows at least everything that any process had answered when this was called.
    ///
    /// # Errors
    /// Another replica has taken over, or the store is overloaded: the hub may show an old state.
    pub async fn confirm(&self) -> Result<(), Refusal> {
        match &self.mode {
            Mode::Inline { .. } => Ok(()),
            Mode::Grouped(group) => group.confirm().await,
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

/// An engine whose store keeps nothing.
struct Inline {
    engine: Mutex<Engine>,
    clock: Arc<dyn Clock>,
    hub: Arc<Hub>,
    stall_detector: StallDetector,
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
        self.hub.safe_time().begin(now);
        engine.extend_leases(self.stall_detector.take_stall(now), &mut committed);
        engine.process(calls, &mut outcomes, &mut committed).expect("a store that keeps nothing does not fail");
        // Published under the lock, because the revisions of a thread must reach the hub in order.
        self.hub.publish(committed);
        self.hub.safe_time().end();
        outcomes.pop()
    }
}

/// Ends leases.
async fn keep_leases(inline: Arc<Inline>) {
    loop {
        inline.stall_detector.beat(inline.clock.boot());
        let due = inline.engine().next_due();
        let wait = nap(due, &*inline.clock);
        if wait.is_zero() {
            inline.process(&[]);
            // Callers get a turn: many leases may end at the same time.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(wait).await;
        }
    }
}
