//! The soak test: load, faults and checks on a real server for any length of time, and a verdict.
//!
//! `tests/soak/run MINUTES` runs it with the release build; `cargo test --test soak` runs it for half a minute.
//!
//! ```text
//! world       the shared state: addresses, when the server was started, results
//! server      the process, and its faults: kill -9, SIGTERM, SIGSTOP
//! cutter      a proxy that cuts its connections and holds back what they carry; half of all clients go through it
//! books       callers that record what was acknowledged (G4, G5)
//! commands    stopwatches whose thread is paused (G1, G3), and that expire afterwards (G2)
//! deserters   elicitations that are never closed (G2)
//! watchers    streams of all threads (G6)
//! ```
//!
//! The load sometimes pauses for a moment, and all records are compared with the state of the server.
mod books;
mod commands;
mod cutter;
mod deserters;
mod server;
mod watchers;
mod world;

use fastrand::Rng;
use server::Server;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use world::World;

/// The duration of the load between two comparisons.
const ROUND: Duration = Duration::from_secs(15);
/// The duration of the short form.
const SHORT: Duration = Duration::from_secs(30);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

fn main() -> ExitCode {
    // Each actor does its own I/O, and the proxy is one of them.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be made").block_on(soak())
}

async fn soak() -> ExitCode {
    let length = number("PAUSEWATCH_SOAK_MINUTES").map_or(SHORT, |minutes| Duration::from_secs(60 * minutes));
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
    let seed = number("PAUSEWATCH_SOAK_SEED").unwrap_or(now);
    println!("soak: {} s, PAUSEWATCH_SOAK_SEED={seed}", length.as_secs());
    let mut random = Rng::with_seed(seed);

    let directory = tempfile::tempdir().expect("a directory can be made");
    let mut server = Server::start(directory.path().join("data")).await;
    let front = cutter::start(server.address().to_owned(), random.fork()).await;
    let world = Arc::new(World::new(server.address(), &front));

    let callers = books::start(&world, &mut random);
    let commands = commands::start(&world, &mut random);
    let deserters = deserters::start(&world, &mut random);
    let watchers = watchers::start(&world);

    let end = Instant::now() + length;
    while Instant::now() < end && !world.has_failed() {
        let round = Instant::now() + ROUND;
        while Instant::now() < round.min(end) {
            let pause = Duration::from_millis(300 + random.u64(..2_500));
            tokio::time::sleep(pause.min(round.saturating_duration_since(Instant::now()))).await;
            server.fault(&world, &mut random).await;
        }
        let rest = world.rest().await;
        books::compare(&world, &callers).await;
        watchers::compare(&world, &watchers).await;
        server.measure(&world);
        drop(rest);
        println!("{:>5} s left, {}", end.saturating_duration_since(Instant::now()).as_secs(), world.progress());
    }
    world.over.store(true, Relaxed);
    for task in [callers.tasks, commands, deserters].into_iter().flatten() {
        if let Err(panic) = task.await {
            world.fail(format!("an actor ended with {panic}"));
        }
    }
    server.stop(&world).await;
    world.verdict(&server.summary())
}
