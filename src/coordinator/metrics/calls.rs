//! Calls by RPC and code, and how long they took.
//!
//! Each worker has its own counters: shared ones would move their cache lines between cores for every call. A call
//! costs three uncontended atomic additions.
use super::number::{Distribution, Histogram};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The RPCs, as the metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rpc {
    /// `IncrementElicitation`.
    Increment,
    /// `DecrementElicitation`.
    Decrement,
    /// `RenewElicitation`.
    Renew,
    /// `GetPauseState`.
    Get,
    /// `ListPauseStates`.
    List,
    /// `ListPauses`.
    ListPauses,
    /// `WatchPauseState`.
    WatchPauseState,
    /// `Watch`.
    Watch,
    /// Health, reflection, and unknown methods.
    Other,
}

impl Rpc {
    /// All, in the order of their declaration.
    pub const ALL: [Rpc; 9] = [
        Rpc::Increment,
        Rpc::Decrement,
        Rpc::Renew,
        Rpc::Get,
        Rpc::List,
        Rpc::ListPauses,
        Rpc::WatchPauseState,
        Rpc::Watch,
        Rpc::Other,
    ];

    /// The RPC that a request with this path is for.
    pub fn of_path(path: &str) -> Self {
        let method = path.strip_prefix("/pausewatch.v1.ElicitationService/");
        Rpc::ALL.into_iter().find(|rpc| Some(rpc.name()) == method).unwrap_or(Rpc::Other)
    }

    /// Whether it is answered by a stream, which ends later.
    pub fn is_watch(self) -> bool {
        matches!(self, Rpc::WatchPauseState | Rpc::Watch)
    }

    /// Its name in the proto.
    pub fn name(self) -> &'static str {
        match self {
            Rpc::Increment => "IncrementElicitation",
            Rpc::Decrement => "DecrementElicitation",
            Rpc::Renew => "RenewElicitation",
            Rpc::Get => "GetPauseState",
            Rpc::List => "ListPauseStates",
            Rpc::ListPauses => "ListPauses",
            Rpc::WatchPauseState => "WatchPauseState",
            Rpc::Watch => "Watch",
            Rpc::Other => "other",
        }
    }
}

/// The gRPC codes, by number.
pub(crate) const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// From 50 us, which is less than a call to the memory store, to the longest default deadline of clients.
const LATENCIES: &[u64] = &[
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
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Sets of counters. If there are more workers, some share a set.
const SHARDS: usize = 16;

/// All calls.
#[derive(Debug)]
pub struct Calls(Vec<Shard>);

#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    begun: AtomicU64,
    ended: [[AtomicU64; CODES.len()]; Rpc::ALL.len()],
    took: [Histogram; Rpc::ALL.len()],
}

impl Default for Calls {
    fn default() -> Self {
        let shard = || Shard {
            begun: AtomicU64::new(0),
            ended: Default::default(),
            took: Rpc::ALL.map(|_| Histogram::new(LATENCIES)),
        };
        Calls((0..SHARDS).map(|_| shard()).collect())
    }
}

/// The set of counters of this thread.
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static PLACE: Cell<usize> = const { Cell::new(usize::MAX) });
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(NEXT.fetch_add(1, Relaxed) % SHARDS);
        }
        place.get()
    })
}

impl Calls {
    /// A call has begun.
    pub fn begun(&self) {
        self.0[place()].begun.fetch_add(1, Relaxed);
    }

    /// Calls and watches that have begun and not ended.
    pub fn in_flight(&self) -> u64 {
        let ended = |shard: &Shard| shard.ended.iter().flatten().map(|count| count.load(Relaxed)).sum::<u64>();
        // A call may begin on one worker and end on another, or end while this is read.
        let ended: u64 = self.0.iter().map(ended).sum();
        let begun: u64 = self.0.iter().map(|shard| shard.begun.load(Relaxed)).sum();
        begun.saturating_sub(ended)
    }

    /// A call has ended with `code`.
    pub fn ended(&self, rpc: Rpc, code: i32) {
        let code = usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(2);
        self.0[place()].ended[rpc as usize][code].fetch_add(1, Relaxed);
    }

    /// A call was answered after this time, or a watch was opened.
    pub fn took(&self, rpc: Rpc, time: Duration) {
        self.0[place()].took[rpc as usize].observe_time(time);
    }

    /// How many calls of this kind have ended with this code.
    pub fn count(&self, rpc: Rpc, code: usize) -> u64 {
        self.0.iter().map(|shard| shard.ended[rpc as usize][code].load(Relaxed)).sum()
    }

    /// How long the calls of this kind took.
    pub fn latency(&self, rpc: Rpc) -> Distribution {
        let mut sum = Histogram::new(LATENCIES).read();
        self.0.iter().for_each(|shard| sum.merge(&shard.took[rpc as usize].read()));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_are_summed() {
        let calls = Calls::default();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    calls.begun();
                    calls.ended(Rpc::Get, 5);
                    calls.took(Rpc::Get, Duration::from_micros(60));
                });
            }
        });
        calls.ended(Rpc::Get, 99);
        assert_eq!((calls.count(Rpc::Get, 5), calls.count(Rpc::Get, 2), calls.count(Rpc::List, 5)), (40, 1, 0));
        (0..3).for_each(|_| calls.begun());
        assert_eq!(calls.in_flight(), 2, "43 have begun, 41 have ended");
        let latency = calls.latency(Rpc::Get);
        assert_eq!((latency.buckets[1], latency.count(), latency.sum), (40, 40, 40 * 60_000));
    }

    #[test]
    fn an_rpc_has_the_place_of_its_number_and_is_found_by_its_path() {
        for (number, rpc) in Rpc::ALL.into_iter().enumerate() {
            let path = format!("/pausewatch.v1.ElicitationService/{}", rpc.name());
            assert_eq!((rpc as usize, Rpc::of_path(&path)), (number, rpc));
        }
    }
}
