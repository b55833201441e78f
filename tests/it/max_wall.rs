//! The wall time limit of a stopwatch: nothing extends it, and `ended_by` names the limit that was reached first.
use crate::fake::Fake;
use pausewatch::stopwatch::{EndedBy, Stopwatch, StopwatchController};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn both(limit: u64, max_wall: u64) -> Stopwatch {
    Stopwatch::builder().limit(s(limit)).max_wall(s(max_wall)).start()
}

/// When it ended, since `start`, in whole seconds, because a query takes milliseconds.
async fn ended(stopwatch: &Stopwatch, start: Instant) -> (Duration, Option<EndedBy>) {
    stopwatch.expired().await;
    (s(start.elapsed().as_secs()), stopwatch.ended_by())
}

#[tokio::test(start_paused = true)]
async fn the_earlier_limit_ends_a_stopwatch() {
    let start = Instant::now();
    let (limited, walled, equal) = (both(3, 5), both(5, 3), both(3, 3));
    assert_eq!(limited.ended_by(), None);
    assert_eq!(ended(&limited, start).await, (s(3), Some(EndedBy::Limit)));
    assert_eq!(ended(&walled, start).await, (s(3), Some(EndedBy::MaxWall)));
    assert_eq!(ended(&equal, start).await, (s(3), Some(EndedBy::Limit)));
    sleep(s(10)).await;
    assert_eq!(ended(&limited, start).await, (s(13), Some(EndedBy::Limit)), "expiry is final");
    let only = Stopwatch::builder().max_wall(s(7)).start();
    assert_eq!((only.remaining(), ended(&only, Instant::now()).await), (None, (s(7), Some(EndedBy::MaxWall))));
    let none = Stopwatch::builder().start();
    assert!(timeout(s(1_000_000), none.expired()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stopwatch_that_is_looked_at_late_ended_by_the_limit_that_was_first() {
    let (limited, walled) = (both(3, 5), both(5, 3));
    sleep(s(10)).await;
    let late = Instant::now();
    assert_eq!(ended(&limited, late).await, (s(0), Some(EndedBy::Limit)));
    let paused = both(3, 5);
    let _pause = paused.pause();
    sleep(s(20)).await;
    assert_eq!(ended(&paused, late).await, (s(20), Some(EndedBy::MaxWall)));
    walled.expired().await;
}

/// Without the timer beside the loop, each of these would wait for a person, or for a coordinator.
#[tokio::test(start_paused = true)]
async fn neither_a_pause_nor_a_query_extends_the_limit_on_wall_time() {
    let fake = Fake::start();
    let controller = StopwatchController::new(fake.client());
    fake.pause("paused");
    let (start, paused, asking, own) = (Instant::now(), both(3, 60), both(58, 60), both(3, 60));
    let _registered = controller.register("paused", &paused).unwrap();
    let _pause = own.pause();
    sleep(s(1)).await;
    let other = Fake::start();
    let cut_off = StopwatchController::new(other.client());
    other.cut();
    let _asking = cut_off.register("t", &asking).unwrap();
    let max_wall = (s(60), Some(EndedBy::MaxWall));
    let all = tokio::join!(ended(&paused, start), ended(&asking, start), ended(&own, start));
    assert_eq!(all, (max_wall, max_wall, max_wall));
    assert!(fake.calls("GetPauseState").is_empty(), "there is no query at its end");
}
