//! A disk that breaks under a running server.
use crate::support::disk::FakeDisk;
use crate::support::{Process, config};
use pausewatch::clock::{Clock, System};
use pausewatch::server::Server;
use pausewatch::store::Embedded;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that plays the server.
const CHILD: &str = "PAUSEWATCH_TEST_BROKEN_DISK";
/// fsyncs that the disk lives for.
const SYNCS: u64 = 12;

/// Serves from a disk that breaks.
async fn serve_from_a_disk_that_breaks() {
    let (disk, clock) = (FakeDisk::default(), Arc::new(System::new()));
    let store = Embedded::on(Arc::new(disk.clone()), "the disk of the test", clock.boot_id()).unwrap();
    disk.fail_syncs_after(SYNCS);
    let server = Server::start_on(Box::new(store), clock, config()).await.unwrap();
    println!("listening {}", server.addresses()[0]);
    server.run(std::future::pending()).await;
}

/// S4, G5: the call at hand is not answered, nothing more is, and the process ends with 1 and says why.
#[tokio::test]
async fn an_fsync_that_fails_ends_the_process_with_a_clear_message() {
    if std::env::var_os(CHILD).is_some() {
        return serve_from_a_disk_that_breaks().await;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let this = "durability::an_fsync_that_fails_ends_the_process_with_a_clear_message";
    child.args(["--exact", this, "--nocapture"]).env(CHILD, "1");
    let server = Process::start(child);
    let mut api = server.api().await;
    let mut watcher = server.api().await;
    let mut watching = watcher.watch(&["t"]).await;
    let mut acknowledged = 0;
    let status = loop {
        match api.try_increment("t", "", None).await {
            Ok(answer) => acknowledged += 1.min(answer.count),
            Err(status) => break status,
        }
    };
    assert_eq!(u64::from(acknowledged), SYNCS, "each has an fsync of its own");
    assert!(status.metadata().get("grpc-status-details-bin").is_none(), "no answer, not even a refusal: {status:?}");
    // Nothing was published that was not durable.
    let mut published = 0;
    while let Ok(Some(message)) = watching.message().await {
        if let Some(pausewatch::proto::v1::watch_pause_state_response::Event::PauseState(state)) = message.event {
            published = state.count;
        }
    }
    assert!(published <= acknowledged, "{published} published, {acknowledged} durable");
    let (status, error) = tokio::task::spawn_blocking(|| server.end()).await.unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    for part in ["the disk of the test", "the disk is broken", "What is on the disk is unknown", "start again"] {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}
