//! The service of a replica: watches are served here, unary calls by the leader.
use super::super::grpc::Watches;
use super::forward::{Forwarder, Held};
use super::leading::Leading;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::{Service, http};

type Answer = Result<http::Response<Body>, Infallible>;

/// Serves `ElicitationService` on a replica, whether it leads or not.
#[derive(Clone)]
pub(crate) struct ReplicaService {
    leading: Leading,
    watches: Watches,
    forwarder: Forwarder,
}

impl ReplicaService {
    pub(crate) fn new(leading: Leading, watches: Watches, forwarder: Forwarder) -> Self {
        ReplicaService { leading, watches, forwarder }
    }
}

impl Service<http::Request<Body>> for ReplicaService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if let Some(watch) = self.watches.serve(&request) {
            return Box::pin(watch.serve(request));
        }
        let (leading, forwarder) = (self.leading.clone(), self.forwarder.clone());
        Box::pin(async move {
            let held = match Held::read(request).await {
                Ok(held) => held,
                Err(status) => return Ok(status.into_http()),
            };
            match leading.serving() {
                Some(serving) => serving.answer(held.into_request()).await,
                None => forwarder.answer(held, leading).await,
            }
        })
    }
}
