//! The guard that keeps an elicitation open (`Hold`).
use crate::fake::{Fake, settle};
use pausewatch::client::{Config, Error, Lease, Release};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::Status;

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn g2_a_hold_is_renewed_at_a_third_of_its_ttl() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").open().await.unwrap();
    assert_eq!(hold.opened().count, 1);
    sleep(4 * TTL).await;
    assert_eq!((hold.lease(), fake.count("t")), (Lease::Held, 1));
    let renewals = fake.calls("renew");
    assert_eq!(renewals.len(), 11, "at 10 s, 20 s, ... 110 s");
    assert!(renewals.iter().enumerate().all(|(i, call)| call.at.as_secs() == 10 * (i as u64 + 1)), "{renewals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_release_returns_the_same_result() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").open().await.unwrap();
    let closed = Release::Closed { count: 0, revision: 2 };
    assert_eq!(hold.lease(), Lease::Held);
    assert_eq!(hold.release().await.unwrap(), closed);
    assert_eq!((hold.lease(), hold.lost().await), (Lease::Released, Lease::Released));
    assert_eq!(hold.release().await.unwrap(), closed);
    drop(hold);
    sleep(TTL).await;
    assert_eq!((fake.calls("decrement").len(), fake.calls("renew").len()), (1, 0), "no task is left running");
}

