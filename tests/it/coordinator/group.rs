//! Group commit, over a durable store: which thread commits, when, and which state exists at the end.
//!
//! One thread runs the test and the coordinator's task. tokio's clock stands still unless all tasks sleep, so a wait
//! for a timer is visible.
use super::clock;
use crate::support::PATIENCE;
use crate::support::model::{Obedient, thread_id};
use pausewatch::test_support::clock::{Clock, Manual};
use pausewatch::test_support::coordinator::Coordinator;
use pausewatch::test_support::core::types::{ElicitationId, Ttl};
use pausewatch::test_support::core::{Answer, Command, ElicitationRef, Refusal, Timestamp};
use pausewatch::test_support::hub::View;
use pausewatch::test_support::store::{CommitError, Contents, OpenError, Store, Write};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_millis(2);
const VERY_SLOW: Duration = Duration::from_millis(20);
const SLOW_FOR: Duration = Duration::from_secs(1);
/// Longer than the scheduler keeps a thread waiting that is ready.
const A_TURN: Duration = Duration::from_millis(20);

/// A disk that takes a given time of the clock, and records which thread committed to it.
#[derive(Clone)]
struct Disk {
    store: Obedient,
    clock: Arc<Counted>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    takes: Duration,
    by: Vec<ThreadId>,
    panics: bool,
    /// The next commit waits until the other end of the channel is dropped.
    gate: Option<mpsc::Receiver<()>>,
}

impl Disk {
    fn new() -> Self {
        let clock = Arc::new(Counted { manual: clock(), readings: AtomicUsize::new(0) });
        Disk { store: Obedient::default(), clock, seen: Arc::default() }
    }

    fn start(&self) -> Coordinator {
        Coordinator::start(Box::new(self.clone()), self.clock.clone(), None, |fatal| panic!("{fatal}")).unwrap()
    }

    fn takes(&self, time: Duration) {
        self.seen.lock().unwrap().takes = time;
    }

    fn commits(&self) -> usize {
        self.seen.lock().unwrap().by.len()
    }

    /// Whether the last commit was made on the calling thread.
    fn was_committed_here(&self) -> bool {
        self.seen.lock().unwrap().by.last() == Some(&thread::current().id())
    }
}

impl Store for Disk {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        self.store.load(now)
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let mut seen = self.seen.lock().unwrap();
        assert!(!seen.panics, "told to panic: the test wants it");
        seen.by.push(thread::current().id());
        self.clock.manual.advance(seen.takes);
        let gate = seen.gate.take();
        drop(seen);
        gate.map(|gate| gate.recv());
        self.store.commit(batch)
    }

    fn may_wait(&self) -> bool {
        self.store.may_wait()
    }
}

/// A clock that counts how often it is read.
struct Counted {
    manual: Arc<Manual>,
    readings: AtomicUsize,
}

impl Clock for Counted {
    fn now(&self) -> Timestamp {
        self.readings.fetch_add(1, Relaxed);
        self.manual.now()
    }

    fn awake(&self) -> Duration {
        self.manual.awake()
    }

    fn boot_id(&self) -> u64 {
        self.manual.boot_id()
    }
}

async fn increment(coordinator: &Coordinator) -> Result<Answer, Refusal> {
    let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: None };
    coordinator.call(thread_id("t"), increment).await
}

/// Lets the other tasks do all that they can do now.
async fn rest() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_is_committed_to_by_a_thread_for_a_second_after_it_was_slow() {
    let disk = Disk::new();
    let coordinator = disk.start();
    let nanosecond = Duration::from_nanos(1);
    let commit = async |takes| {
        disk.takes(takes);
        increment(&coordinator).await.unwrap();
        disk.was_committed_here()
    };
    for takes in [SLOW - nanosecond, SLOW - nanosecond, SLOW, Duration::ZERO, VERY_SLOW - nanosecond, SLOW - nanosecond]
    {
        assert!(commit(takes).await, "the disk is fast, except for single commits");
    }
    for slow in [&[SLOW, SLOW][..], &[VERY_SLOW]] {
        for &takes in slow {
            assert!(commit(takes).await, "it was not known yet that the disk is slow");
        }
        assert!(!commit(Duration::ZERO).await, "the last commit was slow");
        disk.clock.manual.advance(SLOW_FOR - nanosecond);
        assert!(!commit(Duration::ZERO).await, "it has been fast for less than a second");
        disk.clock.manual.advance(nanosecond);
        assert!(commit(Duration::ZERO).await, "it has been fast for a second");
    }
    disk.store.orders().slow = true;
    increment(&coordinator).await.unwrap();
    assert!(!disk.was_committed_here(), "the commit may have to wait for the store's own work");
    disk.store.orders().slow = false;
    increment(&coordinator).await.unwrap();
    assert!(disk.was_committed_here());
}

/// Waits for the committing thread by real time, not by the test's clock.
async fn until(coordinator: &Coordinator, thread: &str, is_so: impl Fn(&View) -> bool) {
    let began = Instant::now();
    while !is_so(&coordinator.hub().get(&thread_id(thread))) {
        assert!(began.elapsed() < PATIENCE, "{thread} is not so after {PATIENCE:?}");
        tokio::task::yield_now().await;
    }
}

/// Opens an elicitation with a lease of 3 s.
async fn open(coordinator: &Coordinator, thread: &str) -> ElicitationId {
    let ttl = Some(Ttl::new("ttl", 3 * SECOND).unwrap());
    let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl };
    match coordinator.call(thread_id(thread), increment).await {
        Ok(Answer::Incremented { elicitation, .. }) => elicitation.id,
        other => panic!("{other:?}"),
    }
}

