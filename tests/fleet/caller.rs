//! A client that knows all replicas, as the libraries will: it tries the next one when one does not serve.
use crate::support::PATIENCE;
use pausewatch::proto::v1;
use std::error::Error as _;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use v1::elicitation_service_client::ElicitationServiceClient;

type Service = ElicitationServiceClient<Channel>;

/// A replica that does not answer within this is left for the next one.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// Calls whichever replica serves.
#[derive(Clone)]
pub(crate) struct Caller {
    replicas: Vec<Service>,
    current: usize,
}

impl Caller {
    /// Begins with the replica of this number.
    pub(crate) fn from(addresses: &[String], current: usize) -> Self {
        Caller { current, ..Caller::new(addresses) }
    }

    pub(crate) fn new(addresses: &[String]) -> Self {
        let service = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
            Service::new(endpoint.connect_timeout(ATTEMPT).connect_lazy())
        };
        Caller { replicas: addresses.iter().map(service).collect(), current: 0 }
    }

    /// Calls until a replica answers; only those who do not serve are passed over.
    async fn call<T, F>(&mut self, call: impl Fn(Service) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let replica = self.replicas[self.current % self.replicas.len()].clone();
            match timeout(ATTEMPT, call(replica)).await {
                Ok(Ok(answer)) => return Ok(answer),
                // What has a source was made on this side, of a connection that ended; tonic names the layer by its code.
                Ok(Err(status)) if status.code() != Code::Unavailable && status.source().is_none() => {
                    return Err(status);
                }
                Ok(Err(status)) => assert!(Instant::now() < give_up, "no replica serves: {status:?}"),
                Err(_) => assert!(Instant::now() < give_up, "no replica answers"),
            }
            self.current += 1;
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Count and revision after it.
    pub(crate) async fn increment(&mut self, thread: &str, request_id: &str) -> (u32, u64) {
        let request = v1::IncrementElicitationRequest {
            thread_id: thread.to_owned(),
            request_id: request_id.to_owned(),
            ..v1::IncrementElicitationRequest::default()
        };
        let call = |mut replica: Service| {
            let request = request.clone();
            async move { replica.increment_elicitation(request).await }
        };
        let answer = self.call(call).await;
        let answer = answer.unwrap_or_else(|status| panic!("{request_id}: {status:?}")).into_inner();
        (answer.count, answer.revision)
    }

    /// Count and revision after it.
    pub(crate) async fn decrement(&mut self, thread: &str, request_id: &str) -> (u32, u64) {
        let request = v1::DecrementElicitationRequest {
            thread_id: thread.to_owned(),
            request_id: request_id.to_owned(),
            ..v1::DecrementElicitationRequest::default()
        };
        let call = |mut replica: Service| {
            let request = request.clone();
            async move { replica.decrement_elicitation(request).await }
        };
        let answer = self.call(call).await;
        let answer = answer.unwrap_or_else(|status| panic!("{request_id}: {status:?}")).into_inner();
        (answer.count, answer.revision)
    }

    pub(crate) async fn get(&mut self, thread: &str) -> v1::PauseState {
        let request = v1::GetPauseStateRequest { thread_id: thread.to_owned() };
        let call = |mut replica: Service| {
            let request = request.clone();
            async move { replica.get_pause_state(request).await }
        };
        let answer = self.call(call).await;
        answer.expect("a read").into_inner().pause_state.expect("a state")
    }
}

/// What the health service of a replica says of `service`; `None`: it does not answer soon.
pub(crate) async fn health(address: &str, service: &str) -> Option<String> {
    Some(check(address, service).await?.into_inner().status().as_str_name().to_owned())
}

/// The term that a replica knows, once it answers.
pub(crate) async fn term(address: &str) -> u64 {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = check(address, "").await
            && let Some(term) = answer.metadata().get("pausewatch-term")
        {
            return term.to_str().expect("it is text").parse().expect("it is a number");
        }
        assert!(Instant::now() < give_up, "it does not say its term");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn check(address: &str, service: &str) -> Option<Response<HealthCheckResponse>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect_timeout(ATTEMPT).timeout(ATTEMPT).connect_lazy();
    let request = HealthCheckRequest { service: service.to_owned() };
    timeout(ATTEMPT, HealthClient::new(channel).check(request)).await.ok()?.ok()
}
