//! The gRPC service: decodes and checks calls, passes them to the coordinator, and encodes the results.
//!
//! Unary calls go through tonic's generated server. The watches are served beside it (`watch/`): their messages
//! are framed once and shared by all streams, where the generated code would encode them and keep a buffer per stream.
mod codec;
mod fields;
mod frame;
mod page;
mod pauses;
mod watch;
mod wire;

pub(crate) use codec::RequestCodec;
#[cfg(feature = "etcd")]
pub(crate) use watch::{Confirmed, Confirming};
pub(crate) use watch::{MAX_WATCH_REQUEST, Watches};

use crate::clock::Clock;
use crate::coordinator::{Call, Coordinator};
use crate::core::types::ThreadId;
use crate::core::{Answer, Command, MEMORY_SPAN};
use crate::proto::v1;
use crate::server::access::{Access, Role};
use crate::server::admission::{self, Forwarded, Rights, ServiceContext, Size};
use crate::server::status;
use prost::Message;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Request, Response, Status, Streaming};
use v1::elicitation_service_server::{ElicitationService, ElicitationServiceServer};
use wire::ReadContext;

/// Makes the service of a coordinator with this clock.
pub(crate) type MakeElicitations = Box<dyn Fn(Arc<Coordinator>, Arc<dyn Clock>) -> Elicitations + Send + Sync>;

/// The maximum size of a unary request. A request with every field at its limit takes under 2 KiB; up to this size, the
/// error can name the field that is too long.
pub(crate) const MAX_UNARY_REQUEST: usize = 64 << 10;

/// Serves `pausewatch.v1.ElicitationService`.
#[derive(Clone)]
pub struct Elicitations {
    unary: ElicitationServiceServer<Calls>,
    watch: Watches,
}

impl Elicitations {
    /// Serves the threads of `coordinator`. With `access`, the layer [`Admission`](super::admission::Admission) must
    /// come first.
    pub fn new(
        coordinator: Arc<Coordinator>,
        clock: Arc<dyn Clock>,
        context: Arc<ServiceContext>,
        access: Option<Arc<Access>>,
    ) -> Self {
        let is_open = access.is_none();
        let watch = Watches::new(coordinator.hub().clone(), clock.clone(), context.clone(), access);
        let calls = Calls { coordinator, clock, context, is_open };
        Elicitations { unary: ElicitationServiceServer::new(calls).max_decoding_message_size(MAX_UNARY_REQUEST), watch }
    }
}

impl Service<http::Request<Body>> for Elicitations {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path().strip_prefix("/pausewatch.v1.ElicitationService/") {
            Some("WatchPauseState") => Box::pin(self.watch.clone().serve_fixed(request)),
            Some("Watch") => Box::pin(self.watch.clone().serve_changing(request)),
            _ => self.unary.call(request),
        }
    }
}

/// An answer that may be large.
fn sized<M: Message>(message: M) -> Response<M> {
    let size = Size(message.encoded_len());
    let mut response = Response::new(message);
    response.extensions_mut().insert(size);
    response
}

/// The unary calls.
struct Calls {
    coordinator: Arc<Coordinator>,
    clock: Arc<dyn Clock>,
    context: Arc<ServiceContext>,
    /// The server requires no tokens.
    is_open: bool,
}

impl Calls {
    async fn call(&self, caller: &http::Extensions, thread: ThreadId, command: Command) -> Result<Answer, Status> {
        let by = admission::account(&self.context.accounts, caller, &*self.clock);
        let waited = caller.get::<Forwarded>().map_or(Duration::ZERO, |call| call.waited);
        let outcome = self.coordinator.call_by(Call { by, waited, ..Call::from((thread, command)) }).await;
        outcome.map_err(|refusal| status::of(&refusal))
    }

    /// Counts an increment, whose request id and end are remembered. Other calls are never refused for that, so that
    /// everything can be closed.
    fn remember(&self, caller: &http::Extensions) -> Result<(), Status> {
        let by = admission::account(&self.context.accounts, caller, &*self.clock);
        let remembered =
            self.context.accounts.remember(by.as_deref(), &self.context.limits, MEMORY_SPAN, self.clock.awake());
        remembered.map_err(|exceeded| self.context.refuse(exceeded))
    }

    fn rights<T>(&self, request: &Request<T>, role: Role) -> Result<Rights, Status> {
        Rights::of(request.extensions(), self.is_open, role)
    }

    fn read_context(&self) -> ReadContext {
        ReadContext::of(self.coordinator.hub(), &*self.clock)
    }
}

