//! A server that is stopping: it accepts connections, and refuses every call with UNAVAILABLE.
use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};
use tokio::net::TcpListener;
use tonic::{Status, body::Body, codegen::Service, codegen::http, server::NamedService, transport::Server};

#[derive(Clone)]
struct Refusals;

impl NamedService for Refusals {
    const NAME: &'static str = "pausewatch.v1.ElicitationService";
}

impl Service<http::Request<Body>> for Refusals {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        ready(Ok(Status::unavailable("the server is being stopped").into_http()))
    }
}

pub(crate) async fn serve(listener: TcpListener) {
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let _ = Server::builder().add_service(Refusals).serve_with_incoming(incoming).await;
}
