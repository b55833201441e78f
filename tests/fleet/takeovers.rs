//! Replicas as processes, whose leader is killed, stopped and drained while clients call.
use crate::caller::{Caller, health};
use crate::etcd::Etcd;
use crate::support::{PATIENCE, Process};
use fastrand::Rng;
use pausewatch::proto::v1;
use rustix::process::Signal;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;

/// Clients that call all the time, each on its own thread.
const CLIENTS: usize = 4;
/// Under this name, the health service reports whether a replica leads.
pub(crate) const LEADER: &str = "pausewatch.Leader";

pub(crate) fn replica(etcd: &Etcd, prefix: &str, listen: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args([
        "serve",
        "--store",
        "etcd",
        "--etcd-endpoints",
        &etcd.url,
        "--etcd-prefix",
        prefix,
        "--listen",
        listen,
    ]);
    let mut process = Process::start(command);
    process.listen();
    process
}

/// Waits until one of them leads; returns its index.
pub(crate) async fn leader(replicas: &[Process]) -> usize {
    let give_up = Instant::now() + PATIENCE;
    loop {
        for (i, replica) in replicas.iter().enumerate() {
            if health(&replica.address, LEADER).await.as_deref() == Some("SERVING") {
                return i;
            }
        }
        assert!(Instant::now() < give_up, "no replica leads");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Opens and closes one elicitation after another until `stop`. The client has its own thread, so every change that was
/// lost or made twice shows in the next count or revision. A read sees every earlier answer (I4).
async fn client(
    caller: Caller,
    number: usize,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
) -> (String, u64) {
    let thread = format!("thread {number}");
    let (mut revision, mut call) = (0, 0);
    while !stop.load(SeqCst) {
        for is_open in [true, false] {
            call += 1;
            let request_id = format!("{number}-{call}");
            let answer = match is_open {
                true => caller.increment(&thread, &request_id).await,
                false => caller.decrement(&thread, &request_id).await,
            };
            assert_eq!(
                answer,
                (u32::from(is_open), revision + 1),
                "{request_id}: each call must count once, and none may be lost"
            );
            revision += 1;
            answered.store(revision, SeqCst);
            answers.fetch_add(1, SeqCst);
        }
        assert_eq!(caller.get(&thread).await.revision, revision, "a read must see the answered change");
    }
    (thread, revision)
}

/// Watches a thread at one replica after another, until `stop`. Each watch starts with all that was answered before it
/// (I4), and over all watches revisions do not decrease (I5). Returns the last one and the number of watches.
async fn watcher(
    addresses: Vec<String>,
    number: usize,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) -> (u64, usize) {
    let (mut seen, mut watches) = (0, 0);
    for address in addresses.iter().cycle().skip(number) {
        let is_last = stop.load(SeqCst);
        let before = answered.load(SeqCst);
        let Some(mut watch) = watch(address, &format!("thread {number}")).await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        // After this many messages it goes to the next replica. A replica that hangs is silent for longer than its
        // heartbeat interval.
        for message in 0..30 {
            let Ok(Ok(Some(next))) = timeout(Duration::from_millis(2_500), watch.message()).await else { break };
            let Some(Event::PauseState(state)) = next.event else { continue };
            let at = format!("thread {number} at {address}, message {message}");
            assert!(state.revision >= seen, "{at}: {} after {seen}", state.revision);
            assert!(state.revision >= before, "{at}: {}, but {before} was answered", state.revision);
            seen = state.revision;
            watches += usize::from(message == 0);
            if is_last {
                return (seen, watches);
            }
        }
    }
    unreachable!("there are addresses")
}

async fn watch(address: &str, thread: &str) -> Option<Streaming<v1::WatchPauseStateResponse>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let connected = timeout(Duration::from_secs(1), endpoint.connect()).await.ok()?.ok()?;
    let request = v1::WatchPauseStateRequest { thread_ids: vec![thread.to_owned()], ..Default::default() };
    let mut client = ElicitationServiceClient::new(connected);
    let opened = timeout(Duration::from_millis(2_500), client.watch_pause_state(request)).await.ok()?;
    Some(opened.ok()?.into_inner())
}

#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    /// SIGSTOP until another replica leads, then SIGCONT.
    Freeze,
    Drain,
}