#[tonic::async_trait]
impl ElicitationService for Calls {
    async fn increment_elicitation(
        &self,
        request: Request<v1::IncrementElicitationRequest>,
    ) -> Result<Response<v1::IncrementElicitationResponse>, Status> {
        let rights = self.rights(&request, Role::Holder)?;
        let (_, caller, request) = request.into_parts();
        let (thread, command) = wire::increment(request).map_err(status::of_field)?;
        rights.open(&thread)?;
        self.remember(&caller)?;
        match self.call(&caller, thread.clone(), command).await? {
            Answer::Incremented { count, revision, elicitation, ends } => {
                let watchers = self.coordinator.hub().watchers(&thread);
                let elicitation = Some(wire::elicitation(&thread, &elicitation, ends));
                Ok(Response::new(v1::IncrementElicitationResponse {
                    count,
                    paused: true,
                    revision,
                    elicitation,
                    watchers,
                }))
            }
            _ => Err(status::mixed_up()),
        }
    }

    async fn decrement_elicitation(
        &self,
        request: Request<v1::DecrementElicitationRequest>,
    ) -> Result<Response<v1::DecrementElicitationResponse>, Status> {
        let rights = self.rights(&request, Role::Holder)?;
        let (_, caller, request) = request.into_parts();
        let (thread, command) = wire::decrement(request, rights.are_of_admin()).map_err(status::of_field)?;
        rights.open(&thread)?;
        match self.call(&caller, thread, command).await? {
            Answer::Decremented { count, revision } => {
                Ok(Response::new(v1::DecrementElicitationResponse { count, paused: count > 0, revision }))
            }
            _ => Err(status::mixed_up()),
        }
    }

    async fn renew_elicitation(
        &self,
        request: Request<v1::RenewElicitationRequest>,
    ) -> Result<Response<v1::RenewElicitationResponse>, Status> {
        let rights = self.rights(&request, Role::Holder)?;
        let (_, caller, request) = request.into_parts();
        let (thread, command) = wire::renew(request).map_err(status::of_field)?;
        rights.open(&thread)?;
        match self.call(&caller, thread.clone(), command).await? {
            Answer::Renewed { elicitation, ends } => {
                let elicitation = Some(wire::elicitation(&thread, &elicitation, ends));
                Ok(Response::new(v1::RenewElicitationResponse { elicitation }))
            }
            _ => Err(status::mixed_up()),
        }
    }

    async fn get_pause_state(
        &self,
        request: Request<v1::GetPauseStateRequest>,
    ) -> Result<Response<v1::GetPauseStateResponse>, Status> {
        let rights = self.rights(&request, Role::Watcher)?;
        let thread = wire::thread_id(&request.get_ref().thread_id).map_err(status::of_field)?;
        rights.open(&thread)?;
        let context = self.read_context();
        let pause_state = Some(wire::view(&self.coordinator.hub().get(&thread), context));
        Ok(sized(v1::GetPauseStateResponse { pause_state }))
    }

    async fn list_pause_states(
        &self,
        request: Request<v1::ListPauseStatesRequest>,
    ) -> Result<Response<v1::ListPauseStatesResponse>, Status> {
        let rights = self.rights(&request, Role::Watcher)?;
        let page = page::Page::parse(request.into_inner()).map_err(status::of_field)?;
        Ok(sized(page.read(self.coordinator.hub(), rights.scope(), self.read_context())))
    }

    async fn list_pauses(
        &self,
        request: Request<v1::ListPausesRequest>,
    ) -> Result<Response<v1::ListPausesResponse>, Status> {
        let rights = self.rights(&request, Role::Watcher)?;
        let listing = pauses::PauseListing::parse(request.get_ref()).map_err(status::of_field)?;
        listing.thread().map_or(Ok(()), |thread| rights.open(thread))?;
        Ok(sized(listing.read(self.coordinator.hub(), rights.scope()).map_err(status::of_field)?))
    }

    type WatchPauseStateStream = tokio_stream::Empty<Result<v1::WatchPauseStateResponse, Status>>;

    async fn watch_pause_state(
        &self,
        _request: Request<v1::WatchPauseStateRequest>,
    ) -> Result<Response<Self::WatchPauseStateStream>, Status> {
        // `Elicitations` handles this call before it arrives here.
        Err(status::mixed_up())
    }

    type WatchStream = tokio_stream::Empty<Result<v1::WatchResponse, Status>>;

    async fn watch(
        &self,
        _request: Request<Streaming<v1::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // As above.
        Err(status::mixed_up())
    }
}
