//! `Watch` over the network: threads are added and removed on one stream, states are confirmed, and invalid requests
//! are refused.
mod faults;
mod rights;

use crate::support::{Running, config, timed};
use pausewatch::proto::v1;
use pausewatch::server::Config;
use pausewatch::test_support::quota::{LimitPair, Limits};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_response::Event;

/// The number of requests that wait in the client.
const QUEUE: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);

/// One stream, as its client sees it.
struct Watch {
    /// `None`: the client has closed its side.
    requests: Option<mpsc::Sender<v1::WatchRequest>>,
    responses: Streaming<v1::WatchResponse>,
}

fn ids(threads: &[&str]) -> Vec<String> {
    threads.iter().map(|&thread| thread.to_owned()).collect()
}

fn add(threads: &[&str]) -> v1::WatchRequest {
    v1::WatchRequest { add: ids(threads), ..Default::default() }
}

fn confirm(threads: &[&str]) -> v1::WatchRequest {
    v1::WatchRequest { confirm: ids(threads), ..Default::default() }
}

impl Watch {
    async fn open(running: &Running) -> Self {
        Self::open_with(&mut running.api().await.0, None).await.expect("the watch is accepted")
    }

    async fn open_with(
        client: &mut ElicitationServiceClient<tonic::transport::Channel>,
        authorization: Option<&str>,
    ) -> Result<Self, Status> {
        let (requests, messages) = mpsc::channel(QUEUE);
        let mut request = Request::new(ReceiverStream::new(messages));
        if let Some(authorization) = authorization {
            request.metadata_mut().insert("authorization", authorization.parse().unwrap());
        }
        let responses = timed("the watch", client.watch(request)).await?.into_inner();
        Ok(Watch { requests: Some(requests), responses })
    }

    async fn send(&mut self, request: v1::WatchRequest) {
        let requests = self.requests.as_ref().expect("the side is open");
        timed("a request", requests.send(request)).await.expect("the watch goes on");
    }

    async fn next(&mut self) -> Result<Event, Status> {
        let message = timed("an event", self.responses.message()).await?;
        Ok(message.expect("a watch does not end without an error").event.expect("every message has an event"))
    }

