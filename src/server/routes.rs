//! The services, and the layers before each of them.
use super::admission::{Admission, MemoryLimit, ServiceContext, StreamLimit};
use super::content_type::GrpcOnly;
use super::grpc::Elicitations;
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::proto::DESCRIPTORS;
use crate::server::access::Access;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::service::Routes;
use tower::ServiceExt;

/// The layers before each service.
pub(super) struct LayerStack {
    pub(super) context: Arc<ServiceContext>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) access: Option<Arc<Access>>,
    /// Ends streams when it is cancelled.
    pub(super) drain: CancellationToken,
}

impl LayerStack {
    /// Before that of the health, which is open to all: who probes a server has no token.
    pub(super) fn before_health<S>(&self, service: S) -> MemoryLimit<Admission<GrpcOnly<StreamLimit<S>>>> {
        MemoryLimit(self.admission(self.counted(service)).admit_without_token())
    }

    fn before<S>(&self, service: S) -> MemoryLimit<Admission<GrpcOnly<S>>> {
        MemoryLimit(self.admission(service))
    }

    fn admission<S>(&self, service: S) -> Admission<GrpcOnly<S>> {
        Admission::new(GrpcOnly(service), self.context.clone(), self.clock.clone(), self.access.clone())
    }

    fn counted<S>(&self, service: S) -> StreamLimit<S> {
        StreamLimit::new(service, self.context.clone(), self.clock.clone(), self.drain.clone())
    }
}

/// All that is served but health, which a listening server has.
pub(super) fn routes(coordinator: &Arc<Coordinator>, guard: &LayerStack) -> Routes {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Lets grpcurl show the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let LayerStack { context, clock, access, .. } = guard;
    let elicitations = Elicitations::new(coordinator.clone(), clock.clone(), context.clone(), access.clone());
    // Reflection needs a token as well, which tools send with their queries for descriptors.
    let v1 = guard.counted(reflection().build_v1().expect("our descriptors are valid"));
    let v1alpha = guard.counted(reflection().build_v1alpha().expect("our descriptors are valid"));
    let mut routes =
        Routes::new(guard.before(elicitations)).add_service(guard.before(v1)).add_service(guard.before(v1alpha));
    let rest = guard.before(tower::service_fn(no_such_service));
    let router = routes.axum_router_mut();
    *router =
        std::mem::take(router).fallback_service(rest.map_request(|request: http::Request<_>| request.map(Body::new)));
    routes
}

fn no_such_service(_: http::Request<Body>) -> Ready<Result<http::Response<Body>, Infallible>> {
    ready(Ok(Status::unimplemented("the server has no such service").into_http()))
}
