//! The epoch of a store: it stays the same while the history continues, and changes when the history does not.
use super::{Place, pausewatch, serve, succeeds};
use crate::support::{Api, states, timed};
use pausewatch::client::{Address, Client};
use pausewatch::proto::v1;
use pausewatch::stopwatch::{Link, Stopwatch, StopwatchController};
use pausewatch::test_support::clock::{Clock, System};
use pausewatch::test_support::store::{Embedded, Store};
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the epoch, which every state that the server sends must have.
async fn epoch(api: &mut Api) -> u64 {
    let epoch = api.get("unknown").await.store_epoch;
    assert_ne!(epoch, 0);
    let include_running = v1::ListPauseStatesRequest { include_running: true, ..Default::default() };
    let mut listed = api.list(include_running).await.unwrap().pause_states;
    listed.extend(states(&mut api.watch(&["t", "unknown"]).await).await);
    listed.push(api.get("t").await);
    let threads: Vec<_> = listed.iter().map(|state| (state.thread_id.as_str(), state.store_epoch)).collect();
    assert!(threads.len() > 3 && threads.iter().all(|(_, of)| *of == epoch), "{epoch}: {threads:?}");
    epoch
}

/// The epoch in the files of a store, without a server.
fn stored_epoch(data: &Path) -> u64 {
    let clock = System::new();
    Embedded::open(data, clock.boot_id()).unwrap().load(clock.now()).unwrap().epoch
}

#[tokio::test]
async fn a_killed_server_keeps_its_epoch_and_a_restored_one_begins_another() {
    let place = Place::new();
    let data = place.path("data");
    let server = serve(&data).await;
    let mut api = server.api().await;
    api.increment("t", None).await;
    let first = epoch(&mut api).await;
    server.kill();
    assert_eq!(stored_epoch(&data), first, "the epoch survives kill -9");
    let server = serve(&data).await;
    assert_eq!(epoch(&mut server.api().await).await, first);
    succeeds(pausewatch("backup", &data, &[&place.text("backup")]));
    server.kill();
    succeeds(pausewatch("restore", &data, &[&place.text("backup"), "--force"]));
    let restored = stored_epoch(&data);
    assert_ne!(restored, first);
    let server = serve(&data).await;
    assert_eq!(epoch(&mut server.api().await).await, restored);
    // Another store from the same backup has its own history.
    succeeds(pausewatch("restore", &place.path("copy"), &[&place.text("backup")]));
    assert_ne!(stored_epoch(&place.path("copy")), restored);
}

/// G3: the paused time in the backup was charged or credited before the restore. A command that is not paused
/// afterwards has its limit and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_command_is_charged_its_whole_time_across_a_restore() {
    let place = Place::new();
    let data = place.path("data");
    let server = serve(&data).await;
    let mut api = server.api().await;
    pause(&mut api, Duration::from_millis(800)).await;
    succeeds(pausewatch("backup", &data, &[&place.text("backup")]));
    pause(&mut api, Duration::from_millis(1)).await;

    let address: Address = format!("unix:{}", data.with_extension("sock").display()).parse().unwrap();
    let controller = StopwatchController::new(Client::new(&address).unwrap());
    let stopwatch = Stopwatch::unlimited();
    let _registered = controller.register("t", &stopwatch).unwrap();
    let mut link = controller.link();
    timed("the link", link.wait_for(|link| *link == Link::Connected)).await.unwrap();
    let (before, since) = (stopwatch.elapsed(), Instant::now());
    let server = tokio::task::spawn_blocking(move || {
        server.kill();
        succeeds(pausewatch("restore", &data, &[&place.text("backup"), "--force"]));
        (data, place)
    });
    let (data, _place) = server.await.unwrap();
    timed("the loss of the link", link.wait_for(|link| link.reason().is_some())).await.unwrap();
    let _server = serve(&data).await;
    timed("the link", link.wait_for(|link| *link == Link::Connected)).await.unwrap();
    let wall = since.elapsed();
    let charged = stopwatch.elapsed() - before;
    assert!(charged >= wall, "{charged:?} of at least {wall:?}");
}

/// Pauses the thread `t` for at least this long.
async fn pause(api: &mut Api, length: Duration) {
    api.increment("t", None).await;
    tokio::time::sleep(length).await;
    api.try_decrement("t", "", None).await.unwrap();
}
