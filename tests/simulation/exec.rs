//! An exec server: commands under stopwatches that follow the coordinator.
use crate::net;
use crate::oracle::Oracle;
use crate::{machine, run::Place};
use fastrand::Rng;
use pausewatch::stopwatch::{Link, Stopwatch, StopwatchController};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Commands that run at the same time.
const LANES: u64 = 3;
/// Between two looks at a stopwatch.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The process; ends never.
pub(crate) async fn run(place: Place, oracle: Oracle, grace: Duration) -> turmoil::Result {
    let client = net::client(&place.host, &oracle, Duration::from_secs(5));
    let controller = StopwatchController::with_sleep_clock(client, grace, machine::slept);
    for lane in 0..LANES {
        let (place, oracle, controller) = (place.clone(), oracle.clone(), controller.clone());
        let mut random = place.random(lane);
        tokio::spawn(async move {
            loop {
                command(&place, &oracle, &controller, &mut random).await;
                sleep(Duration::from_millis(random.u64(0..1_500))).await;
            }
        });
    }
    std::future::pending().await
}

/// One command, to its end or to the end of its time.
async fn command(place: &Place, oracle: &Oracle, controller: &StopwatchController, random: &mut Rng) {
    let thread = place.any_thread(random);
    let limit = Duration::from_millis(random.u64(300..8_000));
    // Most run until they are stopped.
    let takes = if random.u8(..4) == 0 { Duration::from_millis(random.u64(100..10_000)) } else { Duration::MAX };
    let done = Instant::now().checked_add(takes);
    let stopwatch = Stopwatch::new(limit);
    let _registered = controller.register(&thread, &stopwatch).expect("a valid thread id");
    let link = controller.link();
    let number = oracle.stopwatch_started(&place.host, &thread, limit);
    loop {
        tokio::select! {
            biased;
            () = stopwatch.expired() => return oracle.stopwatch_expired(number),
            () = sleep(LOOK_EVERY) => {}
            () = sleep_until(done.unwrap_or_else(Instant::now)), if done.is_some() => {
                return oracle.stopwatch_ended(number);
            }
        }
        let connected = *link.borrow() == Link::Connected;
        oracle.stopwatch_seen(number, stopwatch.elapsed(), stopwatch.is_paused(), connected);
    }
}