/// Invariants 2, 4, 5 and 10 with real processes: over a series of takeovers, no acknowledged change is lost or made
/// twice, and reads and watches at any replica see all answered changes.
#[tokio::test]
async fn no_acknowledged_change_is_lost_or_doubled_over_a_loop_of_takeovers() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut replicas = vec![replica(etcd, "loop", "127.0.0.1:0")];
    leader(&replicas).await;
    replicas.extend((1..3).map(|_| replica(etcd, "loop", "127.0.0.1:0")));
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let (stop, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let answered_of: Vec<_> = (0..CLIENTS).map(|_| Arc::<AtomicU64>::default()).collect();
    let client = |i: usize| {
        let (stop, answers, answered) = (stop.clone(), answers.clone(), answered_of[i].clone());
        tokio::spawn(client(Caller::from(&addresses, i), i, stop, answers, answered))
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let watched = Arc::<AtomicBool>::default();
    let watcher = |i: usize| tokio::spawn(watcher(addresses.clone(), i, watched.clone(), answered_of[i].clone()));
    let watchers: Vec<_> = (0..CLIENTS).map(watcher).collect();
    let mut random = Rng::with_seed(0x5eed_0023);
    let mut outages = Vec::new();
    for round in 0..9 {
        let blow = [Blow::Kill, Blow::Freeze, Blow::Drain][round % 3];
        answered(&answers, 20 + random.u64(..60), &clients).await;
        let leading = leader(&replicas).await;
        let began = Instant::now();
        match blow {
            Blow::Kill => {
                replicas.remove(leading).kill();
                answered(&answers, 2 * CLIENTS as u64, &clients).await;
            }
            Blow::Freeze => {
                replicas[leading].signal(Signal::STOP);
                answered(&answers, 2 * CLIENTS as u64, &clients).await;
            }
            Blow::Drain => {
                let drained = replicas.remove(leading);
                drained.signal(Signal::TERM);
                answered(&answers, 2 * CLIENTS as u64, &clients).await;
                let (status, said) = tokio::task::spawn_blocking(|| drained.end()).await.expect("no panic");
                assert!(status.success(), "{said}");
            }
        }
        outages.push((blow, began.elapsed().as_millis()));
        match blow {
            // It continues as a leader, but must not answer as one: the next calls go to it as well.
            Blow::Freeze => {
                replicas[leading].signal(Signal::CONT);
                follows(&replicas[leading].address).await;
            }
            Blow::Kill | Blow::Drain => {
                let listen = addresses.iter().find(|address| replicas.iter().all(|left| left.address != **address));
                replicas.push(replica(etcd, "loop", listen.expect("the one that is gone")));
            }
        }
    }
    stop.store(true, SeqCst);
    let caller = Caller::new(&addresses);
    for client in clients {
        let (thread, revision) = client.await.expect("no panic");
        let state = caller.get(&thread).await;
        assert_eq!((state.count, state.revision), (0, revision), "{thread}");
    }
    watched.store(true, SeqCst);
    let mut watches = 0;
    for (watcher, answered) in watchers.into_iter().zip(&answered_of) {
        let (seen, of_it) = watcher.await.expect("no panic");
        assert_eq!(seen, answered.load(SeqCst), "a watch ends at the last state");
        watches += of_it;
    }
    assert!(watches > CLIENTS, "watches must have moved between replicas");
    println!("{watches} watches, {} calls; outages in ms: {outages:?}", answers.load(SeqCst));
}

/// Waits for this many further answers.
async fn answered(answers: &AtomicU64, more: u64, clients: &[tokio::task::JoinHandle<(String, u64)>]) {
    let (goal, give_up) = (answers.load(SeqCst) + more, Instant::now() + PATIENCE);
    while answers.load(SeqCst) < goal {
        assert!(clients.iter().all(|client| !client.is_finished()), "a client failed");
        assert!(Instant::now() < give_up, "no client is answered");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a replica reports that it does not lead.
async fn follows(address: &str) {
    let give_up = Instant::now() + PATIENCE;
    while health(address, LEADER).await.as_deref() != Some("NOT_SERVING") {
        assert!(Instant::now() < give_up, "the replica still leads");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Another process at the address of a dead leader must not count as the leader's answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_on_the_port_of_a_lost_leader_answers_nobody() {
    let Some(etcd) = Etcd::shared() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut replicas = crate::followers::fleet(etcd, "another", 2).await;
    let (follower, leader) = (replicas.remove(1), replicas.remove(0));
    let address = leader.address.clone();
    leader.kill();
    let _other = Process::serve(directory.path(), &address);
    let mut api = follower.api().await;
    assert_eq!(api.increment("a", None).await.count, 1);
}

/// Watches of a dead leader end, and the next leader continues where they were (I5): the revision increases, the epoch
/// stays, and the paused time is the time that passed.
#[tokio::test]
async fn watches_and_paused_time_go_on_at_the_next_leader() {
    let Some(etcd) = Etcd::shared() else { return };
    for signal in [Signal::KILL, Signal::TERM] {
        let prefix = format!("watch-{}", signal.as_raw());
        let mut replicas = vec![replica(etcd, &prefix, "127.0.0.1:0")];
        leader(&replicas).await;
        replicas.push(replica(etcd, &prefix, "127.0.0.1:0"));
        let caller = Caller::new(&replicas.iter().map(|replica| replica.address.clone()).collect::<Vec<_>>());
        caller.increment("a", "1").await;
        let mut api = replicas[0].api().await;
        let mut watch = api.watch(&["a"]).await;
        assert_eq!(crate::support::states(&mut watch).await.len(), 1);
        let (before_first, before) = (Instant::now(), caller.get("a").await);
        let after_first = Instant::now();
        replicas[0].signal(signal);
        let ended = loop {
            match watch.message().await {
                Ok(Some(_)) => {}
                ended => break ended,
            }
        };
        assert!(ended.as_ref().err().is_some_and(|status| status.code() != Code::Ok), "{ended:?}");
        let (before_second, after) = (Instant::now(), caller.get("a").await);
        let after_second = Instant::now();
        assert_eq!((after.count, after.revision, after.store_epoch), (1, before.revision, before.store_epoch));
        let total = |state: &pausewatch::proto::v1::PauseState| {
            let total = state.paused_total.expect("there is one");
            Duration::new(total.seconds.unsigned_abs(), total.nanos.unsigned_abs())
        };
        let passed = total(&after).checked_sub(total(&before)).expect("it never falls");
        let error = Duration::from_millis(2);
        assert!(passed + error >= before_second - after_first, "{passed:?}");
        assert!(passed <= after_second - before_first + error, "{passed:?}");
        let (count, revision) = caller.decrement("a", "2").await;
        assert_eq!((count, revision), (0, before.revision + 1));
    }
}
