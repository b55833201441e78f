//! The metrics of a server, and their text format (`docs/observability.md`).
//!
//! Events are counted where they happen, by relaxed atomics in one structure: without lookup by name and without locks.
//! Gauges are read when the metrics are requested ([`State`]). No metric has a label with a thread, a holder or a
//! caller, because their number has no bound.
mod calls;
mod fleet;
mod number;
mod process;
mod text;

pub(crate) use calls::{CODES, Calls, Rpc};
pub(crate) use fleet::FleetState;
pub(crate) use number::{Counter, Histogram};
pub(crate) use text::CONTENT_TYPE;

use crate::clock;
use crate::core::Limit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use text::{Kind, Text};

/// Calls in a batch: from one to the maximum.
const BATCHES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// Durations of a commit: from a disk that only claims to be durable to one that hardly responds.
const COMMITS: &[u64] = &[
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
];
const SECOND: u64 = 1_000_000_000;
/// Lengths of pauses: from immediate answers to a day.
const PAUSES: &[u64] = &[
    SECOND,
    3 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    180 * SECOND,
    600 * SECOND,
    1_800 * SECOND,
    3_600 * SECOND,
    10_800 * SECOND,
    43_200 * SECOND,
    86_400 * SECOND,
];

/// Lines of the log that were dropped. The log belongs to the process, not to a server.
pub(crate) static LOG_LINES_LOST: Counter = Counter::new();

/// The counters of a server.
#[derive(Debug)]
pub struct Metrics {
    /// Calls.
    pub calls: Calls,
    /// Refusals, by limit.
    refused: [Counter; Limit::ALL.len()],
    /// Connections that were let in.
    pub connections: Counter,
    /// Calls and ends of leases of each batch that was committed.
    pub batch: Histogram,
    /// How long it took to make a batch durable.
    pub commit: Histogram,
    /// How long the fsync of a commit took.
    pub fsync: Histogram,
    /// Increments, or all changes, are refused.
    pub store_failing: AtomicBool,
    /// Elicitations that were opened.
    pub opened: Counter,
    /// Elicitations that a decrement has closed.
    pub released: Counter,
    /// Elicitations whose lease has ended.
    pub expired: Counter,
    /// Elicitations that the maximum pause closed.
    pub capped: Counter,
    /// The lengths of ended pauses.
    pub pauses: Histogram,
    /// Lines of the audit trail that could not be written.
    pub audit_lost: Counter,
    started: SystemTime,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            calls: Calls::default(),
            refused: Default::default(),
            connections: Counter::default(),
            batch: Histogram::new(BATCHES),
            commit: Histogram::new(COMMITS),
            fsync: Histogram::new(COMMITS),
            store_failing: AtomicBool::new(false),
            opened: Counter::default(),
            released: Counter::default(),
            expired: Counter::default(),
            capped: Counter::default(),
            pauses: Histogram::new(PAUSES),
            audit_lost: Counter::default(),
            started: clock::wall_time(),
        }
    }
}

/// The gauges at the time of a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Open connections.
    pub connections: u64,
    /// Open watches.
    pub streams: u64,
    /// Known threads.
    pub threads: u64,
    /// Paused threads.
    pub paused: u64,
    /// Open elicitations.
    pub open: u64,
    /// The length of the longest open pause.
    pub oldest_pause: Duration,
    /// Paused threads that no stream watches, not counting observers.
    pub unwatched: u64,
    /// States that streams were given.
    pub deliveries: u64,
    /// States that were replaced by a later one before a stream got them.
    pub conflations: u64,
    /// The state of a replica of a fleet; `None`: a single server.
    pub fleet: Option<FleetState>,
}

impl Metrics {
    /// Counts a refusal for this limit.
    pub fn refuse(&self, limit: Limit) {
        self.refused[limit as usize].add_one();
    }

    /// The number of refusals for this limit.
    pub fn refused(&self, limit: Limit) -> u64 {
        self.refused[limit as usize].get()
    }

