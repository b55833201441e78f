//! The health service of a replica. The metadata of its answers say which fleet it belongs to, who leads, and how old
//! the state is that it shows, for `pausewatch health --fleet`. Everybody may call it, so it names no address.
use crate::coordinator::metrics::FleetState;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// The fleet: the `store_epoch` of its states.
const FLEET: &str = "pausewatch-fleet";
/// `leader` or `follower`.
const ROLE: &str = "pausewatch-role";
const TERM: &str = "pausewatch-term";
/// Milliseconds since the replica was sure of the latest state.
const STATE_AGE: &str = "pausewatch-state-age-ms";
/// Log entries that the replica knows of and does not show yet.
const LAG: &str = "pausewatch-lag-entries";

/// A health service whose answers describe the replica.
#[derive(Clone)]
pub(crate) struct DescribedHealth<S> {
    inner: S,
    fleet: u64,
    describe: Arc<dyn Fn() -> FleetState + Send + Sync>,
}

impl<S> DescribedHealth<S> {
    pub(crate) fn new(inner: S, fleet: u64, describe: Arc<dyn Fn() -> FleetState + Send + Sync>) -> Self {
        DescribedHealth { inner, fleet, describe }
    }
}

impl<S> Service<http::Request<Body>> for DescribedHealth<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (answer, fleet, describe) = (self.inner.call(request), self.fleet, self.describe.clone());
        Box::pin(async move {
            let mut answer = answer.await?;
            let FleetState { leads, term, age, lag, .. } = describe();
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let headers = answer.headers_mut();
            headers.insert(FLEET, fleet.into());
            headers.insert(ROLE, http::HeaderValue::from_static(if leads { "leader" } else { "follower" }));
            headers.insert(TERM, term.into());
            headers.insert(STATE_AGE, age.into());
            headers.insert(LAG, lag.into());
            Ok(answer)
        })
    }
}