/// While a commit runs on the runtime, renewals are not read.
#[tokio::test(start_paused = true)]
async fn g1_a_commit_that_holds_up_the_runtime_moves_the_leases_by_as_much() {
    let disk = Disk::new();
    let coordinator = disk.start();
    open(&coordinator, "held").await;
    let ends = disk.clock.manual.now().after(3 * SECOND + 6 * SECOND);
    disk.takes(6 * SECOND);
    increment(&coordinator).await.unwrap();
    assert!(disk.was_committed_here());
    disk.takes(Duration::ZERO);
    let moved = |view: &View| view.open.first().is_none_or(|open| open.ends == Some(ends));
    until(&coordinator, "held", moved).await;
    assert_eq!(coordinator.hub().get(&thread_id("held")).open.len(), 1);
}

/// While the thread commits, renewals are read, and count from when they were read. Leases that nobody renews still
/// expire on time.
#[tokio::test(start_paused = true)]
async fn g1_a_renewal_that_waits_for_a_slow_commit_counts_as_of_when_it_came() {
    let disk = Disk::new();
    let coordinator = Arc::new(disk.start());
    let renewed = open(&coordinator, "renewed").await;
    open(&coordinator, "left").await;
    disk.store.orders().slow = true;
    let (shut, gate) = mpsc::channel::<()>();
    disk.seen.lock().unwrap().gate = Some(gate);
    let other = coordinator.clone();
    let waiting = tokio::spawn(async move { increment(&other).await });
    let mut renewal = None;
    for second in 0..6 {
        if second == 2 {
            let (other, elicitation) = (coordinator.clone(), ElicitationRef(renewed.to_string().into()));
            let renew = Command::Renew { elicitation, ttl: None };
            renewal = Some(tokio::spawn(async move { other.call(thread_id("renewed"), renew).await }));
        }
        tokio::time::sleep(SECOND).await;
        disk.clock.manual.advance(SECOND);
    }
    drop(shut);
    waiting.await.unwrap().unwrap();
    renewal.unwrap().await.unwrap().expect("it came in time");
    until(&coordinator, "left", |view| view.open.is_empty()).await;
    assert_eq!(coordinator.hub().get(&thread_id("renewed")).open.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_taken_when_it_comes() {
    let disk = Disk::new();
    let coordinator = disk.start();
    rest().await;
    let began = tokio::time::Instant::now();
    increment(&coordinator).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "it waited for a timer");
    let (a, b, c) = tokio::join!(increment(&coordinator), increment(&coordinator), increment(&coordinator));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(began.elapsed(), Duration::ZERO, "one of several waited for a timer");
    assert_eq!(disk.commits(), 2, "those that came together share a commit");
}

#[tokio::test(start_paused = true)]
async fn an_idle_coordinator_does_not_wake_up() {
    let disk = Disk::new();
    let coordinator = disk.start();
    // The first two commit on the runtime, although the second is very slow; the third on the thread.
    for takes in [Duration::ZERO, VERY_SLOW, SLOW] {
        disk.takes(takes);
        increment(&coordinator).await.unwrap();
        let readings_of_a_round = async || {
            let before = disk.clock.readings.load(Relaxed);
            rest().await;
            // The thread gets a turn, if it wants one.
            thread::sleep(A_TURN);
            rest().await;
            disk.clock.readings.load(Relaxed) - before
        };
        // On a busy machine, the thread may need several rounds to finish what the call began.
        let mut rounds = 0;
        while readings_of_a_round().await > 0 {
            rounds += 1;
            assert!(rounds < 10, "it wakes up again and again: {takes:?}");
        }
    }
}

/// An embedding program may start and drop many coordinators in one process.
#[tokio::test(start_paused = true)]
async fn dropped_it_has_closed_its_store() {
    let disk = Disk::new();
    let coordinator = disk.start();
    increment(&coordinator).await.unwrap();
    let store = Arc::downgrade(&disk.seen);
    drop(disk);
    assert!(store.upgrade().is_some());
    drop(coordinator);
    assert!(store.upgrade().is_none());
}

/// Callers without an answer must find the change done in whole, never in part.
#[tokio::test(start_paused = true)]
async fn accepted_calls_are_committed_before_the_store_is_closed() {
    let disk = Disk::new();
    let coordinator = disk.start();
    // The request is queued and nothing more: the task runs when this test awaits.
    assert!(pin!(increment(&coordinator)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(coordinator);
    assert_eq!(disk.commits(), 1);
}

/// Set in the process that panics.
const CHILD: &str = "PAUSEWATCH_TEST_PANIC_OF_THE_WRITER";

/// Without the writer, no call would be answered, and nobody would know why.
#[tokio::test]
async fn a_panic_of_who_commits_ends_the_process() {
    if let Some(who) = std::env::var_os(CHILD) {
        let disk = Disk::new();
        disk.store.orders().slow = who == "thread";
        disk.seen.lock().unwrap().panics = true;
        let coordinator = disk.start();
        return drop(tokio::time::timeout(PATIENCE, increment(&coordinator)).await);
    }
    for who in ["task", "thread"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let this = "coordinator::group::a_panic_of_who_commits_ends_the_process";
        let ended = child.args(["--exact", this, "--nocapture"]).env(CHILD, who).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("told to panic"), "{said}");
        assert_eq!(ended.status.signal(), Some(Signal::ABORT.as_raw()), "{who}: {said}");
    }
}
