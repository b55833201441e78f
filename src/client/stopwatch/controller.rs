//! Registers stopwatches under threads.
//!
//! 1. One task follows the watch for all threads of a controller. A registration sends it at most one command: follow a
//!    new thread, or check later whether a thread is idle. A stopwatch that runs out sends one to request a
//!    confirmation.
//! 2. A thread is followed for [`LINGER`](super::threads::LINGER) after its last registration ends: the next command of
//!    the thread starts with exact knowledge and costs the coordinator nothing.
use super::{
    Stopwatch,
    command::Command,
    follow,
    link::{Link, LinkReporter},
    machine_sleep,
    paused_time::Source,
    thread::{FollowConfig, ThreadClock},
    threads::{FollowedThread, Threads},
};
use crate::client::{Client, Error, PauseState};
use crate::core::types::{InvalidField, ThreadId};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// The default of `disconnect_grace`.
const DISCONNECT_GRACE: Duration = Duration::from_secs(30);

/// Keeps stopwatches in step with the pauses of their threads. One per process is enough; clones share it.
///
/// The controller watches the threads that stopwatches are registered under, as long as it or one of its registrations
/// exists, and reconnects by itself. While it is disconnected:
/// - a thread keeps its last state; a paused one keeps it for at most `disconnect_grace` (30 s by default), since the
///   expiry of its leases cannot be seen;
/// - a stopwatch that runs out waits up to `disconnect_grace` for the connection, and then expires.
///
/// After it has reconnected, pauses that began or ended meanwhile are credited exactly.
#[derive(Debug, Clone)]
pub struct StopwatchController(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Arc<FollowConfig>,
    threads: Arc<Threads>,
    /// `None` without a follower: states come from [`StopwatchController::apply`] alone.
    follower: Option<mpsc::UnboundedSender<Command>>,
    link: LinkReporter,
    /// Set under the lock of the threads.
    closed: OnceLock<()>,
}

impl StopwatchController {
    /// A controller that follows the coordinator of `client`, with a `disconnect_grace` of 30 s.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(client: Client) -> Self {
        Self::with_disconnect_grace(client, DISCONNECT_GRACE)
    }

    /// A controller with another `disconnect_grace`; any value is allowed, zero too.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_disconnect_grace(client: Client, grace: Duration) -> Self {
        Self::with_sleep_clock(client, grace, machine_sleep::total)
    }

    /// A controller that calls `slept` to learn how long the machine has been asleep since some fixed moment. For systems
    /// where this library cannot find that out (it can on Linux), and for simulations.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_sleep_clock(client: Client, grace: Duration, slept: fn() -> Duration) -> Self {
        let (follower, commands) = mpsc::unbounded_channel();
        let link = LinkReporter::new(Link::Connecting, grace);
        let threads = Arc::<Threads>::default();
        tokio::spawn(follow::follow(client.watch(), threads.clone(), commands, link.clone()));
        let config = Arc::new(FollowConfig {
            follower: Some(follower.downgrade()),
            disconnect_grace: grace,
            machine_sleep: slept,
        });
        Self(Arc::new(Shared { config, threads, follower: Some(follower), link, closed: OnceLock::new() }))
    }

    /// A controller without a coordinator: states come from [`StopwatchController::apply`] alone, and a stopwatch expires
    /// without a confirmation. For tests, and for programs that get the states in another way.
    pub fn detached() -> Self {
        let machine_sleep = machine_sleep::total;
        let config = Arc::new(FollowConfig { follower: None, disconnect_grace: Duration::ZERO, machine_sleep });
        let link = LinkReporter::new(Link::Connected, Duration::ZERO);
        let (threads, closed) = Default::default();
        Self(Arc::new(Shared { config, threads, follower: None, link, closed }))
    }

    /// Makes `stopwatch` follow `thread_id` until the registration is dropped.
    ///
    /// If the thread is paused, the stopwatch starts paused; pauses before the registration are not credited. A stopwatch
    /// follows one thread at a time, the one registered last. `thread_id`: 1 to 256 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: `thread_id` is out of its limits; nothing changed.
    pub fn register(&self, thread_id: &str, stopwatch: &Stopwatch) -> Result<Registration, Error> {
        ThreadId::parse("thread_id", thread_id)?;
        let (thread_id, clock) = self.0.add_registration(thread_id);
        let number = stopwatch.follow(clock);
        Ok(Registration { shared: self.0.clone(), stopwatch: stopwatch.clone(), thread_id, number })
    }

    /// Ends the connection. Registered stopwatches continue, and no thread pauses them from now on: they expire at the
    /// end of their limits, without a confirmation. The same applies to later registrations. Calling it again does
    /// nothing.
    ///
    /// Not necessary at the end of a program. To end a stopwatch early, drop it.
    pub fn close(&self) {
        let clocks: Vec<_> = {
            let threads = self.0.threads.lock();
            if self.0.closed.set(()).is_err() {
                return;
            }
            threads.values().map(|thread| thread.clock.clone()).collect()
        };
        self.0.send(Command::Close);
        self.0.link.closed();
        clocks.iter().for_each(|clock| clock.close());
    }

    /// Applies a state from another source as if the watch had delivered it. States of threads without stopwatches, and
    /// states older than the known one, are ignored.
    pub fn apply(&self, state: &PauseState) {
        if let Some(clock) = self.0.threads.clock(&state.thread_id) {
            clock.apply(state, Source::Program);
        }
    }

    /// The state of the connection to the coordinator, and its changes. Lost connections, and the end of the grace, are
    /// also logged as warnings of `tracing`.
    ///
    /// ```no_run
    /// # async fn example(controller: pausewatch::stopwatch::StopwatchController) {
    /// use pausewatch::stopwatch::Link;
    ///
    /// let mut link = controller.link();
    /// while link.changed().await.is_ok() {
    ///     match &*link.borrow_and_update() {
    ///         Link::Disconnected { reason, .. } => eprintln!("cut off: {reason}"),
    ///         Link::GraceSpent { since, .. } => eprintln!("cut off for {:?}: limits hold", since.elapsed()),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn link(&self) -> watch::Receiver<Link> {
        self.0.link.subscribe()
    }

    /// The latest refusal of followed threads.
    #[cfg(feature = "cli")]
    pub(crate) fn refusal(&self) -> watch::Receiver<Option<super::Refusal>> {
        self.0.link.subscribe_to_refusals()
    }
}

