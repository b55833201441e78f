//! A watcher of every thread and one of some; they may be slow to read.
use crate::net;
use crate::oracle::Oracle;
use crate::run::Place;
use pausewatch::client::{Event, Watch};
use std::time::Duration;
use tokio::time::sleep;

/// Runs the process; never returns.
pub(crate) async fn run(place: Place, oracle: Oracle) -> turmoil::Result {
    let client = net::client(&place.host, &oracle, Duration::from_secs(5));
    let mut some = client.watch().with_elicitations();
    for thread in &place.threads[1..] {
        some.add(thread)?;
    }
    let watches = [(client.watch_all(), "all", vec![]), (some, "some", place.threads[1..].to_vec())];
    for (number, (watch, name, threads)) in watches.into_iter().enumerate() {
        let (oracle, random) = (oracle.clone(), place.random(10 + number as u64));
        let name = format!("{}/{name}", place.host);
        tokio::spawn(read(watch, oracle, place.host.clone(), name, threads, random));
    }
    std::future::pending().await
}

async fn read(
    mut watch: Watch,
    oracle: Oracle,
    host: String,
    name: String,
    threads: Vec<String>,
    mut random: fastrand::Rng,
) {
    oracle.watch_started(&name, &host, threads);
    loop {
        match watch.next().await {
            Event::State(update) => oracle.watched(&name, &update.state, update.gap),
            Event::Disconnected { .. } => oracle.count("breaks of a watch"),
            _ => {}
        }
        // Sometimes it is busy with something else.
        if random.u8(..20) == 0 && !oracle.is_over() {
            oracle.count("slow reads of a watch");
            oracle.watch_is_busy(&name, true);
            sleep(Duration::from_millis(random.u64(500..8_000))).await;
            oracle.watch_is_busy(&name, false);
        }
    }
}
