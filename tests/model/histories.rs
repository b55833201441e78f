//! Histories of the real program: several clients at once, lost answers, broken connections, a kill -9 in the middle.
//! One order per thread must explain each history: linearizable, G4 and G6.
use crate::clients::{Caller, Shared, THREADS, Watch, watch};
use crate::history::{Operation, Recorder, What};
use crate::linear::check_all;
use crate::proxy::Proxy;
use crate::support::{Api, PATIENCE, Process, api};
use fastrand::Rng;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

const CALLERS: usize = 4;
const CALLS: usize = 30;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// The server of a history.
enum Kept<'a> {
    In(&'a Path),
    Nowhere,
}

impl Kept<'_> {
    fn serve(&self) -> Process {
        match self {
            Kept::In(directory) => Process::serve(directory, "127.0.0.1:0"),
            Kept::Nowhere => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
                command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
                Process::start(command)
            }
        }
    }
}

async fn revisions(api: &mut Api) -> [u64; 2] {
    [api.get(THREADS[0]).await.revision, api.get(THREADS[1]).await.revision]
}

fn address(server: &Process) -> std::net::SocketAddr {
    server.address.parse().expect("an address")
}

/// The result of a history.
struct Played {
    operations: Vec<Operation>,
    /// The revisions of the threads at its start.
    floors: [u64; 2],
    /// The number of broken connections, by kind.
    broken: [usize; 3],
}

async fn play(seed: u64, kept: &Kept<'_>) -> Played {
    let mut random = Rng::with_seed(seed);
    let mut server = kept.serve();
    let floors = revisions(&mut api(&server.address).await).await;
    let proxy = Proxy::start(address(&server), random.fork()).await.expect("a port");
    let (record, given) = (Recorder::default(), Mutex::default());
    let shared = Arc::new(Shared { address: proxy.address, threads: THREADS, record, given });
    let (last, wait) = tokio::sync::watch::channel(None);
    let mut watchers = JoinSet::new();
    for whole in [false, true] {
        for how in [Watch::Fixed { whole }, Watch::Changing { whole }] {
            watchers.spawn(watch(shared.clone(), how, wait.clone()));
        }
    }
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(Caller::new(shared.clone(), random.fork()).make(CALLS));
    }
    if let Kept::In(_) = kept {
        // Somewhere in the middle of the calls.
        shared.record.begun(CALLERS * CALLS / 4 + random.usize(..CALLERS * CALLS / 2)).await;
        server.kill();
        server = kept.serve();
        proxy.turn_to(address(&server));
    }
    callers.join_all().await;
    let mut api = api(&server.address).await;
    last.send_replace(Some(revisions(&mut api).await));
    let told = async { while watchers.join_next().await.transpose().expect("it does not panic").is_some() {} };
    tokio::time::timeout(PATIENCE, told).await.expect("G6: a watch ends at the last state");
    for thread in THREADS {
        let number = shared.record.begin(thread, What::Get);
        let state = shared.state(thread, api.get(thread).await, true);
        shared.record.end(number, state);
    }
    Played { operations: shared.record.operations(), floors, broken: proxy.broken() }
}

/// `PAUSEWATCH_HISTORIES` sets the number, `PAUSEWATCH_HISTORY_SEED` the first seed.
fn play_all(test: &str, kept: fn(&Path) -> Kept<'_>) {
    let first = number("PAUSEWATCH_HISTORY_SEED", 0x5eed_0021);
    println!("replay (what meets what is chance): PAUSEWATCH_HISTORY_SEED=SEED cargo test --test model {test}");
    let (mut lost, mut broken) = (0, [0; 3]);
    for seed in first..first + number("PAUSEWATCH_HISTORIES", 20) {
        let directory = tempfile::tempdir().expect("a directory");
        println!("seed {seed}");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let played = runtime.expect("a runtime").block_on(play(seed, &kept(directory.path())));
        let threads = THREADS.into_iter().zip(played.floors);
        check_all(&played.operations, threads).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        lost += played.operations.iter().filter(|operation| operation.ended.is_none()).count();
        (0..3).for_each(|i| broken[i] += played.broken[i]);
    }
    println!(
        "{lost} calls were never answered; connections broke before a call, after it, before its answer: {broken:?}"
    );
    assert!(lost > 0 && broken.iter().all(|count| *count > 0), "too few faults happened to test them");
}

#[test]
fn histories_of_a_server_that_keeps_nothing_are_linearizable() {
    play_all("that_keeps_nothing", |_| Kept::Nowhere);
}

#[test]
fn histories_of_a_server_that_is_killed_once_are_linearizable() {
    play_all("that_is_killed_once", |directory| Kept::In(directory));
}
