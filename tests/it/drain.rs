//! SIGTERM and SIGINT: the server announces that it stops, finishes the calls that it has, and ends with 0 within 5 s.
use crate::support::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PREFACE, Raw, call, frame, message,
};
use crate::support::{Process, Running, channel, config, event, states, timed};
use pausewatch::proto::v1::{
    GetPauseStateRequest, GetPauseStateResponse, IncrementElicitationRequest, watch_pause_state_response::Event,
};
use rustix::process::Signal;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_prost::ProstCodec;

/// A drain takes at most 4 s; a busy machine adds to that.
const WITHIN: Duration = Duration::from_secs(20);

async fn drains(signal: Signal, directory: &Path) {
    let server = Process::serve(directory, "127.0.0.1:0");
    let mut api = server.api().await;
    let mut watching = api.watch(&[]).await;
    states(&mut watching).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).expect("an address");
    let mut health = HealthClient::new(endpoint.connect().await.expect("it connects"));
    let mut health_watches = Vec::new();
    for service in ["", "pausewatch.v1.ElicitationService"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut watch = health.watch(request).await.expect("it is known").into_inner();
        let first = watch.message().await.expect("it goes on").expect("it goes on");
        assert_eq!(first.status(), ServingStatus::Serving);
        health_watches.push(watch);
    }
    // Idle and unused connections delay nothing.
    let _idle = server.api().await;
    let _silent = TcpStream::connect(&server.address).await.expect("it connects");
    let asked = Instant::now();
    server.signal(signal);
    let end = async {
        loop {
            match watching.message().await {
                Ok(Some(_)) => {}
                end => return end,
            }
        }
    };
    let end = timed("the end of the watch", end).await.expect_err("a watch ends with a status");
    assert_eq!(end.code(), Code::Unavailable, "{end}");
    for mut watch in health_watches {
        let next = timed("health", watch.message()).await.expect("it goes on").expect("it goes on");
        assert_eq!(next.status(), ServingStatus::NotServing);
        drop(watch);
    }
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert_eq!(status.code(), Some(0), "{error}");
    assert!(asked.elapsed() < WITHIN, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn sigterm_drains() {
    let directory = tempfile::tempdir().expect("a directory");
    drains(Signal::TERM, directory.path()).await;
}

#[tokio::test]
async fn sigint_drains() {
    let directory = tempfile::tempdir().expect("a directory");
    drains(Signal::INT, directory.path()).await;
}

#[tokio::test]
async fn streams_that_stay_open_do_not_keep_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).expect("an address");
    let mut health = HealthClient::new(endpoint.connect().await.expect("it connects"));
    let _open = health.watch(HealthCheckRequest::default()).await.expect("it is known");
    let mut api = server.api().await;
    let _unread = api.watch(&[]).await;
    let asked = Instant::now();
    server.signal(Signal::TERM);
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert_eq!(status.code(), Some(0), "{error}");
    assert!(asked.elapsed() < WITHIN, "{:?}", asked.elapsed());
}

/// A call that sends only its headers.
async fn half_call(channel: Channel) -> Result<GetPauseStateResponse, Status> {
    let path = PathAndQuery::from_static("/pausewatch.v1.ElicitationService/GetPauseState");
    let messages = tonic::Request::new(tokio_stream::pending::<GetPauseStateRequest>());
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("it is connected");
    let answer = client.client_streaming(messages, path, ProstCodec::default()).await;
    answer.map(tonic::Response::into_inner)
}

