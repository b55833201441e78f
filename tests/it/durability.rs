//! A disk that fails, or hangs, under a running server.
use crate::support::disk::{Fault, SimDisk};
use crate::support::{Api, Process, Running, config, states, timed};
use pausewatch::proto::v1;
use pausewatch::server::Server;
use pausewatch::test_support::clock::{Clock, Manual, System};
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::store::{CommitError, Contents, Embedded, OpenError, Store, Write};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Set in the process that acts as the server.
const CHILD: &str = "PAUSEWATCH_TEST_BROKEN_DISK";
/// The maximum number of commits before the disk fails.
const COMMITS: u64 = 12;

/// Serves from a disk that breaks.
async fn serve_from_a_disk_that_breaks() {
    let (disk, clock) = (SimDisk::default(), Arc::new(System::new()));
    let store = Embedded::on(Arc::new(disk.clone()), "the disk of the test", clock.boot_id()).unwrap();
    // Each commit is a write and an fsync.
    disk.plan(2 * COMMITS + 2, Fault::SyncError);
    let server = Server::start_on(Box::new(store), clock, config()).await.unwrap();
    println!("listening {}", server.addresses()[0]);
    server.run(std::future::pending()).await;
}

/// S4, G5: the current call and all later ones get no answer, and the process ends with 1 and prints the cause.
#[tokio::test]
async fn an_fsync_that_fails_ends_the_process_with_a_clear_message() {
    if std::env::var_os(CHILD).is_some() {
        return serve_from_a_disk_that_breaks().await;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let this = "durability::an_fsync_that_fails_ends_the_process_with_a_clear_message";
    child.args(["--exact", this, "--nocapture"]).env(CHILD, "1");
    let server = Process::start(child);
    let mut api = server.api().await;
    let mut watcher = server.api().await;
    let mut watching = watcher.watch(&["t"]).await;
    let mut acknowledged = 0;
    let status = loop {
        match api.try_increment("t", "", None).await {
            Ok(answer) => acknowledged += 1.min(answer.count),
            Err(status) => break status,
        }
    };
    assert!((1..=COMMITS).contains(&acknowledged.into()), "{acknowledged}");
    assert!(status.metadata().get("grpc-status-details-bin").is_none(), "no answer, not even a refusal: {status:?}");
    // Nothing was published before it was durable.
    let mut published = 0;
    while let Ok(Some(message)) = watching.message().await {
        if let Some(v1::watch_pause_state_response::Event::PauseState(state)) = message.event {
            published = state.count;
        }
    }
    assert!(published <= acknowledged, "{published} published, {acknowledged} durable");
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    for part in ["the disk of the test", "Input/output error", "What is on the disk is unknown", "start again"] {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

/// G5, G7: as if connections had used up the process's limit of open files.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_can_open_no_file_goes_on_with_the_journal_that_it_has() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    // Its connection is accepted.
    api.increment("first", None).await;
    let allow = |files| {
        let limit = Rlimit { current: Some(files), ..getrlimit(Resource::Nofile) };
        prlimit(Pid::from_raw(server.id().cast_signed()), Resource::Nofile, limit).unwrap();
    };
    allow(1);
    // More than two files of 1 MiB can hold.
    for round in 0..15 {
        let mut calls = tokio::task::JoinSet::new();
        for thread in 0..100 {
            let request = v1::IncrementElicitationRequest {
                thread_id: thread.to_string(),
                reason: "r".repeat(1_024),
                ..Default::default()
            };
            let mut api = api.clone();
            calls.spawn(
                async move { api.0.increment_elicitation(request).await.map(|answer| answer.into_inner().count) },
            );
        }
        while let Some(count) = timed("an answer", calls.join_next()).await {
            assert_eq!(count.unwrap().expect("it goes on"), round + 1);
        }
    }
    assert!(!directory.path().join("journal-2").exists(), "it could not be made");
    allow(256);
    server.kill();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    assert_eq!(server.api().await.get("99").await.count, 15);
}

/// A store whose commits wait while they are held back.
struct Held {
    store: Embedded,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Whether commits are held back, and how many wait.
    state: Mutex<(bool, usize)>,
    opened: Condvar,
}

impl Gate {
    fn hold(&self, held: bool) {
        self.state.lock().unwrap().0 = held;
        self.opened.notify_all();
    }

    fn holds_one(&self) -> bool {
        self.state.lock().unwrap().1 > 0
    }
}

impl Store for Held {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        self.store.load(now)
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let mut state = self.gate.state.lock().unwrap();
        state.1 += 1;
        while state.0 {
            state = self.gate.opened.wait(state).unwrap();
        }
        state.1 -= 1;
        drop(state);
        self.store.commit(batch)
    }

    /// So that it commits on its own thread, where nothing else waits.
    fn may_wait(&self) -> bool {
        true
    }
}

/// G3: a resume counts from when it was decided. Readers meanwhile are not shown more paused time than the final value.
#[tokio::test]
async fn paused_time_does_not_run_ahead_of_a_resume_that_is_being_stored() {
    let (disk, clock) = (SimDisk::default(), Arc::new(Manual::new(System::new().now(), 1)));
    let store = Embedded::on(Arc::new(disk), "the disk of the test", clock.boot_id()).unwrap();
    let gate = Arc::<Gate>::default();
    let store = Held { store, gate: gate.clone() };
    let server = Running::of(Server::start_on(Box::new(store), clock.clone(), config()).await.unwrap());
    let mut api = server.api().await;
    api.increment("t", None).await;
    clock.advance(Duration::from_secs(10));
    gate.hold(true);
    let mut holder = server.api().await;
    let decrement = tokio::spawn(async move { holder.try_decrement("t", "", None).await });
    let total = async |api: &mut Api| api.get("t").await.paused_total.unwrap().seconds;
    // Reads are answered before the commit starts, and afterwards.
    let under_way = async {
        while !gate.holds_one() {
            assert_eq!(total(&mut api).await, 10);
        }
    };
    timed("the decrement on its way", under_way).await;
    clock.advance(Duration::from_secs(5));
    assert_eq!(total(&mut api).await, 10, "a read");
    let mut watching = api.watch(&["t"]).await;
    let seen = &states(&mut watching).await[0];
    assert_eq!((seen.paused, seen.paused_total.unwrap().seconds), (true, 10), "a watch");
    gate.hold(false);
    timed("the decrement", decrement).await.unwrap().unwrap();
    assert_eq!(total(&mut api).await, 10);
    // The next pause is reported with its current length.
    api.increment("t", None).await;
    clock.advance(Duration::from_secs(2));
    assert_eq!(total(&mut api).await, 12);
}

/// Calls that write more than the journal can hold while the database takes up nothing.
const CALLERS: usize = 4;
const CALLS: usize = 700;
/// The number of reads without an answered increment, after which the writer must be waiting.
const READS: usize = 200;

/// The writer has no free journal file and waits for the database. Reads are answered meanwhile, and finally the writer
/// too.
#[tokio::test]
async fn a_database_that_hangs_holds_up_no_reads() {
    // By a clock that stands still, no commit is slow. The wait stays off the runtime because it was foreseen.
    let (disk, clock) = (SimDisk::default(), Arc::new(Manual::new(System::new().now(), 1)));
    let store = Embedded::on(Arc::new(disk.clone()), "the disk of the test", clock.boot_id()).unwrap();
    let server = Running::of(Server::start_on(Box::new(store), clock, config()).await.unwrap());
    let mut reader = server.api().await;
    disk.hang(true);
    let answered = Arc::<AtomicUsize>::default();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (mut api, answered) = (server.api().await, answered.clone());
        callers.spawn(async move {
            let request = v1::IncrementElicitationRequest {
                thread_id: format!("{caller}{}", "t".repeat(250)),
                reason: "r".repeat(1_024),
                holder: "h".repeat(256),
                ..Default::default()
            };
            for _ in 0..CALLS {
                timed("increment", api.0.increment_elicitation(request.clone())).await.expect("it is accepted");
                answered.fetch_add(1, Relaxed);
            }
        });
    }
    let (mut before, mut reads) = (0, 0);
    let until_all_wait = async {
        while reads < READS {
            reader.get("t").await;
            let now = answered.load(Relaxed);
            (before, reads) = (now, if now == before { reads + 1 } else { 0 });
        }
    };
    timed("the callers to wait for the disk", until_all_wait).await;
    assert!(disk.hangs(), "a read waited for the disk");
    assert!(before < CALLERS * CALLS, "the journal had room for everything: nobody had to wait");
    disk.hang(false);
    callers.join_all().await;
    assert_eq!(answered.load(Relaxed), CALLERS * CALLS);
}
