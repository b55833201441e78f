//! The client library, with the server in place of the network: a message is under way until the scheduler lets it
//! arrive, and some are lost. Each request is served in its own task: if the caller goes away, the request is not
//! cancelled.
#[path = "../../../../src/client/error.rs"]
#[allow(dead_code)]
mod error;
#[path = "../../../../src/client/hold/mod.rs"]
#[allow(dead_code)]
mod hold;
#[path = "../../../../src/client/retry.rs"]
mod retry;
#[path = "../../../../src/client/stopwatch/mod.rs"]
#[allow(dead_code, unused_imports)]
pub(crate) mod stopwatch;

/// The network of this file has one server, so there is no other address.
mod route {
    use std::time::Duration;

    pub(super) struct Route;

    pub(super) struct Stub;

    pub(super) struct Position {
        pub(super) moves: usize,
        pub(super) stub: Stub,
    }

    impl Route {
        pub(super) fn len(&self) -> usize {
            1
        }

        pub(super) fn no_answer(&self) -> Option<Duration> {
            None
        }

        pub(super) fn position(&self) -> Position {
            Position { moves: 0, stub: Stub }
        }

        pub(super) fn move_on(&self, _moves: usize) -> bool {
            false
        }
    }
}

pub(crate) use super::watch::{Event, Message, Watch};
use super::{s, server::Server};
pub(crate) use crate::proto::v1::{
    DecrementElicitationRequest, DecrementElicitationResponse, Elicitation, IncrementElicitationRequest,
    IncrementElicitationResponse, PauseState, RenewElicitationRequest, RenewElicitationResponse,
};
use crate::trace::Parent;
pub(crate) use error::Error;
pub(crate) use hold::Release;
pub(crate) use retry::deadline_after;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::yield_now;
use tonic::{Response, Status};

#[derive(Clone)]
pub(crate) struct Client {
    pub(super) server: Arc<Server>,
    network: Arc<Network>,
    policy: retry::RetryPolicy,
}

/// The network between the client and the server.
pub(super) struct Network {
    /// The number of messages that may still be lost.
    losses: AtomicUsize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client of `server`; up to `losses` messages are lost, as the scheduler likes.
    pub(crate) fn new(server: &Arc<Server>, losses: usize) -> Self {
        let network = Arc::new(Network { losses: losses.into() });
        let policy = retry::RetryPolicy { deadline: s(5), retries: usize::MAX };
        Self { server: server.clone(), network, policy }
    }

    pub(crate) fn with_deadline(&self, deadline: Duration) -> Self {
        let policy = retry::RetryPolicy { deadline, ..self.policy };
        Self { policy, ..self.clone() }
    }

    pub(crate) fn persistent(&self, deadline: Duration) -> Self {
        Self { policy: retry::RetryPolicy { deadline, retries: usize::MAX }, ..self.clone() }
    }

    pub(crate) fn parent(&self) -> Parent {
        Parent::current()
    }

    pub(crate) fn within(&self, _span: Parent) -> Self {
        self.clone()
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.policy.deadline
    }

    async fn unary<M, R, F>(&self, message: M, serve: fn(Arc<Server>, M) -> F) -> Result<R, Error>
    where
        M: Clone + Send + 'static,
        R: Send + 'static,
        F: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let call = |_: route::Stub, request: tonic::Request<M>| {
            let (server, network) = (self.server.clone(), self.network.clone());
            async move {
                network.carry().await?;
                let served = tokio::spawn(serve(server, request.into_inner()));
                let response = served.await.expect("nobody aborts it");
                network.carry().await?;
                response.map(Response::new)
            }
        };
        retry::unary(self.policy, &route::Route, message, call).await
    }

    pub(crate) async fn increment_elicitation(
        &self,
        request: IncrementElicitationRequest,
    ) -> Result<IncrementElicitationResponse, Error> {
        self.unary(request, |server, request| async move { server.increment(request).await }).await
    }

    pub(crate) async fn decrement_elicitation(
        &self,
        request: DecrementElicitationRequest,
    ) -> Result<DecrementElicitationResponse, Error> {
        self.unary(request, |server, request| async move { server.decrement(request).await }).await
    }

    pub(crate) async fn renew_elicitation(
        &self,
        request: RenewElicitationRequest,
    ) -> Result<RenewElicitationResponse, Error> {
        self.unary(request, |server, request| async move { server.renew(request).await }).await
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.server.hub().clone(), self.network.clone())
    }
}

impl Network {
    /// Carries one message, or loses it with its connection.
    pub(super) async fn carry(&self) -> Result<(), Status> {
        yield_now().await;
        let lose = |left: usize| left.checked_sub(1);
        if tokio::choose() && self.losses.fetch_update(SeqCst, SeqCst, lose).is_ok() {
            return Err(Status::unavailable("the connection was lost"));
        }
        Ok(())
    }
}