/// The drain does not wait for clients that expect no more answers.
#[tokio::test]
async fn silent_connections_and_endless_requests_do_not_delay_a_drain() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let _silent = TcpStream::connect(&server.address).await.expect("it connects");
    let mut preface = Raw::connect(&server.address).await.expect("it connects");
    preface.send(PREFACE).await.expect("it is read");
    let channel = channel(&server.address).await;
    let mut half = Box::pin(half_call(channel.clone()));
    assert!(std::future::poll_fn(|cx| Poll::Ready(half.as_mut().poll(cx).is_pending())).await);
    let mut health = HealthClient::new(channel.clone());
    let mut health = health.watch(HealthCheckRequest::default()).await.expect("it is known").into_inner();
    let mut reflection =
        tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let reflection = reflection.server_reflection_info(tokio_stream::pending()).await.expect("it is served");
    let mut reflection = reflection.into_inner();
    let first = health.message().await.expect("it goes on").expect("it goes on");
    assert_eq!(first.status(), ServingStatus::Serving);

    let asked = Instant::now();
    server.signal(Signal::TERM);
    let last = timed("health", health.message()).await.expect("it is told before the end").expect("it is told");
    assert_eq!(last.status(), ServingStatus::NotServing);
    let ended = timed("the end of health", health.message()).await.expect_err("it ends with a status");
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    let ended = timed("the end of reflection", reflection.message()).await.expect_err("it ends with a status");
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    let refused = timed("the end of the half request", half).await.expect_err("it never came whole");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert_eq!(status.code(), Some(0), "{error}");
    assert!(!error.contains("at the end of the drain"), "{error}");
    assert!(asked.elapsed() < WITHIN / 2, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn the_log_says_what_was_left_at_the_end_of_the_drain() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut unread = Raw::open(&server.address, &[(INITIAL_WINDOW_SIZE, 0)]).await.expect("it connects");
    let ask = frame(DATA, END_STREAM, 1, &message(3, b"\x0a\x01t"));
    unread.send(&[frame(HEADERS, END_HEADERS, 1, &call("GetPauseState")), ask].concat()).await.expect("it is read");
    unread.wait_for_pong().await.expect("it is alive");
    server.signal(Signal::TERM);
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert_eq!(status.code(), Some(0), "{error}");
    assert!(error.contains("connections were still open") && !error.contains("calls were still"), "{error}");
}

/// G5: each call in flight is answered and durable, or ends with a status that tells the client to retry.
#[tokio::test]
async fn calls_in_flight_finish_and_what_they_were_answered_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let mut api = server.api().await;
        callers.spawn(async move {
            let mut acknowledged = 0;
            loop {
                let thread_id = format!("t{caller}");
                let request = IncrementElicitationRequest { thread_id, ..Default::default() };
                match timed("a call in the drain", api.0.increment_elicitation(request)).await {
                    Ok(answer) => {
                        acknowledged += 1;
                        assert_eq!(answer.get_ref().count, acknowledged);
                    }
                    Err(status) => {
                        // tonic puts the transport's error into the source of the status.
                        let broken = std::error::Error::source(&status).is_some();
                        assert!(status.code() == Code::Unavailable || broken, "{status:?}");
                        return (caller, acknowledged);
                    }
                }
            }
        });
    }
    let mut api = server.api().await;
    let under_way = async { while api.get("t0").await.count < 20 {} };
    timed("the calls", under_way).await;
    server.signal(Signal::TERM);
    let books = callers.join_all().await;
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.expect("it ends");
    assert_eq!(status.code(), Some(0), "{error}");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    for (caller, acknowledged) in books {
        let count = api.get(&format!("t{caller}")).await.count;
        assert!((acknowledged..=acknowledged + 1).contains(&count), "{count}, acknowledged {acknowledged}");
    }
}

#[tokio::test]
async fn a_draining_server_in_this_process_ends_its_watches_and_its_run() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watching = api.watch(&["t"]).await;
    states(&mut watching).await;
    api.increment("t", None).await;
    assert!(matches!(event(&mut watching).await, Event::PauseState(_)));
    let served = running.stop();
    let end = timed("the end of the watch", watching.message()).await.expect_err("it ends with a status");
    assert_eq!(end.code(), Code::Unavailable);
    assert!(end.message().contains("watch again"), "{end}");
    drop((api, watching));
    timed("the end of the run", served).await.expect("it ends");
}