#[tokio::test(start_paused = true)]
async fn g4_a_release_retried_after_a_lost_response_returns_the_first_result() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").open().await.unwrap();
    fake.script().lose_answers = u32::MAX;
    assert!(matches!(hold.release().await, Err(Error::Unavailable(_))));
    fake.script().lose_answers = 0;
    assert_eq!(hold.release().await.unwrap(), Release::Closed { count: 0, revision: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_dropped_hold_is_released_at_once() {
    let fake = Fake::start();
    drop(fake.client().hold("t").open().await.unwrap());
    settle().await;
    assert_eq!(fake.count("t"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_dropped_during_an_outage_is_released_after_it() {
    // Nobody waits for the release, so it is retried even if calls are not.
    for retries in [0, usize::MAX] {
        let fake = Fake::start();
        let client = fake.client_with(&Config { retries, ..Config::default() });
        let hold = client.hold("t").ttl(Duration::from_secs(600)).open().await.unwrap();
        fake.cut();
        drop(hold);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(fake.count("t"), 1);
        fake.mend();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(fake.count("t"), 0, "retries: {retries}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_open_future_closes_the_elicitation() {
    let fake = Fake::start();
    fake.hold_answers(true);
    let open = tokio::spawn(fake.client().hold("t").open());
    settle().await;
    assert_eq!(fake.count("t"), 1);
    open.abort();
    fake.hold_answers(false);
    settle().await;
    assert_eq!(fake.count("t"), 0);
}

/// `Handle::block_on` goes on after the end of the runtime, which drops the tasks.
#[test]
fn a_runtime_that_was_shut_down_opens_no_hold() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (handle, client) = (runtime.handle().clone(), runtime.block_on(async { Fake::start().client() }));
    runtime.shutdown_background();
    let error = handle.block_on(client.hold("t").open()).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.to_string().contains("shut down"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_the_expiry_returns_expired() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").ttl(TTL).open().await.unwrap();
    fake.cut();
    let start = Instant::now();
    assert_eq!(hold.lost().await, Lease::Overdue);
    assert_eq!(start.elapsed(), TTL);
    sleep(Duration::from_secs(1)).await;
    fake.mend();
    assert_eq!(hold.release().await.unwrap(), Release::Expired);
}

#[tokio::test(start_paused = true)]
async fn the_lease_shows_how_the_elicitation_was_closed() {
    let fake = Fake::start();
    let client = fake.client();
    let expired = client.hold("expired").open().await.unwrap();
    let released = client.hold("released").open().await.unwrap();
    let unknown = client.hold("unknown").open().await.unwrap();
    fake.world(|world| {
        world.close("expired", &expired.elicitation().elicitation_id, "EXPIRED").unwrap();
        world.close("released", &released.elicitation().elicitation_id, "RELEASED").unwrap();
    });
    assert_eq!((expired.lost().await, released.lost().await), (Lease::Expired, Lease::Released));
    assert_eq!(released.release().await.unwrap(), Release::Released);
    assert_eq!(unknown.lease(), Lease::Held);
    fake.world(|world| world.forget_everything());
    assert_eq!(unknown.lost().await, Lease::Unknown);
    assert_eq!(unknown.release().await.unwrap(), Release::Unknown);
}

/// Without this, nothing would be reported before the pause is over.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_at_risk_before_it_ends() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").ttl(TTL).open().await.unwrap();
    let (opened, mut risk) = (Instant::now(), hold.risk());
    fake.script().refuse = vec![Status::permission_denied("no"); 1_000];
    assert!(risk.wait_for(Option::is_some).await.is_ok());
    assert_eq!(opened.elapsed().as_secs(), 20, "a third of the ttl is left");
    let shown = risk.borrow().clone().unwrap();
    assert_eq!((shown.ends - opened).as_secs(), 30);
    assert!(matches!(shown.error, Some(Error::PermissionDenied(_))), "{shown:?}");
    assert_eq!(hold.lease(), Lease::Held);
    fake.script().refuse.clear();
    assert!(risk.wait_for(Option::is_none).await.is_ok());
    assert!(opened.elapsed().as_secs() < 25 && hold.lease() == Lease::Held, "{:?}", opened.elapsed());
    fake.freeze(true);
    let renewed = Instant::now();
    assert!(risk.wait_for(Option::is_some).await.is_ok());
    assert_eq!((renewed.elapsed().as_secs(), hold.lease()), (20, Lease::Held), "also without an answer");
    assert_eq!(hold.lost().await, Lease::Overdue);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_network_does_not_prevent_the_second_renewal() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").ttl(TTL).open().await.unwrap();
    sleep(Duration::from_secs(9)).await;
    fake.freeze(true);
    sleep(Duration::from_secs(15)).await;
    fake.freeze(false);
    sleep(Duration::from_secs(5)).await;
    assert_eq!((hold.lease(), fake.count("t")), (Lease::Held, 1));
    sleep(Duration::from_secs(40)).await;
    assert_eq!((hold.lease(), fake.count("t")), (Lease::Held, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_increment_opens_nothing() {
    let fake = Fake::start();
    fake.script().refuse = vec![Status::invalid_argument("ttl is 25 h")];
    assert!(fake.client().hold("t").open().await.is_err());
    sleep(TTL).await;
    assert_eq!(fake.seen().calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_names_its_program_as_the_holder() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").reason("May I?").open().await.unwrap();
    assert_eq!(hold.elicitation().reason, "May I?");
    assert!(hold.elicitation().holder.ends_with(&format!("[{}]", std::process::id())), "{:?}", hold.elicitation());
    let named = fake.client().hold("t").holder("me").open().await.unwrap();
    assert_eq!(named.elicitation().holder, "me");
}

#[tokio::test(start_paused = true)]
async fn a_best_effort_hold_goes_on_without_a_coordinator_and_refuses_a_bad_thread() {
    let fake = Fake::start();
    let hold = fake.client().hold("t").open_best_effort().await.unwrap().expect("the coordinator is there");
    hold.release().await.unwrap();
    fake.cut();
    let start = Instant::now();
    assert!(fake.client().hold("t").open_best_effort().await.unwrap().is_none());
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    fake.mend();
    fake.script().refuse = vec![Status::resource_exhausted("too much"), Status::unauthenticated("no token")];
    for _ in 0..2 {
        assert!(fake.client().hold("t").open_best_effort().await.unwrap().is_none());
    }
    let refused = Error::from(pausewatch::test_support::core::types::InvalidField::new("ttl", "1ms", "1s to 24h"));
    fake.script().refuse = vec![refused.status().clone()];
    assert!(matches!(fake.client().hold("t").open_best_effort().await, Err(Error::InvalidField { .. })));
}
