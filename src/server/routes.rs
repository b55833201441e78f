//! The services, the layers in front of each, and the choice of the service for a request.
use super::admission::{Admission, MemoryLimit, ServiceContext, StreamLimit};
use super::content_type::GrpcOnly;
use super::grpc::{MAX_UNARY_REQUEST, MAX_WATCH_REQUEST};
use super::http::{self, Http, HttpContext, MaxRequest, Methods};
use super::reflection::{self, Reflection};
use super::services::{Serves, Services};
use crate::clock::Clock;
use crate::proto::DESCRIPTORS;
use crate::proto::v1::elicitation_service_server::SERVICE_NAME;
use crate::server::access::Access;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::ServiceExt;

/// The layers in front of each service.
pub(super) struct LayerStack {
    pub(super) context: Arc<ServiceContext>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) access: Option<Arc<Access>>,
    /// For Connect and the page; `None`: only gRPC is served.
    pub(super) http: Option<Arc<HttpContext>>,
    /// Ends streams when it is cancelled.
    pub(super) drain: CancellationToken,
}

/// A service behind its layers.
type Behind<S> = MemoryLimit<Http<Admission<S>>>;

impl LayerStack {
    /// The layers of the health service, which needs no token: probes have none.
    pub(super) fn before_health<S>(&self, service: S) -> Behind<GrpcOnly<StreamLimit<S>>> {
        let service = GrpcOnly(self.counted(service));
        MemoryLimit(self.http(self.admission(service).admit_without_token()).for_grpc_alone())
    }

    /// The layers of reflection.
    fn before_reflection<S>(&self, service: S) -> Behind<GrpcOnly<StreamLimit<S>>> {
        MemoryLimit(self.http(self.admission(GrpcOnly(self.counted(service)))).for_grpc_alone())
    }

    /// The layers of the page, which needs no token: it contains no secrets, and its calls use the token that a person
    /// enters.
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

/// All services except health. `elicitations` serves `ElicitationService`.
pub(super) fn services<S>(elicitations: S, guard: &LayerStack) -> Services
where
    S: Serves,
    S::Future: Unpin,
{
    // Reflection needs a token too, which tools send with their reflection requests.
    let reflection = guard.before_reflection(Reflection::service());
    let services = Services::all_by(guard.before(tower::service_fn(no_such_service)))
        .and(SERVICE_NAME, guard.before(elicitations))
        .and(reflection::V1, reflection.clone())
        .and(reflection::V1ALPHA, reflection.map_request(reflection::v1));
    let pages = guard.http.iter().flat_map(|_| http::paths());
    pages.fold(services, |services, path| services.and_at(path, guard.before_page(http::Page)))
}

fn no_such_service(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    ready(Ok(Status::unimplemented("the server has no such service").into_http()))
}

/// The methods that are also served by Connect.
pub(super) fn methods() -> Methods {
    let max_request = MaxRequest { unary: MAX_UNARY_REQUEST, stream: MAX_WATCH_REQUEST };
    // Includes the messages in the details of errors.
    Methods::new(&[DESCRIPTORS, tonic_types::pb::FILE_DESCRIPTOR_SET], max_request)
}
