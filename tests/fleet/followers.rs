//! What replicas that do not lead serve: watches themselves, and all other calls through the leader.
use crate::caller::health;
use crate::contract::config as fleet_config;
use crate::etcd::Etcd;
use crate::support::{Api, PATIENCE, Process, Running, Samples, config, event, scrape, states, timed};
use crate::takeovers::{LEADER, leader, replica};
use pausewatch::proto::v1;
use pausewatch::server::{Config, Server};
use pausewatch::test_support::clock::System;
use pausewatch::test_support::etcd::ReplicaConfig;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};
use v1::watch_pause_state_response::Event;

const SERVICE: &str = "pausewatch.v1.ElicitationService";

/// Waits until a replica serves.
pub(crate) async fn serves(address: &str) {
    let give_up = Instant::now() + PATIENCE;
    while health(address, SERVICE).await.as_deref() != Some("SERVING") {
        assert!(Instant::now() < give_up, "{address} does not serve");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Starts `count` replicas; returns them when they serve, with the leader first.
pub(crate) async fn fleet(etcd: &Etcd, prefix: &str, count: usize) -> Vec<Process> {
    let mut replicas = vec![replica(etcd, prefix, "127.0.0.1:0")];
    leader(&replicas).await;
    for _ in 1..count {
        replicas.push(replica(etcd, prefix, "127.0.0.1:0"));
    }
    for replica in &replicas {
        serves(&replica.address).await;
    }
    replicas
}

/// An open `Watch`.
struct Changing {
    requests: mpsc::UnboundedSender<v1::WatchRequest>,
    responses: Streaming<v1::WatchResponse>,
}

impl Changing {
    async fn open(api: &mut Api) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        // The headers come with the first answer or earlier; no request has been sent yet.
        let opened = timed("a watch", api.0.watch(UnboundedReceiverStream::new(receiver))).await;
        Changing { requests, responses: opened.expect("it is accepted").into_inner() }
    }

    /// The states in the answer to a request, confirmed or not.
    async fn ask(&mut self, request: v1::WatchRequest) -> Vec<v1::PauseState> {
        self.requests.send(request).expect("the stream is open");
        let mut states = Vec::new();
        loop {
            let message = timed("an answer", self.responses.message()).await.expect("it goes on").expect("it goes on");
            match message.event.expect("there is one") {
                v1::watch_response::Event::PauseState(state) => states.push(state),
                v1::watch_response::Event::Confirmation(confirmed) => states.extend(confirmed.pause_states),
                v1::watch_response::Event::SnapshotComplete(_) => return states,
                v1::watch_response::Event::Heartbeat(beat) => assert_eq!(beat.interval, Some(second())),
                v1::watch_response::Event::Refusal(refusal) => panic!("{refusal:?}"),
            }
        }
    }
}

fn second() -> prost_types::Duration {
    prost_types::Duration { seconds: 1, nanos: 0 }
}

/// I4: the state that any replica has answered is seen by each call and watch that starts later at any replica, and by
/// threads that are added to a watch, or confirmed, later.
#[tokio::test]
async fn a_call_or_watch_at_any_replica_sees_what_was_answered_before() {
    let Some(etcd) = Etcd::shared() else { return };
    let replicas = fleet(etcd, "sees", 3).await;
    let mut apis = Vec::new();
    for replica in &replicas {
        apis.push(replica.api().await);
    }
    let mut changing = Vec::new();
    for api in &mut apis {
        changing.push(Changing::open(api).await);
    }
    for round in 0..24 {
        let (writer, thread) = (round % 3, format!("thread {}", round % 4));
        let revision = match round % 2 {
            0 => apis[writer].increment(&thread, None).await.revision,
            _ => apis[writer].increment(&thread, Some(Duration::from_secs(60))).await.revision,
        };
        for reader in 0..3 {
            let at = |what: &str| format!("round {round}: {what} at {reader} after an answer of {writer}");
            assert_eq!(apis[reader].get(&thread).await.revision, revision, "{}", at("a read"));
            let seen = states(&mut apis[reader].watch(&[&thread]).await).await;
            assert_eq!(seen[0].revision, revision, "{}", at("a watch"));
            let add = v1::WatchRequest { add: vec![thread.clone()], ..v1::WatchRequest::default() };
            let seen = changing[reader].ask(add).await;
            assert_eq!(seen.last().map(|state| state.revision), Some(revision), "{}", at("an added thread"));
            let confirm = v1::WatchRequest { confirm: vec![thread.clone()], ..v1::WatchRequest::default() };
            let seen = changing[reader].ask(confirm).await;
            assert_eq!(seen.last().map(|state| state.revision), Some(revision), "{}", at("a confirmation"));
        }
    }
}

/// The first heartbeat of a replica directly follows the first snapshot: it has the interval after which a client must
/// give the stream up.
#[tokio::test]
async fn the_first_heartbeat_comes_with_the_first_snapshot() {
    let Some(etcd) = Etcd::shared() else { return };
    let replicas = fleet(etcd, "first-beat", 2).await;
    for replica in &replicas {
        let mut api = replica.api().await;
        let mut watch = api.watch(&["a"]).await;
        assert!(matches!(event(&mut watch).await, Event::PauseState(_)));
        assert!(matches!(event(&mut watch).await, Event::SnapshotComplete(_)));
        assert_eq!(event(&mut watch).await, Event::Heartbeat(v1::Heartbeat { interval: Some(second()) }));
        let mut changing = Changing::open(&mut api).await;
        let add = |thread: &str| v1::WatchRequest { add: vec![thread.into()], ..v1::WatchRequest::default() };
        assert_eq!(changing.ask(add("a")).await.len(), 1);
        let next = timed("a message", changing.responses.message()).await.expect("it goes on").expect("it goes on");
        let beat = v1::watch_response::Event::Heartbeat(v1::Heartbeat { interval: Some(second()) });
        assert_eq!(next.event, Some(beat));
    }
}

/// The next state of a watch, or the code with which it ended.
async fn next_state(watch: &mut Streaming<v1::WatchPauseStateResponse>) -> Result<v1::PauseState, Code> {
    loop {
        match timed("a state", watch.message()).await {
            Ok(Some(message)) => {
                if let Some(Event::PauseState(state)) = message.event {
                    return Ok(state);
                }
            }
            Ok(None) => return Err(Code::Ok),
            Err(status) => return Err(status.code()),
        }
    }
}

/// Invariants 5 and 10: the leader is killed, and the watches and callers of a follower only wait: the same stream
/// continues with increasing revisions, and calls without a request id count once.
#[tokio::test]
async fn the_watches_and_callers_of_a_follower_outlive_the_leader() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut replicas = fleet(etcd, "outlive", 3).await;
    let mut api = replicas[1].api().await;
    let mut watch = api.watch(&["a"]).await;
    assert_eq!(states(&mut watch).await.len(), 1);
    let asked = replicas[1].address.clone();
    let mut revision = 0;
    loop {
        for _ in 0..3 {
            revision += 1;
            assert_eq!(api.increment("a", None).await.revision, revision, "once");
        }
        let leading = leader(&replicas).await;
        if replicas[leading].address == asked {
            break;
        }
        replicas.remove(leading).kill();
        revision += 1;
        assert_eq!(api.increment("a", None).await.revision, revision, "the call must wait and count once");
    }
    let mut seen = 0;
    while seen < revision {
        let state = next_state(&mut watch).await.expect("the stream goes on");
        assert!(state.revision > seen, "{} after {seen}", state.revision);
        seen = state.revision;
    }
    assert_eq!(api.get("a").await.count, u32::try_from(revision).expect("few"));
}

