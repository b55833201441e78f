//! Serves any gRPC service as the server serves its own, also by Connect: for the conformance suite of Connect, which
//! has its own service, and for tests without a network.
use super::admission::{ConnectionLimiter, MemoryLimit, ServiceContext};
use super::connection::Serving;
use super::content_type::GrpcOnly;
use super::http::{Browsers, Http, HttpContext, MaxRequest, Methods};
use super::services::Services;
use super::worker::{Work, Worker};
use crate::clock::System;
use crate::coordinator::quota::CallerKey;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::Service;

/// `service` by gRPC and by Connect. Its methods are those of `descriptors`, an encoded `FileDescriptorSet`; a message of a
/// request has at most `max_request` bytes.
pub fn with_connect<S>(
    service: S,
    descriptors: Vec<u8>,
    max_request: usize,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Unpin + Send + 'static>,
    S: Clone + Send + Sync + 'static,
{
    let max_request = MaxRequest { unary: max_request, stream: max_request };
    let methods = move || Methods::new(&[&descriptors], max_request);
    let http = Some(Arc::new(HttpContext::new(methods, Browsers::default())));
    MemoryLimit(Http::new(GrpcOnly(service), http))
}

/// Serves `service` forever, as [`with_connect`] says.
///
/// # Errors
/// No connection can be accepted.
pub async fn serve_service<S>(
    listener: TcpListener,
    service: S,
    descriptors: Vec<u8>,
    max_request: usize,
) -> io::Result<()>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Unpin + Send + 'static>,
    S: Clone + Send + Sync + 'static,
{
    let service = with_connect(service, descriptors, max_request);
    let services = Arc::new(Services::all_by(service));
    let worker =
        Worker::here(Work { serving: Serving { services, http: true, drain: CancellationToken::new() }, tls: None });
    let limiter = ConnectionLimiter::new(Arc::<ServiceContext>::default(), Arc::new(System::new()));
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        worker.entrance().tcp(stream.into_std()?, limiter.enter(CallerKey::peer(peer.ip()))).await;
    }
}
