//! Histories through all replicas: several clients at once change, read and watch the same threads at whichever replica
//! a connection reaches. Meanwhile leaders are killed and stopped, and links between any two of client, replica and
//! etcd delay or lose data. One order per thread must explain each history: linearizable, each call counts once (G4),
//! no watch goes back (G6).
use crate::caller::health;
use crate::clients::THREADS;
use crate::concurrent::Concurrent;
use crate::etcd::Etcd;
use crate::followers::serves;
use crate::proxy::{Mode, Proxy};
use crate::site::Site;
use crate::support::PATIENCE;
use crate::takeovers::LEADER;
use fastrand::Rng;
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The number of calls that each client starts during and after each fault.
const CALLS_A_BLOW: usize = 8;

/// A fault of the leader.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    /// SIGSTOP until another replica leads, then SIGCONT.
    Freeze,
    /// Its connection to etcd, until another replica leads.
    Etcd(Mode),
    /// The connections of the other replicas to it.
    Peers(Mode),
    /// The connections of the clients to all replicas.
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

/// Waits until a replica other than `old` leads.
pub(crate) async fn leads(sites: &[Site], old: Option<usize>) -> usize {
    let give_up = Instant::now() + PATIENCE;
    loop {
        for (i, site) in sites.iter().enumerate().filter(|(i, _)| Some(*i) != old) {
            if health(&site.address, LEADER).await.as_deref() == Some("SERVING") {
                return i;
            }
        }
        assert!(Instant::now() < give_up, "no replica leads, or only {old:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Invariants 2 to 5 and 10 with real processes and partitions.
#[tokio::test]
async fn histories_through_kills_stops_and_partitions_are_linearizable() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut sites = Vec::new();
    for _ in 0..3 {
        sites.push(Site::start(std::slice::from_ref(&etcd.url), "histories").await);
    }
    for site in &sites {
        serves(&site.address).await;
    }
    let clients = Proxy::start(sites.iter().map(|site| site.clients.address.clone()).collect()).await;
    let mut history = Concurrent::begin(&clients.address, THREADS);
    let mut random = Rng::with_seed(0x5eed_0024);
    for blow in BLOWS {
        let leading = leads(&sites, None).await;
        println!("{blow:?} at {leading}");
        history.call(CALLS_A_BLOW, &mut random);
        match blow {
            Blow::Kill => {
                sites[leading].kill();
                sites[leading].begin();
                sites[leading].runs().await;
                leads(&sites, None).await;
            }
            Blow::Freeze => {
                sites[leading].process().signal(Signal::STOP);
                leads(&sites, Some(leading)).await;
                sites[leading].process().signal(Signal::CONT);
            }
            Blow::Etcd(mode) => {
                sites[leading].etcd[0].set(mode);
                leads(&sites, Some(leading)).await;
                sites[leading].etcd[0].set(Mode::Whole);
            }
            // No replica takes over: clients of the other replicas wait.
            Blow::Peers(mode) => {
                sites[leading].peers.set(mode);
                sleep(Duration::from_millis(700)).await;
                sites[leading].peers.set(Mode::Whole);
            }
            Blow::Clients(mode) => {
                clients.set(mode);
                sleep(Duration::from_millis(300)).await;
                clients.set(Mode::Whole);
            }
        }
        history.answered().await;
    }
    let addresses: Vec<_> = sites.iter().map(|site| site.address.clone()).collect();
    let explained = history.explain(&addresses).await.unwrap_or_else(|why| panic!("{why}"));
    println!("{} operations, {} of them never answered", explained.operations, explained.unknown);
}
