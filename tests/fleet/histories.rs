//! Histories through all replicas: several clients at once change, read and watch the same threads at whichever replica a connection comes
//! to, while leaders are killed and stopped, and links between any two of client, replica and etcd hold or lose what is sent. Each must be
//! explained by one order for each thread: linearizable, each call once (G4), no watch that goes back (G6).
use crate::caller::health;
use crate::clients::{Caller, Shared, THREADS, Watch, watch};
use crate::etcd::Etcd;
use crate::followers::serves;
use crate::history::{Recorder, What};
use crate::linear::check_all;
use crate::proxy::{Mode, Proxy};
use crate::support::{Api, PATIENCE, Process, Random, api};
use crate::takeovers::LEADER;
use rustix::process::Signal;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const CALLERS: usize = 3;
/// Calls that are begun during and after each blow.
const CALLS_A_BLOW: usize = 8;

/// A replica whose ways to etcd, and to the other replicas, lead through proxies.
struct Placed {
    process: Process,
    etcd: Proxy,
    peers: Proxy,
}

impl Placed {
    async fn start(etcd: &Etcd, prefix: &str, listen: &str) -> Self {
        let to_etcd = Proxy::start(vec![etcd.url.trim_start_matches("http://").to_owned()]).await;
        let peers = Proxy::start(Vec::new()).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--store", "etcd", "--etcd-prefix", prefix, "--listen", listen]);
        command.args(["--etcd-endpoints", &format!("http://{}", to_etcd.address), "--advertise", &peers.address]);
        let start = move || {
            let mut process = Process::start(command);
            process.listen();
            process
        };
        // It needs its proxy to start.
        let process = tokio::task::spawn_blocking(start).await.expect("it starts");
        peers.turn_to(vec![process.address.clone()]);
        Placed { process, etcd: to_etcd, peers }
    }
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    /// SIGSTOP until another one leads, then SIGCONT.
    Freeze,
    /// Its way to etcd, until another one leads.
    Etcd(Mode),
    /// The way of the others to it.
    Peers(Mode),
    /// The way of the clients to all replicas.
    Clients(Mode),
}

const BLOWS: [Blow; 8] = [
    Blow::Etcd(Mode::HoldsAnswers),
    Blow::Kill,
    Blow::Peers(Mode::Stalled),
    Blow::Etcd(Mode::HoldsCalls),
    Blow::Clients(Mode::HoldsAnswers),
    Blow::Freeze,
    Blow::Peers(Mode::Cut),
    Blow::Clients(Mode::Cut),
];

async fn revisions(api: &mut Api) -> [u64; 2] {
    [api.get(THREADS[0]).await.revision, api.get(THREADS[1]).await.revision]
}

/// Waits until another replica than `old` leads.
async fn succeeded(replicas: &[Placed], old: usize) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        for (i, replica) in replicas.iter().enumerate().filter(|(i, _)| *i != old) {
            if health(&replica.process.address, LEADER).await.as_deref() == Some("SERVING") {
                return println!("  {i} leads");
            }
        }
        assert!(Instant::now() < give_up, "nobody else leads");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn leads(replicas: &[Placed]) -> usize {
    let give_up = Instant::now() + PATIENCE;
    loop {
        for (i, replica) in replicas.iter().enumerate() {
            if health(&replica.process.address, LEADER).await.as_deref() == Some("SERVING") {
                return i;
            }
        }
        assert!(Instant::now() < give_up, "nobody leads");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Invariants 2 to 5 and 10 with real processes and partitions.
#[tokio::test]
async fn histories_through_kills_stops_and_partitions_are_linearizable() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Placed::start(etcd, "histories", "127.0.0.1:0").await);
    }
    for replica in &replicas {
        serves(&replica.process.address).await;
    }
    let addresses = replicas.iter().map(|replica| replica.process.address.clone()).collect();
    let clients = Proxy::start(addresses).await;
    let (record, given) = (Recorder::default(), Mutex::default());
    let address = clients.address.parse().expect("an address");
    let shared = Arc::new(Shared { address, record, given });
    let (last, wait) = tokio::sync::watch::channel(None);
    let mut watchers = JoinSet::new();
    for how in [Watch::Fixed { whole: false }, Watch::Fixed { whole: true }, Watch::Changing { whole: true }] {
        watchers.spawn(watch(shared.clone(), how, wait.clone()));
    }
    let mut random = Random::new(0x5eed_0024);
    for blow in BLOWS {
        let leading = leads(&replicas).await;
        println!("{blow:?} at {leading}");
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(Caller::new(shared.clone(), Random::new(random.next())).make(CALLS_A_BLOW));
        }
        match blow {
            Blow::Kill => {
                let Placed { process, .. } = replicas.remove(leading);
                let address = process.address.clone();
                process.kill();
                replicas.insert(leading, Placed::start(etcd, "histories", &address).await);
                leads(&replicas).await;
            }
            Blow::Freeze => {
                replicas[leading].process.signal(Signal::STOP);
                succeeded(&replicas, leading).await;
                replicas[leading].process.signal(Signal::CONT);
            }
            Blow::Etcd(mode) => {
                replicas[leading].etcd.set(mode);
                succeeded(&replicas, leading).await;
                replicas[leading].etcd.set(Mode::Whole);
            }
            // Nobody takes over: those who came to another replica wait.
            Blow::Peers(mode) => {
                replicas[leading].peers.set(mode);
                sleep(Duration::from_millis(700)).await;
                replicas[leading].peers.set(Mode::Whole);
            }
            Blow::Clients(mode) => {
                clients.set(mode);
                sleep(Duration::from_millis(300)).await;
                clients.set(Mode::Whole);
            }
        }
        let answered = timeout(PATIENCE, callers.join_all()).await;
        answered.expect("each call that may be sent again is answered");
    }
    let leading = leads(&replicas).await;
    let mut api = api(&replicas[leading].process.address).await;
    last.send_replace(Some(revisions(&mut api).await));
    let told = async { while watchers.join_next().await.transpose().expect("it does not panic").is_some() {} };
    timeout(PATIENCE, told).await.expect("G6: a watch ends at the last state");
    for thread in THREADS {
        let number = shared.record.begin(thread, What::Get);
        let state = shared.state(thread, api.get(thread).await, true);
        shared.record.end(number, state);
    }
    let operations = shared.record.operations();
    let unknown = operations.iter().filter(|operation| operation.ended.is_none()).count();
    println!("{} operations, {unknown} of them never answered", operations.len());
    check_all(&operations, THREADS.into_iter().zip([0; 2])).unwrap_or_else(|why| panic!("{why}"));
}