    async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }

    /// The events up to the answer to the request `number`, without heartbeats.
    async fn answer(&mut self, number: u64) -> Answer {
        let mut answer = Answer::default();
        loop {
            match self.next().await.expect("the watch goes on") {
                Event::PauseState(state) => answer.states.push(state),
                Event::Confirmation(confirmation) => answer.confirmed.extend(confirmation.pause_states),
                Event::SnapshotComplete(complete) => {
                    assert_eq!(complete.requests, number);
                    return answer;
                }
                Event::Heartbeat(_) => {}
                Event::Refusal(refusal) => panic!("{refusal:?}"),
            }
        }
    }

    async fn ask(&mut self, request: v1::WatchRequest, number: u64) -> Answer {
        self.send(request).await;
        self.answer(number).await
    }

    async fn refused(&mut self, request: v1::WatchRequest) -> v1::Refusal {
        self.send(request).await;
        loop {
            match self.next().await.expect("the watch goes on") {
                Event::Refusal(refusal) => return refusal,
                Event::Heartbeat(_) | Event::PauseState(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn state(&mut self) -> v1::PauseState {
        loop {
            match self.next().await.expect("the watch goes on") {
                Event::PauseState(state) => return state,
                Event::Heartbeat(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[derive(Debug, Default)]
struct Answer {
    states: Vec<v1::PauseState>,
    confirmed: Vec<v1::PauseState>,
}

/// Threads and counts.
fn counts(states: &[v1::PauseState]) -> Vec<(&str, u32)> {
    states.iter().map(|state| (state.thread_id.as_str(), state.count)).collect()
}

/// Otherwise a caller would get around its limit of calls by one stream.
#[tokio::test]
async fn g7_requests_in_a_stream_count_as_calls() {
    let limits = Limits { calls: LimitPair { in_all: None, per_caller: Some(20) }, ..Limits::default() };
    let running = Running::start(Config { limits, ..config() }).await;
    let mut watch = Watch::open(&running).await;
    let began = Instant::now();
    for number in 1..=60 {
        watch.send(add(&["t"])).await;
        watch.answer(number).await;
    }
    assert!(began.elapsed() > Duration::from_millis(1_500), "20 at once, then 20 in a second: {:?}", began.elapsed());
}

#[tokio::test]
async fn threads_are_added_and_removed_on_one_stream() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("a", None).await;
    let mut watch = Watch::open(&running).await;
    assert_eq!(counts(&watch.ask(add(&["a", "idle", "a"]), 1).await.states), [("a", 1), ("idle", 0)]);
    api.increment("b", None).await;
    assert_eq!(counts(&watch.ask(add(&["b"]), 2).await.states), [("b", 1)]);
    assert_eq!(
        counts(&watch.ask(add(&["b"]), 3).await.states),
        [("b", 1)],
        "the state of a watched thread is sent again"
    );
    assert_eq!(api.increment("b", None).await.watchers, 1, "the thread counts as watched only once");
    assert_eq!(watch.state().await.count, 2);
    let request = v1::WatchRequest { remove: ids(&["a", "never added"]), add: ids(&["c"]), ..Default::default() };
    assert_eq!(counts(&watch.ask(request, 4).await.states), [("c", 0)]);
    api.increment("a", None).await;
    api.increment("c", None).await;
    assert_eq!(watch.state().await.thread_id, "c", "a removed thread has no events");
    let again = v1::WatchRequest { remove: ids(&["c"]), add: ids(&["c"]), ..Default::default() };
    assert_eq!(counts(&watch.ask(again, 5).await.states), [("c", 1)], "removals come first");
    drop(watch);
    timed("the end of the watch", async { while api.increment("b", None).await.watchers > 0 {} }).await;
}

#[tokio::test]
async fn a_confirmation_comes_after_every_state_that_was_committed_before() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watch = Watch::open(&running).await;
    let names: Vec<_> = (0..300).map(|i| format!("thread {i:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    watch.ask(add(&names), 1).await;
    for name in &names {
        api.increment(name, None).await;
    }
    let asked: Vec<_> = names.iter().rev().copied().chain(["unknown"]).collect();
    let answer = watch.ask(confirm(&asked), 2).await;
    let mut told = counts(&answer.states);
    told.sort_unstable();
    assert_eq!(told, names.iter().map(|&name| (name, 1)).collect::<Vec<_>>(), "all changes come before the answer");
    let expected: Vec<_> = asked.iter().map(|&name| (name, u32::from(name != "unknown"))).collect();
    assert_eq!(counts(&answer.confirmed), expected, "in the order of the request");
    assert_eq!(api.increment("unknown", None).await.watchers, 0, "confirming a thread does not watch it");
}

#[tokio::test]
async fn a_watch_of_all_threads_also_tells_named_ones() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("paused", None).await;
    api.increment("has resumed", None).await;
    api.try_decrement("has resumed", "", None).await.unwrap();
    let mut watch = Watch::open(&running).await;
    let first = v1::WatchRequest { all_threads: true, ..add(&["has resumed", "unknown"]) };
    let told = watch.ask(first, 1).await.states;
    assert_eq!(counts(&told), [("paused", 1), ("has resumed", 0), ("unknown", 0)]);
    api.increment("new", None).await;
    assert_eq!(counts(&[watch.state().await]), [("new", 1)]);
    let more = v1::WatchRequest { remove: ids(&["paused"]), ..add(&["new"]) };
    assert_eq!(counts(&watch.ask(more, 2).await.states), [("new", 1)]);
    api.increment("paused", None).await;
    assert_eq!(counts(&[watch.state().await]), [("paused", 2)], "every thread stays watched");
}

#[tokio::test]
async fn elicitations_come_if_the_first_request_asks_for_them() {
    // Without leases, whose ends move if the server stalls.
    let running = Running::start(Config { anonymous_ttl: None, ..config() }).await;
    let mut api = running.api().await;
    let opened = api.increment("t", None).await.elicitation.unwrap();
    let mut watch = Watch::open(&running).await;
    let first = v1::WatchRequest { include_elicitations: true, ..add(&["t"]) };
    assert_eq!(watch.ask(first, 1).await.states[0].elicitations, std::slice::from_ref(&opened));
    assert_eq!(watch.ask(confirm(&["t"]), 2).await.confirmed[0].elicitations, [opened]);
    let mut without = Watch::open(&running).await;
    assert_eq!(without.ask(add(&["t"]), 1).await.states[0].elicitations, []);
}

#[tokio::test]
async fn a_state_says_how_long_its_leases_last() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watch = Watch::open(&running).await;
    let longest = |state: &v1::PauseState| state.longest_lease.map(|lease| Duration::try_from(lease).unwrap());
    assert_eq!(longest(&watch.ask(add(&["t"]), 1).await.states[0]), None, "nothing is open");
    let long = api.increment("t", Some(10 * MINUTE)).await.elicitation.unwrap();
    let short = api.increment("t", Some(MINUTE)).await.elicitation.unwrap();
    let within = |lease: Option<Duration>, least: Duration, most: Duration| {
        assert!(lease.is_some_and(|lease| lease > least && lease <= most), "{lease:?}");
    };
    within(longest(&watch.ask(confirm(&["t"]), 2).await.confirmed[0]), 5 * MINUTE, 10 * MINUTE);
    api.try_decrement("t", "", Some(&long.elicitation_id)).await.unwrap();
    within(longest(&api.get("t").await), Duration::ZERO, MINUTE);
    api.try_renew("t", &short.elicitation_id, Some(20 * MINUTE)).await.unwrap();
    within(longest(&watch.ask(confirm(&["t"]), 3).await.confirmed[0]), 15 * MINUTE, 20 * MINUTE);
    api.try_decrement("t", "", None).await.unwrap();
    assert_eq!(longest(&api.get("t").await), None);
}

#[tokio::test]
async fn a_watch_goes_on_when_the_client_closes_its_side_and_ends_when_the_server_drains() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watch = Watch::open(&running).await;
    watch.ask(add(&["t"]), 1).await;
    watch.requests = None;
    api.increment("t", None).await;
    assert_eq!(watch.state().await.count, 1);
    // A stream without any request ends as well.
    let mut silent = Watch::open(&running).await;
    let stopped = running.stop();
    for watch in [&mut watch, &mut silent] {
        assert_eq!(watch.end().await.code(), tonic::Code::Unavailable);
    }
    timed("the stop", stopped).await.unwrap();
}

#[tokio::test]
async fn many_threads_are_added_while_others_change() {
    let running = Running::start(Config { workers: 2, ..config() }).await;
    let mut api = running.api().await;
    let mut watch = Watch::open(&running).await;
    watch.ask(add(&["busy"]), 1).await;
    let busy = tokio::spawn(async move {
        for _ in 0..500 {
            api.increment("busy", None).await;
        }
    });
    let mut seen = 0;
    for request in 2..12 {
        let names: Vec<_> = (0..500).map(|i| format!("thread {request} {i}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let states = watch.ask(add(&names), request).await.states;
        let of_busy = states.iter().filter(|state| state.thread_id == "busy");
        assert!(of_busy.clone().is_sorted_by(|a, b| a.revision < b.revision), "revisions must increase");
        seen = of_busy.map(|state| state.count).chain([seen]).max().unwrap();
        let added: Vec<_> = states.iter().map(|state| &*state.thread_id).filter(|&id| id != "busy").collect();
        assert_eq!(added, names);
    }
    busy.await.unwrap();
    while seen < 500 {
        seen = watch.state().await.count;
    }
}
