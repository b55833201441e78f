//! A sleep of the machine, or a stopped server, as the coordinator sees it: by a clock of the test, and by tokio's
//! clock, which stands still meanwhile.
use crate::support::model::{Obedient, thread_id};
use pausewatch::test_support::clock::{Clock, Manual};
use pausewatch::test_support::coordinator::Coordinator;
use pausewatch::test_support::core::types::Ttl;
use pausewatch::test_support::core::{Command, Timestamp};
use pausewatch::test_support::store::{Memory, Store};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn clock() -> Arc<Manual> {
    Arc::new(Manual::new(Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 }, 7))
}

fn stores() -> [Box<dyn Store>; 2] {
    [Box::new(Memory), Box::new(Obedient::default())]
}

fn start(store: Box<dyn Store>, clock: &Arc<Manual>) -> Coordinator {
    let fatal = |fatal| panic!("the store must not fail: {fatal}");
    Coordinator::start(store, clock.clone(), None, fatal).expect("the store is sound")
}

async fn open(coordinator: &Coordinator, ttl: Duration) {
    let ttl = Some(Ttl::new("ttl", ttl).expect("within the limits"));
    let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl };
    coordinator.call(thread_id("t"), increment).await.expect("it is accepted");
}

fn ends(coordinator: &Coordinator) -> Option<Timestamp> {
    coordinator.hub().get(&thread_id("t")).open.first().and_then(|open| open.ends)
}

/// G2: a lease that is longer than the sleep restarts at the end of the sleep, not at the next event.
#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_machine_is_noticed_within_a_second_and_needs_no_call() {
    for store in stores() {
        let keeps = store.keeps();
        let clock = clock();
        let coordinator = start(store, &clock);
        open(&coordinator, 10 * MINUTE).await;
        clock.sleep(MINUTE / 2);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(ends(&coordinator), Some(clock.now().after(10 * MINUTE)), "keeps: {keeps}");
    }
}

/// E4: the process is stopped and continued, for example. The holder's renewals wait unread meanwhile.
#[tokio::test(start_paused = true)]
async fn g1_after_the_server_stood_still_leases_end_that_much_later() {
    for store in stores() {
        let keeps = store.keeps();
        let clock = clock();
        let coordinator = start(store, &clock);
        open(&coordinator, 3 * SECOND).await;
        let still = clock.now().after(3 * SECOND + 5 * SECOND);
        clock.advance(5 * SECOND);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(ends(&coordinator), Some(still), "keeps: {keeps}");
        // While the server runs, the lease counts down as usual.
        for _ in 0..3 {
            clock.advance(SECOND);
            tokio::time::sleep(SECOND).await;
        }
        assert_eq!(ends(&coordinator), None, "keeps: {keeps}");
    }
}
