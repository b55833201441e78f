//! The leader is killed, stopped, or cut off from etcd, the other replicas and clients, while callers and watchers are
//! active.
use super::isolated::Isolated;
use crate::etcd::{Cluster, answers};
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::{grpc, threads};
use pausewatch::client::{Address, Client, Event, IncrementElicitationRequest};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The callers at a follower, with only a stub: no call may fail.
const FOLLOWERS: usize = 4;
/// The clients that know all replicas. Each uses one of them, chosen at random.
const CLIENTS: usize = 9;
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between the start of the callers and the fault.
const BEFORE: Duration = Duration::from_secs(1);

const AT_FOLLOWER: &str = "longest call at another replica, ms";
const ANYWHERE: &str = "longest call of a client of all replicas, ms";
const WATCHERS: &str = "a change right after it reaches all watchers, ms";
const KILL: &str = "kill -9 of the leader";
const STOP: &str = "SIGSTOP of the leader";
const ISOLATION: &str = "isolation of the leader";

pub(super) fn measure(settings: &Settings, table: &mut Table, column: &str) -> Result<()> {
    for case in [KILL, STOP, ISOLATION] {
        let cluster = Cluster::start(settings, 3)?;
        let (first, isolated) = match case {
            ISOLATION => Isolated::start(&cluster, settings).map(|(isolated, first)| (first, Some(isolated)))?,
            _ => (cluster.replica(settings)?, None),
        };
        let replicas = cluster.led_by(first, settings, 3)?;
        let mut addresses: Vec<_> = replicas.iter().map(|replica| replica.address.clone()).collect();
        if let Some(isolated) = &isolated {
            addresses[0].clone_from(&isolated.address);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let fault = || match &isolated {
            None => replicas[0].signal(if case == KILL { Signal::KILL } else { Signal::STOP }),
            Some(isolated) => {
                isolated.cut();
                Ok(())
            }
        };
        let [follower, anywhere, watchers] = runtime.block_on(suffer(&addresses, fault))?;
        table.add((case, AT_FOLLOWER, column), follower * 1e3);
        table.add((case, ANYWHERE, column), anywhere * 1e3);
        table.add((case, WATCHERS, column), watchers * 1e3);
        answers(&replicas[1])?;
    }
    Ok(())
}

pub(super) fn goals(table: &mut Table, column: &str) {
    table.goal_at_most("kill -9 of the leader, a call elsewhere", (KILL, AT_FOLLOWER, column), 1_500.0, "ms");
    table.goal_at_most("SIGSTOP of the leader, a call elsewhere", (STOP, AT_FOLLOWER, column), 2_000.0, "ms");
    table.goal_at_most("SIGSTOP of the leader, its own watchers", (STOP, WATCHERS, column), 3_000.0, "ms");
    table.goal_at_most("isolation of the leader, a call elsewhere", (ISOLATION, AT_FOLLOWER, column), 2_000.0, "ms");
    table.goal_at_most("isolation of the leader, its own watchers", (ISOLATION, WATCHERS, column), 3_000.0, "ms");
}

/// Returns seconds: the longest call at a follower, the longest call of a client that knows all replicas, and the time
/// from the fault until all watchers have a change.
async fn suffer(addresses: &[String], fault: impl FnOnce() -> Result<()>) -> Result<[f64; 3]> {
    let stop = Arc::<AtomicBool>::default();
    let mut at_follower = Vec::new();
    for caller in 0..FOLLOWERS {
        let link = grpc::Link::connect(&addresses[1 + caller % 2], false, None).await?;
        at_follower.push(tokio::spawn(call(link, 1_000 + caller, stop.clone())));
    }
    let all: Address = addresses.join(",").parse().map_err(|error| format!("{error}"))?;
    let (mut anywhere, mut watchers) = (Vec::new(), Vec::new());
    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..CLIENTS).map(|_| AtomicU64::new(0)).collect());
    for number in 0..CLIENTS {
        let client = Client::new(&all)?;
        watchers.push(tokio::spawn(watch(client.clone(), number, seen.clone())));
        anywhere.push(tokio::spawn(call_by(client, 2_000 + number, stop.clone())));
    }
    let mut caller = grpc::Link::connect(&addresses[1], false, None).await?;
    caller.call(&threads::id(1), true).await?;
    everybody_saw(&seen, 1).await?;
    sleep(BEFORE).await;
    let begin = Instant::now();
    fault()?;
    caller.call(&threads::id(1), true).await?;
    everybody_saw(&seen, 2).await?;
    let watched = begin.elapsed();
    sleep(BEFORE).await;
    stop.store(true, SeqCst);
    let (follower, anywhere) = (longest(at_follower).await?, longest(anywhere).await?);
    watchers.iter().for_each(JoinHandle::abort);
    Ok([follower, anywhere, watched].map(|time| time.as_secs_f64()))
}

async fn everybody_saw(seen: &[AtomicU64], revision: u64) -> Result<()> {
    let all = async {
        while seen.iter().any(|seen| seen.load(SeqCst) < revision) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    Ok(timeout(PATIENCE, all).await.map_err(|_| "watchers miss a change")?)
}

async fn longest(callers: Vec<JoinHandle<Result<Duration>>>) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for caller in callers {
        longest = longest.max(timeout(PATIENCE, caller).await???);
    }
    Ok(longest)
}

/// Calls until `stop`; returns the longest call. No call may fail or count twice.
async fn call(mut link: grpc::Link, thread: usize, stop: Arc<AtomicBool>) -> Result<Duration> {
    let (thread, mut longest, mut up) = (threads::id(thread), Duration::ZERO, true);
    while !stop.load(SeqCst) {
        let begin = Instant::now();
        let count = link.call(&thread, up).await?;
        if count != u64::from(up) {
            return Err(format!("count {count}").into());
        }
        longest = longest.max(begin.elapsed());
        up = !up;
    }
    Ok(longest)
}

async fn call_by(client: Client, thread: usize, stop: Arc<AtomicBool>) -> Result<Duration> {
    let (thread_id, mut longest, mut count) = (threads::id(thread), Duration::ZERO, 0);
    while !stop.load(SeqCst) {
        let begin = Instant::now();
        let request = IncrementElicitationRequest { thread_id: thread_id.clone(), ..Default::default() };
        count += 1;
        let answer = client.increment_elicitation(request).await?;
        if answer.count != count {
            return Err(format!("count {} instead of {count}", answer.count).into());
        }
        longest = longest.max(begin.elapsed());
        // Close to the maximum number of elicitations of a thread.
        if count == 900 {
            return Err("too many open elicitations: the calls are faster than this was made for".into());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(longest)
}

/// Records the last revision that a watcher has received.
async fn watch(client: Client, number: usize, seen: Arc<Vec<AtomicU64>>) -> Result<()> {
    let mut watch = client.watch();
    watch.add(&threads::id(1))?;
    loop {
        if let Event::State(update) = watch.next().await {
            seen[number].fetch_max(update.state.revision, SeqCst);
        }
    }
}
