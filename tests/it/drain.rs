//! SIGTERM and SIGINT: the server says that it stops, finishes what it has, and ends with 0 within 5 s.
use crate::support::{Process, Running, config, event, states, timed};
use pausewatch::proto::v1::{IncrementElicitationRequest, watch_pause_state_response::Event};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// The contract: the process is gone within this.
const WITHIN: Duration = Duration::from_secs(5);

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
    // Connections that are idle, or were never used, hold up nothing.
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

/// G5: of the calls in flight each is answered and kept, or ends with a status that says to call again.
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
                        // tonic names what its transport says after the layer that noticed.
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
