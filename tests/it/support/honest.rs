//! A well-behaved client, which calls the server while others misbehave.
use super::{Process, api};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The number of calls on a connection before the next one, so that new connections are tested too.
const CALLS: usize = 20;

/// What was measured of a server under attack.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) calls: usize,
    /// The maximum growth of the memory since the beginning.
    pub(crate) peak: usize,
}

/// Calls the server, also over new connections, and measures its memory, while `attack` runs. Fails when a call fails.
pub(crate) async fn beside<T>(what: &str, server: &Process, attack: impl Future<Output = T>) -> (Report, T) {
    let (stop, slowest) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let calling = call_until(server.address.clone(), stop.clone(), slowest.clone());
    let before = server.memory();
    let mut peak = before;
    let mut measured = async |future: &mut (dyn Future<Output = ()> + Unpin)| {
        loop {
            tokio::select! {
                () = &mut *future => return peak,
                () = tokio::time::sleep(Duration::from_millis(5)) => peak = peak.max(server.memory()),
            }
        }
    };
    let mut outcome = None;
    measured(&mut Box::pin(async { outcome = Some(attack.await) })).await;
    stop.store(true, Relaxed);
    let mut calls = 0;
    let peak = measured(&mut Box::pin(async { calls = calling.await.expect("the honest client is served") })).await;
    let slowest = Duration::from_micros(slowest.load(Relaxed) as u64);
    let left = server.memory().saturating_sub(before);
    let report = Report { calls, peak: peak.saturating_sub(before) };
    println!(
        "{what}: memory +{:.1} MiB at most, +{:.1} MiB at the end; beside it {calls} calls, the slowest {slowest:?}",
        report.peak as f64 / 1_048_576.0,
        left as f64 / 1_048_576.0,
    );
    (report, outcome.expect("it has ended"))
}

fn call_until(address: String, stop: Arc<AtomicBool>, slowest: Arc<AtomicUsize>) -> JoinHandle<usize> {
    tokio::spawn(async move {
        let mut calls = 0;
        loop {
            let mut began = Instant::now();
            let mut api = api(&address).await;
            for _ in 0..CALLS {
                api.increment("honest", None).await;
                api.try_decrement("honest", "", None).await.expect("it was opened");
                calls += 2;
                slowest.fetch_max(began.elapsed().as_micros() as usize, Relaxed);
                began = Instant::now();
                if stop.load(Relaxed) {
                    return calls;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    })
}
