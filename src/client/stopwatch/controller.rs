//! Which stopwatch follows which thread.
//!
//! 1. One task follows the watch for all threads of a controller. A registration tells it at most that there is a new
//!    thread, or that one may have become idle.
//! 2. A thread is followed for `LINGER` after its last registration: the next command of the thread starts with exact
//!    knowledge and costs the coordinator nothing.
use super::{
    Stopwatch, follow,
    paused_time::Via,
    sleep,
    thread::{Coordinator, ThreadClock},
    threads::{Command, Link, Thread, Threads},
};
use crate::client::{Client, Error, PauseState, check_thread_id};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// How long a stopwatch that ran out while cut off waits for the link, unless told otherwise.
const DISCONNECT_GRACE: Duration = Duration::from_secs(30);
/// Keeps stopwatches in step with the pauses of their threads. One for a process is enough. Clones are the same one.
///
/// It watches the threads that stopwatches are registered under, for as long as it or one of them exists, and heals
/// lost connections by itself. While it is cut off:
/// - a thread keeps its last state; if that is paused, for at most `disconnect_grace` (30 s by default), since the end of
///   its leases cannot be seen;
/// - a stopwatch that runs out waits up to `disconnect_grace` for the link, and then expires.
///
/// When the link is back, pauses that began or ended meanwhile are credited to the moment.
#[derive(Debug, Clone)]
pub struct StopwatchController(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    coordinator: Arc<Coordinator>,
    threads: Arc<Threads>,
    /// To the follower; `None` if there is none.
    to_follower: Option<mpsc::UnboundedSender<Command>>,
    link: watch::Receiver<Link>,
}

impl StopwatchController {
    /// A controller that follows the coordinator of `client`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(client: Client) -> Self {
        Self::with_disconnect_grace(client, DISCONNECT_GRACE)
    }

    /// A controller with another `disconnect_grace`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_disconnect_grace(client: Client, grace: Duration) -> Self {
        Self::with_sleep_clock(client, grace, sleep::slept)
    }

    /// A controller that is told by `slept` how long the machine has slept since some moment: for systems where this
    /// library cannot tell (it can on Linux), and for simulations.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_sleep_clock(client: Client, grace: Duration, slept: fn() -> Duration) -> Self {
        let (to_follower, commands) = mpsc::unbounded_channel();
        let (tell, link) = watch::channel(Link::Connecting);
        let threads = Arc::<Threads>::default();
        tokio::spawn(follow::follow(client.watch(), threads.clone(), commands, tell));
        let coordinator = Arc::new(Coordinator { client: Some(client), grace, slept });
        Self(Arc::new(Shared { coordinator, threads, to_follower: Some(to_follower), link }))
    }

    /// A controller without a coordinator: states come from [`StopwatchController::apply`] alone, and nobody is asked
    /// before an expiry. For tests, and for programs that get the states in another way.
    pub fn detached() -> Self {
        let coordinator = Arc::new(Coordinator { client: None, grace: Duration::ZERO, slept: sleep::slept });
        let (_, link) = watch::channel(Link::Connected);
        Self(Arc::new(Shared { coordinator, threads: Arc::default(), to_follower: None, link }))
    }

    /// Lets `stopwatch` follow `thread_id` until the registration is dropped. If the thread is paused, it starts paused;
    /// pauses before the registration are not credited. A stopwatch follows one thread at a time: the latest.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: no thread can have this id.
    pub fn register(&self, thread_id: &str, stopwatch: &Stopwatch) -> Result<Registration, Error> {
        check_thread_id(thread_id)?;
        let (thread_id, clock) = self.0.enter(thread_id);
        let number = stopwatch.follow(clock);
        Ok(Registration { shared: self.0.clone(), stopwatch: stopwatch.clone(), thread_id, number })
    }

    /// Takes a state from elsewhere than the watch, as if it had been watched. States of threads without stopwatches and
    /// states that are older than what is known are ignored.
    pub fn apply(&self, state: &PauseState) {
        if let Some(clock) = self.0.threads.clock(&state.thread_id) {
            clock.apply(state, Via::Watch { gap: false });
        }
    }

    /// Whether the coordinator is heard, now and later.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.0.link.clone()
    }
}

impl Shared {
    fn enter(&self, thread_id: &str) -> (Arc<str>, Arc<ThreadClock>) {
        let mut threads = self.threads.lock();
        if let Some((id, thread)) = threads.get_key_value(thread_id) {
            let (id, clock) = (id.clone(), thread.clock.clone());
            threads.entry(id.clone()).and_modify(|thread| thread.registered += 1);
            return (id, clock);
        }
        let id: Arc<str> = thread_id.into();
        let clock = Arc::new(ThreadClock::new(id.clone(), self.coordinator.clone()));
        let thread = Thread { clock: clock.clone(), registered: 1, idle_since: Instant::now(), doubted: false };
        threads.insert(id.clone(), thread);
        // Under the lock, so that it is in order with what the follower does about an idle one.
        self.tell(Command::Follow(id.clone()));
        (id, clock)
    }

    fn leave(&self, thread_id: &Arc<str>) {
        let mut threads = self.threads.lock();
        let Some(thread) = threads.get_mut(thread_id) else { return };
        thread.registered -= 1;
        if thread.registered > 0 {
            return;
        }
        thread.idle_since = Instant::now();
        if self.to_follower.is_none() {
            threads.remove(thread_id);
        } else if !std::mem::replace(&mut thread.doubted, true) {
            self.tell(Command::MayBeIdle(thread_id.clone()));
        }
    }

    fn tell(&self, command: Command) {
        if let Some(to_follower) = &self.to_follower {
            // It ends only after this, or with its runtime.
            let _ = to_follower.send(command);
        }
    }
}

/// Lets a stopwatch follow a thread until it is dropped; then the stopwatch runs on, on its own.
#[derive(Debug)]
#[must_use = "a registration that is dropped ends"]
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

impl Drop for Registration {
    fn drop(&mut self) {
        self.stopwatch.leave(self.number);
        self.shared.leave(&self.thread_id);
    }
}
