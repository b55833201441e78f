//! The service while this replica leads, and the refusal while it does not.
use super::super::grpc::Elicitations;
use super::super::status;
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::coordinator::hub::Hub;
use crate::coordinator::store::etcd::{Leader, Pulse};
use crate::core::Refusal;
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// What a term serves.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) elicitations: Elicitations,
    pub(super) coordinator: Arc<Coordinator>,
    /// Calls that are being answered.
    pub(super) calls: TaskTracker,
    pub(super) pulse: Arc<Pulse>,
    /// The cluster clock.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) number: u64,
}

/// Serves the present term. Clones are of the same replica.
#[derive(Clone)]
pub(crate) struct Leading {
    term: Arc<RwLock<Option<Serving>>>,
    leader: watch::Receiver<Option<Leader>>,
    machine: Arc<dyn Clock>,
}

impl Leading {
    pub(crate) fn new(leader: watch::Receiver<Option<Leader>>, machine: Arc<dyn Clock>) -> Self {
        Leading { term: Arc::default(), leader, machine }
    }

    pub(super) fn begin(&self, serving: Serving) {
        *self.term.write().expect("nothing panics while it holds the term") = Some(serving);
    }

    pub(super) fn end(&self) {
        *self.term.write().expect("nothing panics while it holds the term") = None;
    }

    fn serving(&self) -> Option<Serving> {
        self.term.read().expect("nothing panics while it holds the term").clone()
    }

    /// The state of the present term, if this replica was sure of it a moment ago.
    pub(crate) fn hub(&self) -> Option<Arc<Hub>> {
        let serving = self.serving().filter(|serving| serving.pulse.is_fresh(self.machine.boot()))?;
        Some(serving.coordinator.hub().clone())
    }

    /// The number of the present term and the cluster clock, likewise.
    pub(super) fn now(&self) -> Option<(u64, i64)> {
        let serving = self.serving().filter(|serving| serving.pulse.is_fresh(self.machine.boot()))?;
        Some((serving.number, serving.clock.boot()))
    }

    fn refusal(&self) -> Refusal {
        let leader = self.leader.borrow().as_ref().map(|leader| leader.address.as_str().into());
        Refusal::NotLeading { leader }
    }
}

impl NamedService for Leading {
    const NAME: &'static str = SERVICE_NAME;
}

/// A call that is being answered. The fields are dropped in this order: the term ends when its last call does.
struct InCall {
    serving: Serving,
    _token: TaskTrackerToken,
}

impl Service<http::Request<Body>> for Leading {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Some(serving) = self.serving() else {
            return Box::pin(ready(Ok(status::of(&self.refusal()).into_http())));
        };
        let _token = serving.calls.token();
        let mut call = InCall { serving, _token };
        Box::pin(async move {
            if !commits(request.uri().path())
                && let Err(refusal) = call.serving.coordinator.confirm().await
            {
                return Ok(status::of(&refusal).into_http());
            }
            call.serving.elicitations.call(request).await
        })
    }
}

/// Whether the engine answers the call, and asks etcd by itself whether it may.
fn commits(path: &str) -> bool {
    ["IncrementElicitation", "DecrementElicitation", "RenewElicitation"].iter().any(|method| path.ends_with(method))
}