/// A leader that was stopped and continues has been deposed: its watches continue with the new leader's changes, or
/// end.
#[tokio::test]
async fn the_watches_of_a_deposed_leader_show_what_the_next_one_decides() {
    let Some(etcd) = Etcd::shared() else { return };
    let replicas = fleet(etcd, "deposed", 2).await;
    let mut watch = replicas[0].api().await.watch(&["a"]).await;
    assert_eq!(states(&mut watch).await.len(), 1);
    let mut other = replicas[1].api().await;
    replicas[0].signal(Signal::STOP);
    // The call waits until the other replica leads.
    let revision = other.increment("a", None).await.revision;
    assert_eq!(health(&replicas[1].address, LEADER).await.as_deref(), Some("SERVING"));
    replicas[0].signal(Signal::CONT);
    let state = match next_state(&mut watch).await {
        Ok(state) => state,
        Err(code) => {
            assert_eq!(code, Code::Unavailable);
            serves(&replicas[0].address).await;
            states(&mut replicas[0].api().await.watch(&["a"]).await).await.remove(0)
        }
    };
    assert_eq!((state.revision, state.paused), (revision, true));
    // The call is answered by the new leader, through the deposed one.
    serves(&replicas[0].address).await;
    assert_eq!(replicas[0].api().await.increment("a", None).await.revision, revision + 1);
}

