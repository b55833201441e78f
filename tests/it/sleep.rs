//! A sleep of the machine, as the coordinator sees it: on a clock of the test, and on tokio's, which stands still meanwhile.
use crate::support::model::{Obedient, thread_id};
use pausewatch::clock::{Clock, Manual};
use pausewatch::coordinator::Coordinator;
use pausewatch::core::types::Ttl;
use pausewatch::core::{Command, Moment};
use pausewatch::store::{Memory, Store};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// G2: a lease that is longer than the sleep begins anew at the end of the sleep, and not when something else happens.
#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_machine_is_noticed_within_a_second_and_needs_no_call() {
    let stores: [Box<dyn Store>; 2] = [Box::new(Memory), Box::new(Obedient::default())];
    for store in stores {
        let keeps = store.keeps();
        let clock = Arc::new(Manual::new(Moment { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 }, 7));
        let fatal = |fatal| panic!("the store is sound: {fatal}");
        let coordinator = Coordinator::start(store, clock.clone(), None, fatal).expect("the store is sound");
        let ttl = Some(Ttl::new("ttl", 10 * MINUTE).expect("within the limits"));
        let increment = Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl };
        coordinator.call(thread_id("t"), increment).await.expect("it is accepted");
        clock.sleep(MINUTE / 2);
        tokio::time::sleep(2 * Duration::from_secs(1)).await;
        let ends = coordinator.hub().get(&thread_id("t")).open[0].ends;
        assert_eq!(ends, Some(clock.now().after(10 * MINUTE)), "keeps: {keeps}");
    }
}
