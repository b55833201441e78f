//! `backup` and `restore` with etcd: from a server with a directory to a fleet and back, under load, when interrupted,
//! and what they refuse.
use crate::caller::Caller;
use crate::etcd::Etcd;
use crate::followers::fleet;
use crate::program::{Ended, Process as Started, ended, program};
use crate::proxy::Proxy;
use crate::start::refusal;
use crate::support::model::{Model, writes};
use crate::support::{Api, Process, timed};
use crate::takeovers::{leader, replica};
use fastrand::Rng;
use pausewatch::proto::v1;
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::store::{Embedded, Store};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The maximum error of the wall clock, which is used across two boot-time clocks.
const WALL_CLOCK: Duration = Duration::from_millis(100);

/// A temporary directory for data directories and backups.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Runs `backup` or `restore` on a data directory.
fn in_directory(command: &str, file: &Path, directory: &Path) -> Ended {
    ended(program().arg(command).arg(file).arg("--data-dir").arg(directory))
}

/// Runs `backup` or `restore` on a fleet.
fn in_etcd(command: &str, file: &Path, url: &str, prefix: &str, options: &[&str]) -> Ended {
    ended(&mut etcd_command(command, file, url, prefix, options))
}

fn etcd_command(command: &str, file: &Path, url: &str, prefix: &str, options: &[&str]) -> std::process::Command {
    let mut program = program();
    program.arg(command).arg(file).args(["--store", "etcd", "--etcd-endpoints", url, "--etcd-prefix", prefix]);
    program.args(options);
    program
}

fn succeeds(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out
}

fn fails(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!((ended.code, &*ended.out), (Some(code), ""), "{ended:?}");
    for part in parts {
        assert!(ended.err.contains(part), "{:?} does not say {part:?}", ended.err);
    }
}

/// Serves a data directory until the returned server is dropped.
fn serve(directory: &Path) -> Process {
    Process::serve(directory, "127.0.0.1:0")
}

