//! The coordinator that users can start in their own tests.
use pausewatch::{
    client::{Client, Config, Error, GetPauseStateRequest},
    server,
    stopwatch::{Stopwatch, StopwatchController},
    testing::TestCoordinator,
};
use std::time::Duration;
use tokio::time::timeout;

async fn count(client: &Client) -> Result<u32, Error> {
    let state = client.get_pause_state(GetPauseStateRequest { thread_id: "t".to_owned() }).await?;
    Ok(state.pause_state.unwrap_or_default().count)
}

#[tokio::test]
async fn a_test_coordinator_has_the_semantics_of_the_real_one() {
    let coordinator = TestCoordinator::start().await.unwrap();
    let client = coordinator.client().unwrap();
    let controller = StopwatchController::new(coordinator.client().unwrap());
    let hold = client.hold("t").open().await.unwrap();
    let stopwatch = Stopwatch::new(Duration::from_millis(50));
    let _registered = controller.register("t", &stopwatch).unwrap();
    assert!(timeout(Duration::from_millis(200), stopwatch.expired()).await.is_err());
    assert_eq!(count(&client).await.unwrap(), 1);
    hold.release().await.unwrap();
    timeout(Duration::from_secs(30), stopwatch.expired()).await.unwrap();
}

#[tokio::test]
async fn a_test_coordinator_goes_and_comes_back_at_the_same_address() {
    let coordinator = TestCoordinator::start().await.unwrap();
    let address = coordinator.address().clone();
    let config = Config { address: address.clone(), retries: 0, ..Config::default() };
    let client = Client::with_config(&config).unwrap();
    let hold = client.hold("t").open().await.unwrap();
    coordinator.stop().await;
    assert!(matches!(count(&client).await, Err(Error::Unavailable(_))));
    let again = TestCoordinator::start_with(server::Config::default(), &address.to_string()).await.unwrap();
    assert_eq!(count(&again.client().unwrap()).await.unwrap(), 0, "a new coordinator must be empty");
    drop(hold);
}
