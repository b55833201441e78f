//! A fleet of replicas, on a model of etcd and of the network, in simulated time, under the eyes of an oracle.
//!
//! Three replicas run the real code: joining, following, challenging, the chain of a leader, checkpoints, the standby, the cluster clock,
//! freshness, confirmations and the engine. Their etcd (`etcd`), the network (`net`) and the machines (`machine`) are models; gRPC is left
//! out, and forwarding and streams are as short as they can be (`replica`, `clients`). A seed decides everything.
//!
//! Runs are measured in thread-hours: threads, times the simulated time in which they were watched and paused. `cargo test --test simulation
//! fleet` simulates 50,000 of them; `PAUSEWATCH_SIM_THREAD_HOURS=1000000` more, from a random first seed; `PAUSEWATCH_FLEET_SEED=7` runs seed
//! 7 alone and prints what happened.
mod clients;
mod etcd;
mod faults;
mod machine;
mod net;
mod oracle;
mod replica;
mod world;

use clients::{Client, thread};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use world::{Broken, REPLICAS, World};

/// One of so many runs is a long one with many threads.
const LONG_EVERY: u64 = 8;
/// Thread-hours unless told otherwise: about a minute of one core.
const THREAD_HOURS: u64 = 50_000;
/// Most of them are paused all the time.
const LONG_THREADS: usize = 25_000;
const CALLERS: usize = 4;
const WATCHERS: usize = 4;
/// After the faults: time in which everything must come to rest.
const REST: Duration = Duration::from_secs(30);

/// What each set of runs must have seen, lest the simulation goes blind.
const MUST_HAPPEN: [&str; 19] = [
    "broken watches",
    "calls that were made again for want of an answer",
    "changes that were acknowledged",
    "compactions",
    "cuts between a client and a replica",
    "cuts between a replica and etcd",
    "cuts between two replicas",
    "drains of a replica",
    "kills of a replica",
    "leases that ended",
    "members of etcd that stand still",
    "messages that came late",
    "reads",
    "states that watchers were told",
    "stops of a replica",
    "streams that ended because the replica was not fresh",
    "takeovers",
    "times without a leader of etcd",
    "wall clocks that are set",
];

struct Course {
    lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    violation: Option<String>,
    thread_hours: f64,
}

/// Runs `seed`, on this thread.
fn run(seed: u64, broken: Broken) -> Course {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(simulate(seed, broken))
}

async fn simulate(seed: u64, broken: Broken) -> Course {
    let mut random = Rng::with_seed(seed);
    let is_long = seed.is_multiple_of(LONG_EVERY);
    let world = World::new(&mut random, broken);
    let (residents, lasts, calm) = match is_long {
        true => (LONG_THREADS, Duration::from_secs(3_600), Duration::from_secs(random.u64(200..600))),
        false => (random.usize(10..60), Duration::from_secs(120), Duration::from_millis(random.u64(700..6_000))),
    };
    let busy = random.usize(1..6);
    let began = Instant::now();
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
    // Watchers are told what the last calls have changed.
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

/// All replicas show all threads as the log has left them.
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
        if replica.leading.confirm().await.is_err() {
            world.oracle.violation(format!("liveness: replica {} is not sure of the latest state", replica.number));
        }
        for number in 0..threads {
            let thread = thread(number);
            let asked = oracle::Asked { revision: 0, at: Some(began) };
            let (told, last) = (replica.show(&thread), world.oracle.last(thread.as_str()));
            if (told.revision, told.count) != last {
                let what = format!("I8: replica {} shows {told:?} of {thread}, not {last:?}", replica.number);
                world.oracle.violation(what);
            }
            world.oracle.told(&format!("replica {}", replica.number), thread.as_str(), told, asked, None);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

fn check(seed: u64, course: &Course) {
    if let Some(violation) = &course.violation {
        course.lines.iter().for_each(|line| println!("{line}"));
        panic!(
            "seed {seed}: {violation}\nreplay: PAUSEWATCH_FLEET_SEED={seed} cargo test --test simulation fleet -- --nocapture"
        );
    }
}

#[test]
fn the_invariants_of_a_fleet_hold_under_faults() {
    if let Some(seed) = number("PAUSEWATCH_FLEET_SEED") {
        let course = run(seed, Broken::Nothing);
        course.lines.iter().for_each(|line| println!("{line}"));
        course.counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
        return check(seed, &course);
    }
    let wanted = number("PAUSEWATCH_SIM_THREAD_HOURS");
    let first = wanted.map_or(1, |_| fastrand::u64(..1 << 40));
    let (mut counts, mut thread_hours, mut runs) = (BTreeMap::<_, u64>::new(), 0.0, 0);
    while thread_hours < wanted.unwrap_or(THREAD_HOURS) as f64 {
        let course = run(first + runs, Broken::Nothing);
        check(first + runs, &course);
        course.counts.iter().for_each(|(what, count)| *counts.entry(*what).or_default() += count);
        thread_hours += course.thread_hours;
        runs += 1;
    }
    println!("{thread_hours:.0} thread-hours in {runs} runs");
    counts.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
    for what in MUST_HAPPEN {
        assert!(counts.contains_key(what), "the simulation has gone blind: no {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_fleet() {
    for seed in 1..4 {
        let (first, second) = (run(seed, Broken::Nothing), run(seed, Broken::Nothing));
        let differing = first.lines.iter().zip(&second.lines).find(|(first, second)| first != second);
        assert!(first.lines == second.lines, "seed {seed}: {differing:?}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
        assert!(first.lines.len() > 20, "seed {seed}: hardly anything happened");
    }
}

/// A test that cannot fail proves nothing.
#[test]
fn the_oracle_notices_what_is_broken() {
    for (broken, invariants) in [
        (Broken::Fence, &["I1", "I2", "I3", "I5", "I7", "I10"][..]),
        (Broken::Confirmation, &["I2", "I4", "I6"][..]),
        (Broken::Horizon, &["I6"][..]),
    ] {
        let seeds = (1_u64..200).filter(|seed| !seed.is_multiple_of(LONG_EVERY));
        let found = seeds.filter_map(|seed| Some((seed, run(seed, broken).violation?))).next();
        let (seed, violation) = found.unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        println!("{broken:?}: seed {seed}: {violation}");
        assert!(invariants.iter().any(|invariant| violation.starts_with(invariant)), "{broken:?}: {violation}");
    }
}