/// I11: replicas that lose etcd end their watches, start none, and report that they do not serve.
#[tokio::test]
async fn replicas_that_do_not_know_the_latest_state_end_their_watches_and_begin_none() {
    let Some(etcd) = Etcd::own(&[]) else { return };
    let replicas = fleet(&etcd, "stale", 2).await;
    let mut watches = Vec::new();
    for replica in &replicas {
        let mut api = replica.api().await;
        let mut watch = api.watch(&["a"]).await;
        assert_eq!(states(&mut watch).await.len(), 1);
        let beat = loop {
            if let Event::Heartbeat(beat) = event(&mut watch).await {
                break beat;
            }
        };
        assert_eq!(beat.interval, Some(second()), "the heartbeat must have the interval");
        watches.push((api, watch));
    }
    drop(etcd);
    for (replica, (api, watch)) in replicas.iter().zip(&mut watches) {
        assert_eq!(next_state(watch).await.expect_err("it ends"), Code::Unavailable);
        let refused = api.try_watch(vec!["a".into()], false).await.expect_err("none begins");
        assert_eq!((refused.code(), refused.details()), (Code::Unavailable, &[][..]));
        let mut request = tonic::Request::new(v1::GetPauseStateRequest { thread_id: "a".into() });
        request.set_timeout(Duration::from_millis(500));
        let refused = timed("a read", api.0.get_pause_state(request)).await.expect_err("nobody answers");
        assert!(matches!(refused.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled), "{refused:?}");
        let give_up = Instant::now() + PATIENCE;
        while health(&replica.address, SERVICE).await.as_deref() != Some("NOT_SERVING") {
            assert!(Instant::now() < give_up);
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(health(&replica.address, "").await.as_deref(), Some("SERVING"), "the process is alive");
    }
}

/// The metrics of two replicas in the first term of their fleet, with a paused thread. On a very busy machine, the
/// leader may be silent for so long that the other one takes over, which is another case: `None`.
async fn first_term(etcd: &Etcd, prefix: &str) -> Option<[Samples; 2]> {
    let mut urls = Vec::new();
    let mut running = Vec::new();
    for _ in 0..2 {
        let replica = ReplicaConfig { fleet: fleet_config(etcd, prefix), advertise: None, peer_ca: None };
        let config = Config { metrics: Some("127.0.0.1:0".into()), ..config() };
        let server = Server::start_replica(replica, Arc::new(System::new()), config).await.expect("etcd runs");
        urls.push(server.metrics_address().expect("they are served"));
        running.push(Running::of(server));
        serves(&running[running.len() - 1].address).await;
    }
    running[1].api().await.increment("a", None).await;
    states(&mut running[1].api().await.watch(&["a"]).await).await;
    let give_up = Instant::now() + PATIENCE;
    let scraped = loop {
        let both = [scrape(&urls[0]).await, scrape(&urls[1]).await];
        let of = |name| both.each_ref().map(|samples| samples.get(name));
        if of("pausewatch_fleet_term").iter().any(|term| *term > 1.0) {
            break None;
        }
        // Only while both hear from etcd.
        if of("pausewatch_fleet_leader") == [1.0, 0.0] && of("pausewatch_fleet_state_age_seconds")[1] < 3.0 {
            break Some(both);
        }
        assert!(Instant::now() < give_up, "{:?}", both.map(|samples| samples.values));
        sleep(Duration::from_millis(50)).await;
    };
    for running in running {
        running.stop().await.expect("no panic");
    }
    scraped
}

/// The metrics of each replica: the page documents all of them and nothing else.
#[tokio::test]
async fn metrics_say_who_leads_and_how_fresh_each_replica_is() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut scraped = None;
    for attempt in 0..5 {
        scraped = first_term(etcd, &format!("metrics {attempt}")).await;
        if scraped.is_some() {
            break;
        }
    }
    let [first, second] = scraped.expect("the first leader leads for some seconds once in five times");
    assert_eq!([&first, &second].map(|samples| samples.get("pausewatch_fleet_term")), [1.0, 1.0]);
    assert_eq!([&first, &second].map(|samples| samples.get("pausewatch_fleet_takeovers_total")), [1.0, 0.0]);
    assert_eq!([&first, &second].map(|samples| samples.get("pausewatch_paused_threads")), [1.0, 1.0]);
    assert!(second.get("pausewatch_fleet_clock_error_seconds") > 0.0);
    assert!(first.get("pausewatch_fleet_log_bytes") > 0.0);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fleet.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `pausewatch_fleet_"));
    let named: BTreeSet<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let exported = first.families.keys().filter(|name| name.starts_with("pausewatch_fleet_"));
    assert_eq!(named, exported.map(String::as_str).collect());
}
