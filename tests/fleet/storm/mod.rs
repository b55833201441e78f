//! A storm of mixed faults over three replicas and three members of etcd: processes are killed, stopped and drained,
//! and connections between any two of client, replica and etcd are delayed or cut. Up to two faults last at a time, and
//! leaders are hit as often as others.
//!
//! - `changes`: no acknowledged change is lost or made twice, and reads see acknowledged changes (G4 to G6).
//! - `commands`: no command is killed while its thread is paused (G1).
//! - Histories of concurrent clients are linearizable (`../concurrent.rs`); each round has one.
//!
//! `PAUSEWATCH_STORM_FAULTS` sets the number of faults, `PAUSEWATCH_STORM_SEED` their choice; which calls they
//! interrupt is random.
mod books;
mod changes;
mod cluster;
mod commands;
mod faults;

use crate::caller::{Caller, term};
use crate::concurrent::Concurrent;
use crate::followers::serves;
use crate::histories::leads;
use crate::proxy::Proxy;
use crate::site::Site;
use crate::support::PATIENCE;
use books::{Books, HISTORIES, OPERATIONS, UNKNOWN, WRONG};
use cluster::Cluster;
use commands::Commands;
use fastrand::Rng;
use faults::{DECK, Deck, Fault};
use pausewatch::client::Client;
use pausewatch::stopwatch::StopwatchController;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const REPLICAS: usize = 3;
const CLIENTS: usize = 3;
/// Commands wait most of the time, so there can be many.
const COMMANDS: usize = 24;
/// Faults per round: the search for an order grows with the number of calls.
const FAULTS_A_ROUND: usize = 9;
const CALLS_A_FAULT: usize = 6;
/// Faults at the same time.
const MOST_AT_ONCE: usize = 2;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The faults that are active.
#[derive(Default)]
struct UnderWay(Vec<(Instant, usize, Fault)>);

impl UnderWay {
    /// Ends the faults that have lasted long enough; `all`: every one.
    async fn end(&mut self, all: bool, sites: &mut [Site], cluster: &mut Cluster, books: &Books) {
        let now = Instant::now();
        let (over, left): (Vec<_>, Vec<_>) = self.0.drain(..).partition(|(until, ..)| all || *until <= now);
        self.0 = left;
        for (_, number, fault) in over {
            if let Err(why) = fault.end(sites, cluster).await {
                books.fail(WRONG, why);
            }
            books.is_over(number);
        }
    }
}

/// Starts `faults` faults, one after another, and ends them.
async fn blow(
    faults: usize,
    (sites, cluster): (&mut [Site], &mut Cluster),
    (deck, random): (&mut Deck, &mut Rng),
    books: &Books,
    history: &mut Concurrent,
) {
    let mut under_way = UnderWay::default();
    let mut begun = 0;
    while begun < faults && !books.has_failed() {
        let pause = Instant::now() + Duration::from_millis(100 + random.u64(..1_200));
        while Instant::now() < pause || under_way.0.len() >= MOST_AT_ONCE {
            sleep(Duration::from_millis(10)).await;
            under_way.end(false, sites, cluster, books).await;
        }
        for site in sites.iter_mut() {
            if let Some((status, said)) = site.ended_by_itself().await {
                books.fail(WRONG, format!("a replica ended by itself, with {status}: {said}"));
                site.begin();
            }
        }
        let drawn = deck.draw(random);
        if history.is_quiet() {
            history.call(CALLS_A_FAULT, random);
        }
        // Drawn again until the fault has a free target.
        let mut lasts = faults::lasts(random);
        loop {
            let known: Vec<_> = under_way.0.iter().map(|(_, _, fault)| fault).collect();
            if let Some((fault, what)) = faults::begin(drawn, sites, cluster, &known, random).await {
                println!("{what}, for {lasts:?}");
                under_way.0.push((Instant::now() + lasts, books.begins(&what), fault));
                break;
            }
            lasts = lasts.max(Duration::from_millis(50));
            sleep(Duration::from_millis(50)).await;
            under_way.end(false, sites, cluster, books).await;
        }
        begun += 1;
    }
    under_way.end(true, sites, cluster, books).await;
}

/// G1 to G6 with real processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_doubled_or_killed_in_a_storm_of_mixed_faults() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let faults = usize::try_from(number("PAUSEWATCH_STORM_FAULTS", DECK as u64)).expect("a number of faults");
    let seed = number("PAUSEWATCH_STORM_SEED", 0x5eed_0025);
    println!("{faults} faults, PAUSEWATCH_STORM_SEED={seed}");
    let (mut random, mut deck, books) = (Rng::with_seed(seed), Deck::default(), Arc::<Books>::default());
    let urls: Vec<_> = cluster.members.iter().map(|member| format!("http://{}", member.address)).collect();
    let mut sites = Vec::new();
    for _ in 0..REPLICAS {
        sites.push(Site::start(&urls, "storm").await);
    }
    for site in &sites {
        serves(&site.address).await;
    }
    let began = Instant::now();
    let addresses: Vec<_> = sites.iter().map(|site| site.clients.address.clone()).collect();
    let all = addresses.join(",").parse().expect("addresses");
    let client = || Client::new(&all).expect("a client without TLS");
    let (stop, mut tasks) = (Arc::<AtomicBool>::default(), JoinSet::new());
    for number in 0..CLIENTS {
        let caller = Caller::from(&addresses, number);
        tasks.spawn(changes::change(caller, number, stop.clone(), books.clone()));
    }
    for number in 0..COMMANDS {
        let (client, controller) = (client(), StopwatchController::new(client()));
        let random = random.fork();
        let commands = Commands { name: format!("command {number}"), client, controller, random, books: books.clone() };
        tasks.spawn(commands.run(stop.clone()));
    }
    let anywhere = Proxy::start(addresses.clone()).await;
    let mut begun = 0;
    while begun < faults && !books.has_failed() {
        let of_round = FAULTS_A_ROUND.min(faults - begun);
        // The names must live as long as the program.
        let threads = ["t", "u"].map(|thread| &*format!("{thread}, after {begun} faults").leak());
        let mut history = Concurrent::begin(&anywhere.address, threads);
        let fleet = (&mut sites[..], &mut cluster);
        blow(of_round, fleet, (&mut deck, &mut random), &books, &mut history).await;
        for site in &mut sites {
            site.runs().await;
            serves(&site.address).await;
        }
        begun += of_round;
        match history.explain(&addresses).await {
            Ok(explained) => {
                books.count(HISTORIES, 1);
                books.count(OPERATIONS, explained.operations);
                books.count(UNKNOWN, explained.unknown);
            }
            Err(why) => books.fail(WRONG, why),
        }
    }
    stop.store(true, SeqCst);
    let ended = async { while tasks.join_next().await.transpose().expect("no client panics").is_some() {} };
    timeout(PATIENCE, ended).await.expect("all clients are answered");
    let term = term(&sites[leads(&sites, None).await].address).await;
    books.verdict(began, term - 1);
}
