//! An exec server: commands under stopwatches that follow the coordinator.
use crate::net;
use crate::oracle::Oracle;
use crate::{machine, run::Place};
use fastrand::Rng;
use pausewatch::stopwatch::{EndedBy, Link, Stopwatch, StopwatchController};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The number of commands that run at the same time.
const LANES: u64 = 3;
/// A thread that no call ever names.
pub(crate) const NEVER: &str = "never";
/// The time between two checks of a stopwatch.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the process; never returns.
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

/// Runs one command until it ends or expires.
async fn command(place: &Place, oracle: &Oracle, controller: &StopwatchController, random: &mut Rng) {
    let thread = place.any_thread(random);
    let limit = Duration::from_millis(random.u64(300..8_000));
    // Most commands run until they are stopped.
    let takes = if random.u8(..4) == 0 { Duration::from_millis(random.u64(100..10_000)) } else { Duration::MAX };
    let done = Instant::now().checked_add(takes);
    // Some have a wall time limit too, which is reached before the other one or after it.
    let max_wall = (random.u8(..3) == 0).then(|| Duration::from_millis(random.u64(300..20_000)));
    let builder = Stopwatch::builder().limit(limit);
    let stopwatch = max_wall.map_or(builder.clone(), |max_wall| builder.max_wall(max_wall)).start();
    let registered = controller.register(&thread, &stopwatch).expect("a valid thread id");
    let also = children(place, &thread, random);
    let _awaited: Vec<_> =
        also.iter().map(|child| registered.await_thread(child).expect("a valid thread id")).collect();
    let link = controller.link();
    let number = oracle.stopwatch_started(&place.host, [vec![thread], also].concat(), limit, max_wall);
    loop {
        tokio::select! {
            biased;
            () = stopwatch.expired() => {
                let at_wall = stopwatch.ended_by() == Some(EndedBy::MaxWall);
                return oracle.stopwatch_expired(number, at_wall);
            }
            () = sleep(LOOK_EVERY) => {}
            () = sleep_until(done.unwrap_or_else(Instant::now)), if done.is_some() => {
                return oracle.stopwatch_ended(number);
            }
        }
        let connected = *link.borrow() == Link::Connected;
        oracle.stopwatch_seen(number, stopwatch.elapsed(), stopwatch.is_paused(), connected);
    }
}

/// The threads that a command waits for: those of sub-agents that ask, whose holders die, or that never existed.
fn children(place: &Place, own: &str, random: &mut Rng) -> Vec<String> {
    if random.u8(..3) > 0 {
        return Vec::new();
    }
    let mut children: Vec<_> = place.threads.iter().filter(|thread| *thread != own && random.bool()).cloned().collect();
    if random.u8(..3) == 0 {
        children.push(NEVER.to_owned());
    }
    children
}
