//! The coordinator alone, over a memory store.
mod group;
mod taken_over;

use crate::support::PATIENCE;
use crate::support::model::thread_id;
use pausewatch::test_support::clock::{Clock, Manual};
use pausewatch::test_support::coordinator::Coordinator;
use pausewatch::test_support::core::{Answer, Command, Timestamp};
use pausewatch::test_support::store::Memory;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn start(clock: Arc<Manual>) -> Coordinator {
    let store = Box::new(Memory);
    let ttl = Some(Duration::from_secs(20));
    Coordinator::start(store, clock, ttl, |fatal| panic!("{fatal}")).expect("there is nothing to load")
}

fn clock() -> Arc<Manual> {
    Arc::new(Manual::new(Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 }, 7))
}

#[tokio::test]
async fn an_increment_without_a_lease_gets_the_default_lease() {
    let clock = clock();
    let coordinator = start(clock.clone());
    let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: None };
    let answer = coordinator.call(thread_id("t"), increment).await.expect("it is accepted");
    let Answer::Incremented { ends, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(ends, Some(clock.now().after(Duration::from_secs(20))));
}

/// The task that ends leases shares its thread with callers and streams.
#[tokio::test(start_paused = true)]
async fn callers_get_turns_while_many_leases_end_at_the_same_time() {
    let clock = clock();
    let coordinator = start(clock.clone());
    for number in 0..3_500 {
        let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: None };
        coordinator.call(thread_id(&format!("t{}", number / 900)), increment).await.expect("it is accepted");
    }
    // In small steps: a standstill of 1.5 s would extend the leases.
    const STEP: Duration = Duration::from_millis(250);
    let (began, mut seen) = (Instant::now(), vec![3_500]);
    while seen.last() != Some(&0) {
        assert!(began.elapsed() < PATIENCE, "{seen:?}");
        if seen.len() == 1 {
            clock.advance(STEP);
            tokio::time::advance(STEP).await;
        } else {
            tokio::task::yield_now().await;
        }
        seen.push(coordinator.hub().figures().open);
        seen.dedup();
    }
    assert_eq!(seen, [3_500, 2_500, 1_500, 500, 0]);
}

/// An embedding program may start and drop many coordinators in one process.
#[tokio::test]
async fn dropped_it_leaves_nothing_running() {
    let clock = clock();
    drop(start(clock.clone()));
    let began = Instant::now();
    while Arc::strong_count(&clock) > 1 {
        assert!(began.elapsed() < PATIENCE, "the lease task is still running");
        tokio::task::yield_now().await;
    }
}
