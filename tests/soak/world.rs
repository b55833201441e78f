//! The state that all actors share.
use pausewatch::client::{Client, Config, Error, GetPauseStateRequest, PauseState};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The maximum number of failures that are printed.
const MOST_FAILURES: usize = 20;

pub(crate) struct World {
    /// The addresses of the server itself, and of the proxy in front of it.
    addresses: [String; 2],
    /// Set when all actors must end.
    pub(crate) over: AtomicBool,
    /// Read-locked during each piece of work, write-locked during a rest.
    gate: RwLock<()>,
    /// The last time at which the server was started or continued.
    up: Mutex<Instant>,
    failures: Mutex<Vec<String>>,
    pub(crate) counts: Counts,
}

/// The counts of a run.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicU64,
    /// The calls that needed more than the client's own retries.
    pub(crate) repeated: AtomicU64,
    pub(crate) races: AtomicU64,
    pub(crate) frozen: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// The maximum error of what a stopwatch charged, in microseconds.
    pub(crate) worst_charge: AtomicU64,
    pub(crate) deserted: AtomicU64,
    /// The maximum time after the end of a lease for which it was still seen open, in microseconds.
    pub(crate) worst_lease: AtomicU64,
    pub(crate) states: AtomicU64,
    pub(crate) breaks: AtomicU64,
    pub(crate) compared: AtomicU64,
}

impl World {
    pub(crate) fn new(server: &str, front: &str) -> Self {
        World {
            addresses: [server.to_owned(), front.to_owned()],
            over: AtomicBool::default(),
            gate: RwLock::default(),
            up: Mutex::new(Instant::now()),
            failures: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// A new connection; every other one goes through the proxy.
    pub(crate) fn client(&self, number: usize) -> Client {
        let address = self.addresses[number % 2].parse().expect("an address");
        Client::with_config(&Config { address, ..Config::default() }).expect("a client without TLS")
    }

    /// Held during a piece of work. `None`: no more work may start.
    pub(crate) async fn work(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let working = self.gate.read().await;
        (!self.over.load(Relaxed)).then_some(working)
    }

    /// Waits until no work is running; none starts while the guard is held.
    pub(crate) async fn rest(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    pub(crate) fn is_up(&self) {
        *self.up() = Instant::now();
    }

    /// The last time at which the server was started: leases restart then.
    pub(crate) fn up(&self) -> MutexGuard<'_, Instant> {
        self.up.lock().expect("nothing panics while it holds it")
    }

    fn failures(&self) -> MutexGuard<'_, Vec<String>> {
        self.failures.lock().expect("nothing panics while it holds it")
    }

    pub(crate) fn fail(&self, what: String) {
        eprintln!("FAILED: {what}");
        self.failures().push(what);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failures().len() >= MOST_FAILURES
    }

    /// Calls until there is an answer. A call with an unknown outcome is repeated unchanged.
    pub(crate) async fn answered<R, F>(&self, call: impl Fn() -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        loop {
            match call().await {
                Err(error) if error.is_transient() => self.counts.repeated.fetch_add(1, Relaxed),
                answer => {
                    self.counts.calls.fetch_add(1, Relaxed);
                    return answer;
                }
            };
        }
    }

    pub(crate) async fn get(&self, client: &Client, thread_id: &str) -> PauseState {
        let request = GetPauseStateRequest { thread_id: thread_id.to_owned() };
        let answer = self.answered(|| client.get_pause_state(request.clone())).await;
        answer.expect("nobody may refuse a read").pause_state.expect("it has a state")
    }

    pub(crate) fn progress(&self) -> String {
        let Counts { calls, races, deserted, states, .. } = &self.counts;
        format!(
            "{} calls, {} commands, {} left open, {} states seen, {} failures",
            calls.load(Relaxed),
            races.load(Relaxed),
            deserted.load(Relaxed),
            states.load(Relaxed),
            self.failures().len()
        )
    }

    pub(crate) fn verdict(&self, server: &str) -> ExitCode {
        let counts = &self.counts;
        let ms = |micros: &AtomicU64| Duration::from_micros(micros.load(Relaxed)).as_secs_f64() * 1e3;
        println!("\n{server}");
        println!(
            "calls        {} answered, {} of them after more than a deadline; {} threads compared with the books",
            counts.calls.load(Relaxed),
            counts.repeated.load(Relaxed),
            counts.compared.load(Relaxed)
        );
        println!(
            "commands     {} run, {} of them frozen just in time, {} expired as they should; charged wrongly by {:.2} ms at most",
            counts.races.load(Relaxed),
            counts.frozen.load(Relaxed),
            counts.expired.load(Relaxed),
            ms(&counts.worst_charge)
        );
        println!(
            "left open    {} elicitations ended by their lease, seen open {:.0} ms after it at most",
            counts.deserted.load(Relaxed),
            ms(&counts.worst_lease)
        );
        println!(
            "watchers     {} states, {} breaks, none out of order",
            counts.states.load(Relaxed),
            counts.breaks.load(Relaxed)
        );
        let idle: Vec<_> = counts.idle().collect();
        if !idle.is_empty() {
            self.fail(format!("nothing was tested: {}", idle.join(", ")));
        }
        let failures = self.failures();
        match failures.len() {
            0 => println!("verdict      every guarantee held"),
            found => println!("verdict      FAILED, {found} times:\n  {}", failures.join("\n  ")),
        }
        if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Counts {
    /// The events that should have happened at least once, but have not.
    fn idle(&self) -> impl Iterator<Item = &'static str> {
        let counts = [
            (&self.frozen, "no command was frozen"),
            (&self.expired, "no command expired"),
            (&self.deserted, "no lease ended"),
            (&self.breaks, "no watch broke"),
            (&self.compared, "no books were compared"),
        ];
        counts.into_iter().filter(|(count, _)| count.load(Relaxed) == 0).map(|(_, name)| name)
    }
}

/// Raises `most` to `value`, in microseconds.
pub(crate) fn worst(most: &AtomicU64, value: Duration) {
    most.fetch_max(u64::try_from(value.as_micros()).unwrap_or(u64::MAX), Relaxed);
}
