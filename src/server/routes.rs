//! The services, the layers before each of them, and which one serves a request.
use super::admission::{Admission, MemoryLimit, ServiceContext, StreamLimit};
use super::content_type::GrpcOnly;
use super::grpc::{MAX_UNARY_REQUEST, MAX_WATCH_REQUEST};
use super::http::{self, Http, HttpContext, MaxRequest, Methods};
use super::reflection::{self, Reflection};
use super::services::Services;
use crate::clock::Clock;
use crate::proto::DESCRIPTORS;
use crate::server::access::Access;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower::ServiceExt;

/// The layers before each service.
pub(super) struct LayerStack {
    pub(super) context: Arc<ServiceContext>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) access: Option<Arc<Access>>,
    /// The services besides gRPC; `None`: there are none.
    pub(super) http: Option<Arc<HttpContext>>,
    /// Ends streams when it is cancelled.
    pub(super) drain: CancellationToken,
}

/// A service behind its layers.
type Behind<S> = MemoryLimit<Http<Admission<S>>>;

impl LayerStack {
    /// Before that of the health, which is open to all: who probes a server has no token.
    pub(super) fn before_health<S>(&self, service: S) -> Behind<GrpcOnly<StreamLimit<S>>> {
        let service = GrpcOnly(self.counted(service));
        MemoryLimit(self.http(self.admission(service).admit_without_token()).for_grpc_alone())
    }

    /// Before reflection.
    fn before_reflection<S>(&self, service: S) -> Behind<GrpcOnly<StreamLimit<S>>> {
        MemoryLimit(self.http(self.admission(GrpcOnly(self.counted(service)))).for_grpc_alone())
    }

    /// Before the page, which has no secrets: those are behind the calls that it makes, with the token that is typed in.
    fn before_page<S>(&self, page: S) -> Behind<S> {
        MemoryLimit(self.http(self.admission(page).admit_without_token()))
    }

    fn before<S>(&self, service: S) -> Behind<GrpcOnly<S>> {
        MemoryLimit(self.http(self.admission(GrpcOnly(service))))
    }

    fn http<S>(&self, service: S) -> Http<S> {
        Http::new(service, self.http.clone())
    }

    fn admission<S>(&self, service: S) -> Admission<S> {
        Admission::new(service, self.context.clone(), self.clock.clone(), self.access.clone())
    }

    fn counted<S>(&self, service: S) -> StreamLimit<S> {
        StreamLimit::new(service, self.context.clone(), self.clock.clone(), self.drain.clone())
    }
}

/// All that is served but health, which a listening server has. `elicitations` serves `ElicitationService`.
pub(super) fn services<S>(elicitations: S, guard: &LayerStack) -> Services
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + Unpin + 'static>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
{
    // Reflection needs a token as well, which tools send with their queries for descriptors.
    let reflection = guard.before_reflection(Reflection::service());
    let services = Services::all_by(guard.before(tower::service_fn(no_such_service)))
        .and(guard.before(elicitations))
        .and(reflection.clone())
        .and_named(reflection::V1ALPHA, reflection.map_request(reflection::v1));
    let pages = guard.http.iter().flat_map(|_| http::paths());
    pages.fold(services, |services, path| services.and_at(path, guard.before_page(http::Page)))
}

fn no_such_service(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Status::unimplemented("the server has no such service").into_http()))
}

/// The methods that are served by Connect too.
pub(super) fn methods() -> Methods {
    let max_request = MaxRequest { unary: MAX_UNARY_REQUEST, stream: MAX_WATCH_REQUEST };
    // With what is in the details of errors.
    Methods::new(&[DESCRIPTORS, tonic_types::pb::FILE_DESCRIPTOR_SET], max_request)
}
