//! Clients that send incomplete calls, too many calls, or too many streams to a replica: the fleet continues to serve.
use crate::caller::health;
use crate::contract::config as fleet_config;
use crate::etcd::Etcd;
use crate::followers::{fleet, serves};
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, LONGEST, Raw, call, frame, message, streams,
};
use crate::support::{PATIENCE, Running, channel, config, event, states, timed};
use crate::takeovers::{LEADER, leader};
use pausewatch::server::{Config, LimitPair, Limits, Server};
use pausewatch::test_support::clock::System;
use pausewatch::test_support::etcd::ReplicaConfig;
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// The log of a server whose clients use more memory than the budget of `memory_budget.rs`.
const USED_UP: &str = "exceed 134217728 bytes: connections are closed";

/// R3: the drain waits only for complete calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_call_does_not_delay_the_handover() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut replicas = fleet(etcd, "half", 2).await;
    let mut raw = Raw::open(&replicas[0].address, &[]).await.expect("it listens");
    let half =
        [frame(HEADERS, END_HEADERS, 1, &call("IncrementElicitation")), frame(DATA, 0, 1, &message(50, b"\x0a\x02"))];
    raw.send_all(&half.concat()).await;
    raw.wait_for_pong().await.expect("it has seen them");
    replicas[0].signal(Signal::TERM);
    let first = replicas.remove(0);
    assert_eq!(leader(&replicas).await, 0);
    let (status, said) = tokio::task::spawn_blocking(move || first.end()).await.expect("no panic");
    assert!(status.success() && said.contains("gives up the leadership"), "{status}: {said}");
    assert!(!said.contains("in flight at the end of the term"), "{said}");
}

/// G7: a call that waits for a leader counts towards the memory of its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_a_leader_take_bounded_memory() {
    const CONNECTIONS: usize = 4;
    const CALLS: usize = 1_000;
    let Some(etcd) = Etcd::own(&[]) else { return };
    let replicas = fleet(&etcd, "held", 1).await;
    drop(etcd);
    let give_up = Instant::now() + PATIENCE;
    while health(&replicas[0].address, LEADER).await.as_deref() != Some("NOT_SERVING") {
        assert!(Instant::now() < give_up, "the replica still leads");
        sleep(Duration::from_millis(50)).await;
    }
    let before = replicas[0].memory();
    let (mut most, mut kept) = (before, Vec::new());
    for _ in 0..CONNECTIONS {
        let mut raw = Raw::open(&replicas[0].address, &[]).await.expect("it listens");
        let mut last = 0;
        'calls: for stream in streams().take(CALLS) {
            last = stream;
            let _ = raw.send(&frame(HEADERS, END_HEADERS, stream, &call("IncrementElicitation"))).await;
            let whole = message(60_000, &[0x0a; 60_000]);
            for data in whole.chunks(LONGEST) {
                if raw.send_data(stream, data).await.is_err() {
                    break 'calls;
                }
            }
            let _ = raw.send(&frame(DATA, END_STREAM, stream, &[])).await;
            most = most.max(replicas[0].memory());
        }
        kept.push((raw, last));
    }
    let mib = (most - before) >> 20;
    println!("memory +{mib} MiB");
    assert!(mib < 190, "memory +{mib} MiB");
    // The calls wait; on a slow machine, the first ones have waited long enough before their memory is used up.
    let (raw, last) = kept.last_mut().expect("there are some");
    if timeout(Duration::from_millis(200), raw.wait_for_end(*last)).await.is_ok() {
        replicas[0].hears(USED_UP).await;
    }
}

/// G7: the answer of the leader counts at the follower until the client has read it. The leader does not close the
/// connection of the follower, which others use too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_read_at_a_follower_take_bounded_memory() {
    const CALLS: usize = 200;
    let Some(etcd) = Etcd::shared() else { return };
    let mut replicas = fleet(etcd, "unread", 2).await;
    let follower = replicas.remove(1 - leader(&replicas).await);
    let leading = &replicas[0];
    follower.api().await.fatten("fat").await;
    let before = follower.memory();
    let mut raw = Raw::open(&follower.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.expect("it listens");
    let ask = message(5, b"\x0a\x03fat");
    for stream in streams().take(CALLS) {
        let open = frame(HEADERS, END_HEADERS, stream, &call("GetPauseState"));
        if raw.send(&[open, frame(DATA, END_STREAM, stream, &ask)].concat()).await.is_err() {
            break;
        }
    }
    follower.hears(USED_UP).await;
    let mib = follower.memory().saturating_sub(before) >> 20;
    println!("memory +{mib} MiB");
    assert!(mib < 190, "memory +{mib} MiB");
    assert!(!leading.heard().contains(USED_UP), "{}", leading.heard());
}

/// A replica that cannot reach its leader ends its watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_use_up_the_streams_of_the_leader_do_not_end_watches_elsewhere() {
    let Some(etcd) = Etcd::shared() else { return };
    let start = async |streams: Option<u64>| {
        let replica = ReplicaConfig { fleet: fleet_config(etcd, "streams"), advertise: None, peer_ca: None };
        let streams = LimitPair { in_all: streams, per_caller: None };
        let config = Config { limits: Limits { streams, ..Limits::default() }, ..config() };
        let server = Server::start_replica(replica, Arc::new(System::new()), config).await.expect("etcd runs");
        let running = Running::of(server);
        serves(&running.address).await;
        running
    };
    let (first, other) = (start(Some(80)).await, start(None).await);
    let mut watching = HealthClient::new(channel(&first.address).await);
    let mut open = Vec::new();
    while let Ok(watch) = timed("a watch", watching.watch(HealthCheckRequest::default())).await {
        open.push(watch);
        assert!(open.len() <= 80, "the number of streams must be limited");
    }
    assert!(!open.is_empty(), "the first watch was refused, so no stream of the leader is used up");
    let mut api = crate::support::api(&other.address).await;
    let mut watch = api.watch(&["t"]).await;
    assert_eq!(states(&mut watch).await.len(), 1);
    // Longer than a replica serves without its leader.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        event(&mut watch).await;
    }
    serves(&other.address).await;
    drop(open);
    for running in [first, other] {
        running.stop().await.expect("no panic");
    }
}