impl Shared {
    fn add_registration(&self, thread_id: &str) -> (Arc<str>, Arc<ThreadClock>) {
        let mut threads = self.threads.lock();
        if let Some((id, thread)) = threads.get_key_value(thread_id) {
            let (id, clock) = (id.clone(), thread.clock.clone());
            threads.entry(id.clone()).and_modify(|thread| thread.registrations += 1);
            return (id, clock);
        }
        let id: Arc<str> = thread_id.into();
        let clock = Arc::new(ThreadClock::new(id.clone(), self.config.clone()));
        if self.closed.get().is_some() {
            clock.close();
        }
        let idle_since = Instant::now();
        let thread = FollowedThread { clock: clock.clone(), registrations: 1, idle_since, idle_check_pending: false };
        threads.insert(id.clone(), thread);
        // Under the lock, so that it is ordered with the follower's removal of an idle thread.
        self.send(Command::Follow(id.clone()));
        (id, clock)
    }

    fn remove_registration(&self, thread_id: &Arc<str>) {
        let mut threads = self.threads.lock();
        let Some(thread) = threads.get_mut(thread_id) else { return };
        thread.registrations -= 1;
        if thread.registrations > 0 {
            return;
        }
        thread.idle_since = Instant::now();
        if self.follower.is_none() || self.closed.get().is_some() {
            threads.remove(thread_id);
        } else if !std::mem::replace(&mut thread.idle_check_pending, true) {
            self.send(Command::CheckIdle(thread_id.clone()));
        }
    }

    fn send(&self, command: Command) {
        if let Some(follower) = &self.follower {
            // Fails only when the runtime has shut down: the follower outlives every sender otherwise.
            let _ = follower.send(command);
        }
    }
}

/// Makes a stopwatch follow a thread until it is dropped; afterwards the stopwatch runs on without a thread.
#[derive(Debug)]
#[must_use = "the stopwatch follows the thread only until the registration is dropped"]
pub struct Registration {
    shared: Arc<Shared>,
    stopwatch: Stopwatch,
    thread_id: Arc<str>,
    number: u64,
}

impl Registration {
    /// The thread that the stopwatch follows.
    pub fn thread_id(&self) -> &str {
        &self.thread_id
    }
}

impl Registration {
    /// Pauses the stopwatch also while `thread_id` is paused, until the result is dropped: for a command that waits for
    /// another thread, such as that of a sub-agent. Time in which several of its threads are paused counts once.
    ///
    /// A thread may be awaited several times. Cycles are allowed: two stopwatches whose threads await each other are
    /// paused while either thread is. A thread that never existed is never paused. While the coordinator is
    /// unreachable, the sum of the pauses of all threads is credited, up to the length of the gap (see
    /// `docs/semantics.md`).
    ///
    /// # Errors
    /// [`Error::InvalidField`]: `thread_id` is out of its limits, or the thread of this registration; nothing changed.
    pub fn await_thread(&self, thread_id: &str) -> Result<AwaitedThread, Error> {
        ThreadId::parse("thread_id", thread_id)?;
        if thread_id == &*self.thread_id {
            let was = format!("{thread_id:?}, the thread that waits");
            return Err(InvalidField::new("thread_id", was, "another thread: none waits for itself").into());
        }
        let (thread_id, clock) = self.shared.add_registration(thread_id);
        self.stopwatch.await_thread(self.number, &clock);
        let (shared, stopwatch, registration) = (self.shared.clone(), self.stopwatch.clone(), self.number);
        Ok(AwaitedThread { shared, stopwatch, thread_id, clock, registration })
    }
}

/// Pauses a stopwatch also while another thread is paused, until this is dropped. Made by
/// [`Registration::await_thread`].
#[derive(Debug)]
#[must_use = "the thread is awaited only until this is dropped"]
pub struct AwaitedThread {
    shared: Arc<Shared>,
    stopwatch: Stopwatch,
    thread_id: Arc<str>,
    clock: Arc<ThreadClock>,
    registration: u64,
}

impl AwaitedThread {
    /// The thread that is awaited.
    pub fn thread_id(&self) -> &str {
        &self.thread_id
    }
}

impl Drop for AwaitedThread {
    fn drop(&mut self) {
        self.stopwatch.unawait_thread(self.registration, &self.clock);
        self.shared.remove_registration(&self.thread_id);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stopwatch.leave(self.number);
        self.shared.remove_registration(&self.thread_id);
    }
}