    /// All metrics in the text format of Prometheus.
    pub fn show(&self, state: &State) -> String {
        let mut text = Text::default();
        self.show_calls(&mut text);
        show_state(&mut text, state);
        self.show_changes(&mut text);
        text.family("pausewatch_refused_total", Kind::Counter, "Calls and connections refused, by limit.");
        for limit in Limit::ALL {
            text.sample("pausewatch_refused_total", &[("limit", limit.name())], self.refused(limit));
        }
        let help = "Lines of the log that were dropped because standard error was not read.";
        text.single("pausewatch_log_lines_lost_total", Kind::Counter, help, LOG_LINES_LOST.get());
        let help = "Lines of the audit trail that could not be written.";
        text.single("pausewatch_audit_lines_lost_total", Kind::Counter, help, self.audit_lost.get());
        text.family("pausewatch_build_info", Kind::Gauge, "Always 1; the version of the program.");
        text.sample("pausewatch_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        process::write(&mut text, self.started);
        text.finish()
    }

    fn show_calls(&self, text: &mut Text) {
        let name = "pausewatch_calls_total";
        text.family(name, Kind::Counter, "Calls that have ended, by RPC and gRPC code; a watch when its stream ends.");
        for rpc in Rpc::ALL {
            for (code, label) in CODES.iter().enumerate() {
                match self.calls.count(rpc, code) {
                    // `OK` is exported from the start, the other codes from their first call.
                    0 if !(label == &"OK" && rpc != Rpc::Other) => {}
                    count => text.sample(name, &[("rpc", rpc.name()), ("code", label)], count),
                }
            }
        }
        let name = "pausewatch_call_duration_seconds";
        let help = "From a request to its answer; of a watch, to the opening of its stream.";
        text.family(name, Kind::Histogram, help);
        for rpc in Rpc::ALL {
            text.histogram(name, &[("rpc", rpc.name())], &self.calls.latency(rpc), 1e9);
        }
    }

    fn show_changes(&self, text: &mut Text) {
        let help = "Elicitations opened since the start.";
        text.single("pausewatch_elicitations_opened_total", Kind::Counter, help, self.opened.get());
        let name = "pausewatch_elicitations_closed_total";
        text.family(
            name,
            Kind::Counter,
            "Elicitations closed since the start, by a decrement, the end of their lease, or the maximum pause.",
        );
        text.sample(name, &[("by", "decrement")], self.released.get());
        text.sample(name, &[("by", "lease")], self.expired.get());
        text.sample(name, &[("by", "max_pause")], self.capped.get());
        let name = "pausewatch_pause_duration_seconds";
        text.family(name, Kind::Histogram, "Lengths of ended pauses.");
        text.histogram(name, &[], &self.pauses.read(), 1e9);
        let name = "pausewatch_commit_batch_size";
        text.family(name, Kind::Histogram, "Changes that a commit made durable together.");
        text.histogram(name, &[], &self.batch.read(), 1.0);
        let name = "pausewatch_commit_duration_seconds";
        text.family(name, Kind::Histogram, "Time to make a batch durable: its write and its fsync.");
        text.histogram(name, &[], &self.commit.read(), 1e9);
        let name = "pausewatch_fsync_duration_seconds";
        text.family(name, Kind::Histogram, "How much of that was the fsync: what the disk takes.");
        text.histogram(name, &[], &self.fsync.read(), 1e9);
        let help = "1 while changes are accepted, 0 while increments or all changes are refused.";
        let writable = u8::from(!self.store_failing.load(Relaxed));
        text.single("pausewatch_store_writable", Kind::Gauge, help, writable);
        let help = "Connections accepted since the start.";
        text.single("pausewatch_connections_accepted_total", Kind::Counter, help, self.connections.get());
    }
}

fn show_state(text: &mut Text, state: &State) {
    let unwatched = "Paused threads that no stream watches, observers aside.";
    let gauges: [(&str, &str, u64); 6] = [
        ("pausewatch_connections", "Open connections.", state.connections),
        ("pausewatch_watchers", "Open watches (streams).", state.streams),
        ("pausewatch_threads", "Known threads: paused, or changed within a day.", state.threads),
        ("pausewatch_paused_threads", "Paused threads.", state.paused),
        ("pausewatch_paused_threads_unwatched", unwatched, state.unwatched),
        ("pausewatch_open_elicitations", "Open elicitations.", state.open),
    ];
    for (name, help, value) in gauges {
        text.single(name, Kind::Gauge, help, value);
    }
    let help = "The length of the longest open pause; 0: no thread is paused.";
    text.single("pausewatch_oldest_pause_seconds", Kind::Gauge, help, state.oldest_pause.as_secs_f64());
    let help = "States of threads given to watches.";
    text.single("pausewatch_deliveries_total", Kind::Counter, help, state.deliveries);
    let help = "States of threads that a watch did not get because a later one replaced them.";
    text.single("pausewatch_conflations_total", Kind::Counter, help, state.conflations);
    state.fleet.iter().for_each(|state| fleet::show(text, state));
}
