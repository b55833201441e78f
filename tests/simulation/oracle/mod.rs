//! The oracle knows each commit with its time, each answer, each fault and each stopwatch, and checks the guarantees.
//!
//! - O1: the books (`truth`) are kept in simulated time, which passes at the same rate for every host. They never use a
//!   value that the server or a client computed, only the events.
//! - O2: bounds are those of the contract, plus what the simulated network and the resolution of its time may add.
//! - O3: a check that depends on which hosts could reach each other uses `reach`, which knows when and how a link was
//!   cut.
mod caps;
mod course;
mod questions;
mod reach;
mod stopwatches;
mod truth;
mod watches;

pub(crate) use course::Course;
pub(crate) use questions::{Ended, Token};
pub(crate) use reach::Link;

use crate::machine::Machine;
use pausewatch::client::{Error, PauseState};
use pausewatch::test_support::core::types::ElicitationId;
use pausewatch::test_support::store::{Contents, Write};
use questions::Question;
use reach::Reach;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use stopwatches::Stopwatch;
use truth::Thread;
use watches::Watch;

/// The oracle. Clones share one state.
#[derive(Clone)]
pub(crate) struct Oracle(Arc<Mutex<State>>);

/// The state of the oracle.
pub(super) struct State {
    machine: Machine,
    course: Course,
    grace: Duration,
    latency: Duration,
    max_pause: Option<Duration>,
    over: bool,
    threads: BTreeMap<String, Thread>,
    questions: Vec<Question>,
    by_id: HashMap<ElicitationId, usize>,
    /// The request ids that have counted.
    requests: BTreeSet<(u8, String, String)>,
    /// The number of decrements without an elicitation id, which may close any.
    anonymous: BTreeMap<String, u32>,
    /// The highest revision of each thread in any answer.
    acknowledged: BTreeMap<String, u64>,
    stopwatches: Vec<Stopwatch>,
    watches: BTreeMap<String, Watch>,
    reach: Reach,
    server_started: Option<Duration>,
    last_sleep: Option<Duration>,
    store_takes_changes: bool,
    /// Whether the store has refused changes since it last accepted some.
    store_has_refused: bool,
    /// The time at which the store last accepted changes again after a refusal.
    outage_ended: Option<Duration>,
}

impl State {
    fn now(&self) -> Duration {
        self.machine.elapsed()
    }

    fn line(&mut self, what: String) {
        let now = self.now();
        self.course.line(now, what);
    }

    fn violation(&mut self, guarantee: &str, what: String) {
        let now = self.now();
        self.course.violation(now, guarantee, &what);
    }
}

