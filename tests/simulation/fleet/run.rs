//! One run: a seed, from its beginning to its end.
use super::clients::{Client, thread};
use super::faults;
use super::oracle::Asked;
use super::world::{Broken, REPLICAS, World};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// One of this many runs is a long one with many threads.
pub(super) const LONG_EVERY: u64 = 16;
/// Most of them are always paused. Twice as many make a run a third slower: most of its time is spent on keep-alives,
/// clock requests and streams.
const LONG_THREADS: usize = 50_000;
const LONG_FOR: Duration = Duration::from_secs(3_600);
/// The minimum thread-hours of a long run.
pub(super) const LONG_THREAD_HOURS: u64 = LONG_THREADS as u64 * LONG_FOR.as_secs() / 3_600;
const CALLERS: usize = 4;
const WATCHERS: usize = 4;
/// The time after the faults in which everything must become idle.
const REST: Duration = Duration::from_secs(30);

/// The result of a seed.
pub(super) struct Course {
    pub(super) lines: Vec<String>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) violation: Option<String>,
    pub(super) thread_hours: f64,
}

/// Runs `seed`, on this thread.
pub(super) fn run(seed: u64, broken: Broken) -> Course {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(simulate(seed, broken))
}

async fn simulate(seed: u64, broken: Broken) -> Course {
    let mut random = Rng::with_seed(seed);
    let is_long = seed.is_multiple_of(LONG_EVERY);
    let world = World::new(&mut random, broken);
    let (residents, lasts, calm) = match is_long {
        true => (LONG_THREADS, LONG_FOR, Duration::from_secs(random.u64(200..600))),
        false => (random.usize(10..60), Duration::from_secs(120), Duration::from_millis(random.u64(700..6_000))),
    };
    let busy = random.usize(1..6);
    (0..REPLICAS).for_each(|number| world.start(number, false));
    let stop = Arc::<AtomicBool>::default();
    let mut client = |number: usize| Client {
        world: world.clone(),
        number,
        random: random.fork(),
        at: number % REPLICAS,
        stop: stop.clone(),
        pace: Duration::from_millis(if is_long { 500 } else { 50 }),
    };
    let chunks = 500.min(residents);
    let settling: Vec<_> = (0..chunks)
        .map(|i| {
            let (from, to) = (busy + i * residents / chunks, busy + (i + 1) * residents / chunks);
            tokio::spawn(client(100 + i).settle(from, to))
        })
        .collect();
    for settling in settling {
        settling.await.expect("no panic");
    }
    let began = Instant::now();
    let callers: Vec<_> =
        (0..CALLERS).map(|i| tokio::spawn(client(i).work(busy, if is_long { 20_000 } else { 1_200 }))).collect();
    let watched = |i: usize| (0..busy).chain([busy + i % residents]).map(thread).collect();
    let watching = Arc::<AtomicBool>::default();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|i| tokio::spawn(Client { stop: watching.clone(), ..client(CALLERS + i) }.watch(watched(i))))
        .collect();
    let storm = client(99).random;
    faults::storm(world.clone(), storm, calm, Instant::now() + lasts).await;
    if !world.oracle.has_violation() {
        sleep(REST).await;
    }
    stop.store(true, SeqCst);
    for task in callers {
        match timeout(Duration::from_secs(60), task).await {
            Ok(ended) => ended.expect("no panic"),
            Err(_) => world.oracle.violation("liveness: a call is not answered at rest".into()),
        }
    }
    // Watchers receive what the last calls have changed.
    let told = async {
        while world.oracle.left_behind().is_some() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(Duration::from_secs(10), told).await.is_err() && !world.oracle.has_violation() {
        world.oracle.violation(format!("I5: {}", world.oracle.left_behind().unwrap_or_default()));
    }
    rest(&world, busy + residents).await;
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
    let (late, lost) = world.net.figures();
    world.oracle.add("messages that came late", late);
    world.oracle.add("messages that were lost", lost);
    world.oracle.add("attempts at etcd that were in doubt", world.cluster.in_doubt());
    let thread_hours = began.elapsed().as_secs_f64() / 3_600.0 * (busy + residents) as f64;
    let (lines, counts, violation) = world.oracle.course();
    Course { lines, counts, violation, thread_hours }
}

/// Waits until all replicas show at least the state that the log had when they were asked, for all threads: leases
/// still end.
async fn rest(world: &Arc<World>, threads: usize) {
    if world.oracle.has_violation() {
        return;
    }
    let replicas = world.replicas();
    let leaders = replicas.iter().filter(|replica| replica.leading.serving().is_some()).count();
    if (replicas.len(), leaders) != (REPLICAS, 1) {
        world.oracle.violation(format!("liveness: of {} replicas {leaders} lead at rest", replicas.len()));
    }
    for replica in replicas {
        let began = Instant::now();
        let lasts: Vec<_> = (0..threads).map(|number| world.oracle.last(thread(number).as_str())).collect();
        if replica.leading.confirm().await.is_err() {
            world.oracle.violation(format!("liveness: replica {} is not sure of the latest state", replica.number));
        }
        for (number, last) in lasts.into_iter().enumerate() {
            let thread = thread(number);
            let asked = Asked { revision: 0, at: Some(began) };
            let told = replica.show(&thread);
            if told.revision < last.0 || (told.revision == last.0 && told.count != last.1) {
                let what = format!("I8: replica {} shows {told:?} of {thread}, not {last:?}", replica.number);
                world.oracle.violation(what);
            }
            world.oracle.told(&format!("replica {}", replica.number), thread.as_str(), told, asked, None);
        }
    }
}