fn end(server: Process) {
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

/// The parts of a state that backup and restore keep.
fn kept(state: &v1::PauseState) -> (String, u32, bool, Vec<(String, String, String)>) {
    let open = |open: &v1::Elicitation| (open.elicitation_id.clone(), open.reason.clone(), open.holder.clone());
    (state.thread_id.clone(), state.count, state.paused, state.elicitations.iter().map(open).collect())
}

fn total(state: &v1::PauseState) -> Duration {
    let total = state.paused_total.expect("there is one");
    Duration::new(total.seconds.unsigned_abs(), total.nanos.unsigned_abs())
}

/// Makes a call; returns the times before and after it too.
async fn between<T>(call: impl Future<Output = T>) -> (Instant, T, Instant) {
    let before = Instant::now();
    let done = call.await;
    (before, done, Instant::now())
}

async fn states(api: &mut Api, threads: &[&str]) -> Vec<v1::PauseState> {
    let mut states = Vec::new();
    for thread in threads {
        states.push(api.get(thread).await);
    }
    states
}

const THREADS: [&str; 4] = ["two open", "was paused", "one open", "never named"];

/// The import into a fleet and the way back: threads, counts, elicitations, paused time, request ids; each time with a
/// new epoch and higher revisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_goes_from_a_directory_to_a_fleet_and_back() {
    let Some(etcd) = Etcd::shared() else { return };
    let place = Place::new();
    let server = serve(&place.path("data"));
    let mut api = server.api().await;
    let (began, first, begun) = between(api.try_increment("two open", "request 1", None)).await;
    let first = first.expect("accepted");
    api.increment("two open", Some(Duration::from_secs(3_600))).await;
    api.increment("was paused", None).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    api.try_decrement("was paused", "", None).await.expect("accepted");
    api.increment("one open", Some(Duration::from_secs(300))).await;
    let before = states(&mut api, &THREADS).await;
    assert!(total(&before[1]) >= Duration::from_millis(20));
    end(server);
    succeeds(in_directory("backup", &place.path("first"), &place.path("data")));

    let said = succeeds(in_etcd("restore", &place.path("first"), &etcd.url, "import", &[]));
    for part in ["import of etcd: 3 threads and 3 open elicitations, as of ", "revisions continue above "] {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
    let replicas = fleet(etcd, "import", 2).await;
    for replica in &replicas {
        let mut api = replica.api().await;
        let imported = states(&mut api, &THREADS).await;
        for (now, then) in imported.iter().zip(&before) {
            assert_eq!(kept(now), kept(then));
            assert!(now.revision > then.revision && now.store_epoch != then.store_epoch, "{now:?}, {then:?}");
        }
        // As after a restore to a directory: pauses that have ended do not count, and an open pause counts from its
        // start.
        assert_eq!(total(&imported[1]), Duration::ZERO);
        let (asked, state, answered) = between(api.get("two open")).await;
        let paused = total(&state);
        assert!(paused + WALL_CLOCK >= asked - begun && paused <= answered - began + WALL_CLOCK, "{paused:?}");
        let again = api.try_increment("two open", "request 1", None).await.expect("it is remembered");
        assert_eq!(
            (again.elicitation, again.count),
            (first.elicitation.clone(), 1),
            "a retry gets the answer from before the backup"
        );
    }
    let mut api = replicas[1].api().await;
    api.try_decrement("one open", "", None).await.expect("accepted");
    api.increment("new in the fleet", Some(Duration::from_secs(24 * 3_600))).await;
    let threads = [&THREADS[..], &["new in the fleet"]].concat();
    let before = states(&mut api, &threads).await;
    let said = succeeds(in_etcd("backup", &place.path("second"), &etcd.url, "import", &[]));
    assert!(said.contains("4 threads, 3 open elicitations"), "{said}");
    replicas.into_iter().for_each(Process::kill);
    // While no replica runs, and to standard output.
    let piped = etcd_command("backup", Path::new("-"), &etcd.url, "import", &[]).output().expect("the program runs");
    assert!(piped.status.success());
    std::fs::write(place.path("third"), piped.stdout).expect("there is space");
    let checked = succeeds(ended(program().arg("check").arg(place.path("third"))));
    assert!(checked.contains("4 threads; 3 open elicitations"), "{checked}");

    for (backup, to) in [("second", "back"), ("third", "back again")] {
        succeeds(in_directory("restore", &place.path(backup), &place.path(to)));
        let server = serve(&place.path(to));
        let mut api = server.api().await;
        for (now, then) in states(&mut api, &threads).await.iter().zip(&before) {
            assert_eq!(kept(now), kept(then));
            assert!(now.revision > then.revision && now.store_epoch != then.store_epoch, "{now:?}, {then:?}");
        }
        let (asked, state, answered) = between(api.get("two open")).await;
        let paused = total(&state);
        assert!(paused + WALL_CLOCK >= asked - begun && paused <= answered - began + WALL_CLOCK, "{paused:?}");
        let again = api.try_increment("two open", "request 1", None).await.expect("it is remembered");
        assert_eq!(again.elicitation, first.elicitation);
        end(server);
    }
    // From one fleet to another.
    succeeds(in_etcd("restore", &place.path("third"), &etcd.url, "copied", &[]));
    let replicas = fleet(etcd, "copied", 1).await;
    for (now, then) in states(&mut replicas[0].api().await, &threads).await.iter().zip(&before) {
        assert_eq!(kept(now), kept(then));
    }
}

/// What one caller has requested, and what was acknowledged: increments of its threads `a` and `b`, alternately.
#[derive(Default)]
struct Book {
    asked: AtomicU32,
    told: AtomicU32,
}

const CALLERS: usize = 6;
/// The maximum number of elicitations of a thread.
const MOST: u32 = 990;

async fn call(caller: Caller, number: usize, book: Arc<Book>, over: Arc<AtomicBool>) {
    for turn in 0..2 * MOST {
        if over.load(SeqCst) {
            break;
        }
        book.asked.fetch_add(1, SeqCst);
        let thread = format!("{}{number}", if turn % 2 == 0 { 'a' } else { 'b' });
        caller.increment(&thread, &format!("{number}-{turn}")).await;
        book.told.fetch_add(1, SeqCst);
    }
}

/// A backup while replicas are called, and while the leader is killed: it has every change that was acknowledged before
/// it began, and no change without those before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_the_fleet_at_one_moment() {
    let Some(etcd) = Etcd::shared() else { return };
    let place = Place::new();
    let mut replicas = fleet(etcd, "load", 3).await;
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (over, mut callers) = (Arc::<AtomicBool>::default(), tokio::task::JoinSet::new());
    let books: Vec<_> = (0..CALLERS).map(|_| Arc::<Book>::default()).collect();
    for (number, book) in books.iter().enumerate() {
        callers.spawn(call(Caller::from(&addresses, number), number, book.clone(), over.clone()));
    }
    for round in 0..4_u32 {
        let goal = (round + 1) * 40;
        let under_way = async {
            while books.iter().any(|book| book.told.load(SeqCst) < goal) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timed("the callers", under_way).await;
        if round == 2 {
            let leading = leader(&replicas).await;
            replicas.remove(leading).kill();
        }
        let told: Vec<_> = books.iter().map(|book| book.told.load(SeqCst)).collect();
        let (backup, url) = (place.path(&format!("backup {round}")), etcd.url.clone());
        let made = tokio::task::spawn_blocking(move || in_etcd("backup", &backup, &url, "load", &[]));
        succeeds(made.await.expect("no panic"));
        let asked: Vec<_> = books.iter().map(|book| book.asked.load(SeqCst)).collect();
        let (backup, data) = (place.path(&format!("backup {round}")), place.path(&format!("data {round}")));
        succeeds(in_directory("restore", &backup, &data));
        let restored = serve(&data);
        let mut api = restored.api().await;
        for caller in 0..CALLERS {
            let a = api.get(&format!("a{caller}")).await.count;
            let b = api.get(&format!("b{caller}")).await.count;
            let what =
                format!("round {round}, caller {caller}: {a} and {b}; {} told, {} asked", told[caller], asked[caller]);
            assert!(a == b || a == b + 1, "a change is present without the one before it: {what}");
            assert!((told[caller]..=asked[caller]).contains(&(a + b)), "{what}");
        }
    }
    over.store(true, SeqCst);
    timed("the callers", callers.join_all()).await;
}

/// A backup of far more than one log entry, and its contents.
fn large(place: &Place) -> (PathBuf, Model) {
    let (clock, directory, backup) = (System::new(), place.path("large"), place.path("large.backup"));
    let (mut random, mut model) = (Rng::with_seed(0x5eed_0024), Model::with_ballast(40_000));
    let mut store = Embedded::open(&directory, clock.boot_id()).expect("a new store");
    store.load(clock.now()).expect("it is empty");
    for _ in 0..1_000 {
        let batch = model.random_batch(&mut random, clock.now());
        store.commit(&writes(&batch)).expect("there is space");
        model.apply(&writes(&batch));
    }
    drop(store);
    succeeds(in_directory("backup", &backup, &directory));
    let length = backup.metadata().expect("it is there").len();
    assert!(length > 2 << 20, "{length}");
    (backup, model)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_is_killed_half_way_is_not_served() {
    let Some(etcd) = Etcd::shared() else { return };
    let place = Place::new();
    let (backup, model) = large(&place);
    let proxy = Proxy::start(vec![etcd.url.replace("http://", "")]).await;
    proxy.hold_calls_after(1 << 20);
    let url = format!("http://{}", proxy.address);
    let mut restoring = Started::start(etcd_command("restore", &backup, &url, "killed", &[]));
    timed("the restore", proxy.holds()).await;
    restoring.kill();
    drop(proxy);

    let unfinished = ["killed/", "a restore is under way, or was not finished", "pausewatch restore FILE --store etcd"];
    let said = refusal(&["--etcd-endpoints", &etcd.url, "--etcd-prefix", "killed"], 1);
    for part in unfinished {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
    fails(&in_etcd("backup", &place.path("none"), &etcd.url, "killed", &[]), 1, &unfinished);
    assert!(!place.path("none").exists());
    let said = succeeds(in_etcd("restore", &backup, &etcd.url, "killed", &[]));
    assert!(said.contains("an earlier restore was not finished; what it had written was removed"), "{said}");
    let replicas = [replica(etcd, "killed", "127.0.0.1:0")];
    leader(&replicas).await;
    let mut api = replicas[0].api().await;
    let expected = model.contents(System::new().now());
    assert!(expected.records.iter().any(|record| record.open.len() > 1));
    for record in expected.records {
        assert_eq!(api.get(record.thread.as_str()).await.count as usize, record.open.len(), "{:?}", record.thread);
    }
    // An existing fleet is not changed.
    let there = ["killed/", "there is a fleet already", "Give another --etcd-prefix", "etcdctl del --prefix killed/"];
    fails(&in_etcd("restore", &backup, &etcd.url, "killed", &[]), 1, &there);
}

/// Invalid input and environments: each message says what to do, and nothing is changed.
#[test]
fn what_cannot_be_backed_up_or_restored_says_why() {
    let Some(etcd) = Etcd::shared() else { return };
    let place = Place::new();
    let server = serve(&place.path("data"));
    end(server);
    let whole = place.path("whole");
    succeeds(in_directory("backup", &whole, &place.path("data")));
    let bytes = std::fs::read(&whole).expect("it is there");
    std::fs::write(place.path("cut"), &bytes[..bytes.len() - 1]).expect("there is space");
    let cut = in_etcd("restore", &place.path("cut"), &etcd.url, "bad", &[]);
    fails(&cut, 1, &["the backup was cut off. Nothing was changed"]);
    fails(&in_etcd("restore", &place.path("no such"), &etcd.url, "bad", &[]), 1, &["no such: No such file"]);
    fails(
        &in_etcd("backup", &place.path("b"), &etcd.url, "bad", &[]),
        1,
        &["bad/: there is no fleet", "--etcd-prefix"],
    );
    for command in ["backup", "restore"] {
        let lost = in_etcd(command, &whole, "http://127.0.0.1:1", "bad", &[]);
        fails(&lost, 1, &["http://127.0.0.1:1: ", "Connection refused", "Start etcd, or correct --etcd-endpoints"]);
    }
    assert_eq!(std::fs::read(&whole).expect("it is there"), bytes, "a backup that fails replaces nothing");
    fails(
        &in_etcd("restore", &whole, "localhost:2379", "bad", &[]),
        2,
        &["'localhost:2379' for '--etcd-endpoints", "http://HOST:PORT"],
    );
    fails(&in_etcd("restore", &whole, &etcd.url, "bad", &["--force"]), 2, &["--force has no effect with --store etcd"]);
    fails(&in_etcd("backup", &whole, &etcd.url, "bad", &["--data-dir", "d"]), 2, &["--data-dir has no effect"]);
    fails(&in_etcd("backup", &whole, &etcd.url, "/", &[]), 2, &["besides slashes"]);
    let program = |arguments: &[&str], variables: &[(&str, &str)]| {
        ended(program().args(arguments).envs(variables.iter().copied()))
    };
    fails(&program(&["backup", "b", "--store", "etcd"], &[]), 2, &["needs --etcd-endpoints, such as"]);
    fails(&program(&["backup", "b", "--store", "memory"], &[]), 2, &["embedded, etcd"]);
    fails(&program(&["backup", "b", "--data-dir", "d", "--etcd-prefix", "p"], &[]), 2, &["without --store etcd"]);
    fails(&program(&["backup", "b"], &[("PAUSEWATCH_SERVE_STORE", "memory")]), 2, &["`memory`, which keeps nothing"]);
    // The settings of `serve`: variables and the config file.
    let config = place.path("config.toml");
    std::fs::write(&config, format!("[serve]\nstore = 'etcd'\netcd_endpoints = ['{}']\n", etcd.url)).expect("space");
    let config = config.to_str().expect("text");
    let whole = whole.to_str().expect("text");
    let restored =
        program(&["restore", whole, "--config", config], &[("PAUSEWATCH_SERVE_ETCD_PREFIX", "/by/variable")]);
    assert!(succeeds(restored).starts_with("/by/variable of etcd: 0 threads"));
    let again = program(&["restore", whole, "--config", config, "--etcd-prefix", "by/variable"], &[]);
    assert!(succeeds(again).starts_with("by/variable of etcd: "), "another prefix");
    let (url, urls) = (("PAUSEWATCH_SERVE_STORE", "etcd"), ("PAUSEWATCH_SERVE_ETCD_ENDPOINTS", &*etcd.url));
    let there = program(&["restore", whole, "--etcd-prefix", "/by/variable"], &[url, urls]);
    fails(&there, 1, &["there is a fleet already"]);
}

/// Reads need no space, and a backup is wanted when etcd is full.
#[test]
fn a_full_etcd_is_backed_up_and_not_restored_to() {
    let Some(etcd) = Etcd::own(&["--quota-backend-bytes", "300000"]) else { return };
    let place = Place::new();
    let replica = replica(&etcd, "full", "127.0.0.1:0");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let call = async { Caller::new(std::slice::from_ref(&replica.address)).increment("t", "1").await };
    assert_eq!(runtime.block_on(call).0, 1);
    crate::start::fill(&etcd);
    replica.kill();
    let said = succeeds(in_etcd("backup", &place.path("b"), &etcd.url, "full", &[]));
    assert!(said.contains("1 thread, 1 open elicitation"), "{said}");
    fails(&in_etcd("restore", &place.path("b"), &etcd.url, "other", &[]), 1, &["no space left", "alarm disarm"]);
}