impl Oracle {
    pub(crate) fn new(
        machine: Machine,
        grace: Duration,
        latency: Duration,
        max_pause: Option<Duration>,
        threads: Vec<String>,
    ) -> Self {
        Oracle(Arc::new(Mutex::new(State {
            machine,
            course: Course::default(),
            grace,
            latency,
            max_pause,
            over: false,
            threads: threads.into_iter().map(|name| (name, Thread::default())).collect(),
            questions: Vec::new(),
            by_id: HashMap::new(),
            requests: BTreeSet::new(),
            anonymous: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            stopwatches: Vec::new(),
            watches: BTreeMap::new(),
            reach: Reach::default(),
            server_started: None,
            last_sleep: None,
            store_takes_changes: true,
            store_has_refused: false,
            outage_ended: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while locked")
    }

    pub(crate) fn now(&self) -> Duration {
        self.state().now()
    }

    pub(crate) fn course(&self) -> Course {
        self.state().course.clone()
    }

    pub(crate) fn has_violations(&self) -> bool {
        !self.state().course.violations.is_empty()
    }

    pub(crate) fn violation(&self, guarantee: &str, what: String) {
        self.state().violation(guarantee, what);
    }

    pub(crate) fn count(&self, what: &'static str) {
        self.state().course.count(what);
    }

    /// The faults and the questions have ended.
    pub(crate) fn storm_is_over(&self) {
        let mut state = self.state();
        state.over = true;
        state.line("all is well from here on".into());
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Checks that everything that should have happened by now has; no event reports this.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        let now = state.now();
        state.reach.update(now);
        state.look_at_leases();
        state.look_at_caps();
        state.look_at_stopwatches();
        state.look_at_watches();
    }

    /// Checks the end of the run, when everything is idle.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.check_all_is_closed();
        state.check_watches_at_rest();
    }
}

/// Faults.
impl Oracle {
    pub(crate) fn fault(&self, what: &'static str, whose: &str) {
        let mut state = self.state();
        state.course.count(what);
        state.line(format!("{whose}: {what}"));
    }

    pub(crate) fn link(&self, host: &str, link: Link) {
        match link {
            Link::Up => self.state().line(format!("{host}: link whole")),
            Link::Dropped => self.fault("cuts that lose what is sent", host),
            Link::Held => self.fault("cuts that hold what is sent", host),
            Link::AnswersLost => self.fault("cuts that lose the answers", host),
        }
        let mut state = self.state();
        let now = state.now();
        state.reach.set_link(host, now, link);
    }

    /// Whether data that `host` sends now arrives, sooner or later.
    pub(crate) fn can_send(&self, host: &str) -> bool {
        self.state().reach.host(host).can_send()
    }

    pub(crate) fn crashed(&self, host: &str, power: bool) {
        self.fault(
            match (host.split('-').next(), power) {
                (Some("server"), false) => "kills of the server",
                (Some("server"), true) => "power cuts of the server",
                (Some("exec"), _) => "crashes of an exec server",
                (Some("holder"), _) => "crashes of a holder",
                _ => "crashes of a watcher",
            },
            host,
        );
        let mut state = self.state();
        let now = state.now();
        if host == crate::net::SERVER {
            return state.reach.set_server(now, false);
        }
        state.reach.set_up(host, now, false);
        state.holder_gone(host);
        state.stopwatches_gone(host);
        let prefix = format!("{host}/");
        state.watches.retain(|name, _| !name.starts_with(&prefix));
    }

    pub(crate) fn starts(&self, host: &str) {
        let mut state = self.state();
        state.line(format!("{host}: starts"));
        let now = state.now();
        if host != crate::net::SERVER {
            state.reach.set_up(host, now, true);
        }
    }

    pub(crate) fn server_started(&self) {
        let mut state = self.state();
        let now = state.now();
        state.server_started = Some(now);
        // Only a server that had a change refused knows of the outage, and restarts the leases at its end.
        state.store_has_refused = false;
        state.reach.set_server(now, true);
    }

    pub(crate) fn slept(&self, time: Duration) {
        self.fault("sleeps of the machine", "all");
        let mut state = self.state();
        let now = state.now();
        state.last_sleep = Some(now);
        state.threads.values_mut().for_each(|thread| thread.slept(now, time));
    }

    pub(crate) fn store_refuses(&self, refuses: bool) {
        if refuses {
            self.fault("times in which the store refuses", "server");
        }
        let mut state = self.state();
        let now = state.now();
        if !refuses && std::mem::take(&mut state.store_has_refused) {
            state.outage_ended = Some(now);
        }
        state.store_takes_changes = !refuses;
    }

    /// The store has refused a batch.
    pub(crate) fn refused(&self) {
        let mut state = self.state();
        state.store_has_refused = true;
        state.course.count("batches that the store refused");
    }
}

/// The actions of holders, and their answers.
impl Oracle {
    pub(crate) fn asks(&self, host: &str, thread: &str, ttl: Duration) -> Token {
        self.state().asks(host, thread, ttl)
    }

    pub(crate) fn opened(&self, token: Token, count: u32, revision: u64, id: &str) {
        self.state().opened(token, count, revision, id);
    }

    pub(crate) fn keeps_renewing(&self, token: Token) {
        self.state().keeps_renewing(token);
    }

    pub(crate) fn renewed(&self, token: Token, sent: Duration) {
        self.state().renewed(token, sent);
    }

    pub(crate) fn releases(&self, token: Token) {
        self.state().releases(token);
    }

    pub(crate) fn releases_any(&self, thread: &str) {
        self.state().releases_any(thread);
    }

    pub(crate) fn abandons(&self, token: Token) {
        self.state().abandons(token);
    }

    pub(crate) fn closed(&self, token: Token, how: Ended, revision: Option<u64>) {
        self.state().closed(token, how, revision);
    }

    pub(crate) fn acknowledged(&self, thread: &str, revision: u64) {
        self.state().acknowledged(thread, revision);
    }

    pub(crate) fn acknowledged_revision(&self, thread: &str) -> u64 {
        self.state().acknowledged.get(thread).copied().unwrap_or_default()
    }

    /// A call failed: the only valid causes are a lost answer or a refusing store.
    pub(crate) fn expect_transient(&self, call: &str, error: &Error) {
        self.count("calls that failed for want of an answer");
        if !error.is_transient() {
            self.violation("G4", format!("{call}: {error:?}"));
        }
    }

    /// Checks a read that began when `at_least` had been acknowledged.
    pub(crate) fn read(&self, thread: &str, at_least: u64, told: &PauseState) {
        let mut state = self.state();
        state.course.count("reads of a thread");
        state.check_state("a reader", told);
        if told.revision < at_least {
            let what = format!("revision {at_least} of {thread} was acknowledged, then {} is read", told.revision);
            state.violation("G6", what);
        }
    }
}

/// The actions of the server.
impl Oracle {
    pub(crate) fn loaded(&self, contents: &Contents) {
        self.state().loaded(contents);
    }

    pub(crate) fn committed(&self, batch: &[Write<'_>]) {
        self.state().committed(batch);
    }
}

/// The observations of exec servers and watchers.
impl Oracle {
    pub(crate) fn stopwatch_started(
        &self,
        host: &str,
        threads: Vec<String>,
        limit: Duration,
        max_wall: Option<Duration>,
    ) -> usize {
        self.state().stopwatch_started(host, threads, limit, max_wall)
    }

    pub(crate) fn stopwatch_seen(&self, number: usize, elapsed: Duration, paused: bool, connected: bool) {
        self.state().stopwatch_seen(number, elapsed, paused, connected);
    }

    pub(crate) fn stopwatch_ended(&self, number: usize) {
        self.state().stopwatch_ended(number);
    }

    pub(crate) fn stopwatch_expired(&self, number: usize, at_wall: bool) {
        self.state().stopwatch_expired(number, at_wall);
    }

    pub(crate) fn watch_started(&self, name: &str, host: &str, threads: Vec<String>) {
        self.state().watch_started(name, host, threads);
    }

    pub(crate) fn watch_is_busy(&self, name: &str, busy: bool) {
        self.state().watch_is_busy(name, busy);
    }

    pub(crate) fn watched(&self, name: &str, told: &PauseState, gap: bool) {
        self.state().watched(name, told, gap);
    }
}
