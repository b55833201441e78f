//! The client library with all replicas of a fleet, and queries of a replica's health service.
use crate::support::PATIENCE;
use pausewatch::client::{
    Client, Config, DecrementElicitationRequest, GetPauseStateRequest, IncrementElicitationRequest, PauseState,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::Response;
use tonic::transport::Endpoint;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// A health service that does not answer within this time counts as not serving.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// Calls whichever replica serves.
pub(crate) struct Caller(Client);

impl Caller {
    pub(crate) fn new(addresses: &[String]) -> Self {
        let address = addresses.join(",").parse().expect("addresses");
        let config = Config { address, deadline: PATIENCE, ..Config::default() };
        Caller(Client::with_config(&config).expect("plain text needs no certificates"))
    }

    /// Starts with the replica of this number.
    pub(crate) fn from(addresses: &[String], number: usize) -> Self {
        let mut addresses = addresses.to_vec();
        let first = number % addresses.len();
        addresses.rotate_left(first);
        Caller::new(&addresses)
    }

    /// Returns the count and the revision after it.
    pub(crate) async fn increment(&self, thread: &str, request_id: &str) -> (u32, u64) {
        let (thread_id, request_id) = (thread.to_owned(), request_id.to_owned());
        let request = IncrementElicitationRequest { thread_id, request_id, ..Default::default() };
        let answer = self.0.increment_elicitation(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("increment of {thread}: {error:?}"));
        (answer.count, answer.revision)
    }

    /// Returns the count and the revision after it.
    pub(crate) async fn decrement(&self, thread: &str, request_id: &str) -> (u32, u64) {
        let (thread_id, request_id) = (thread.to_owned(), request_id.to_owned());
        let request = DecrementElicitationRequest { thread_id, request_id, elicitation_id: None };
        let answer = self.0.decrement_elicitation(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("decrement of {thread}: {error:?}"));
        (answer.count, answer.revision)
    }

    pub(crate) async fn get(&self, thread: &str) -> PauseState {
        let answer = self.0.get_pause_state(GetPauseStateRequest { thread_id: thread.to_owned() }).await;
        answer.expect("a read").pause_state.expect("a state")
    }
}

/// The status of `service` at the health service of a replica; `None`: it does not answer soon.
pub(crate) async fn health(address: &str, service: &str) -> Option<String> {
    Some(check(address, service).await?.into_inner().status().as_str_name().to_owned())
}

/// The term that a replica knows; waits until it answers.
pub(crate) async fn term(address: &str) -> u64 {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = check(address, "").await
            && let Some(term) = answer.metadata().get("pausewatch-term")
        {
            return term.to_str().expect("it is text").parse().expect("it is a number");
        }
        assert!(Instant::now() < give_up, "the replica does not return its term");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn check(address: &str, service: &str) -> Option<Response<HealthCheckResponse>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect_timeout(ATTEMPT).timeout(ATTEMPT).connect_lazy();
    let request = HealthCheckRequest { service: service.to_owned() };
    timeout(ATTEMPT, HealthClient::new(channel).check(request)).await.ok()?.ok()
}
