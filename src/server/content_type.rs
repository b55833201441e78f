//! Refuses requests that are not gRPC in its own encoding, before anything of them is read: 415, as the protocol of gRPC over
//! HTTP/2 says. The generated code looks at no content type, so that a `text/plain` that happens to decode would count.
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// Lets gRPC through to `S`.
#[derive(Clone)]
pub(super) struct GrpcOnly<S>(pub(super) S);

impl<S: NamedService> NamedService for GrpcOnly<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for GrpcOnly<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Unpin>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Response<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match is_grpc(request.headers().get(http::header::CONTENT_TYPE)) {
            true => Response::Of(self.0.call(request)),
            false => Response::Refused,
        }
    }
}

/// A response of the service, or the refusal.
pub(super) enum Response<F> {
    Of(F),
    Refused,
}

impl<F> Future for Response<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.get_mut() {
            Response::Of(response) => Pin::new(response).poll(cx),
            Response::Refused => {
                let status = Status::invalid_argument("content-type: expected application/grpc, this port speaks gRPC");
                let mut response = status.into_http();
                *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Poll::Ready(Ok(response))
            }
        }
    }
}

/// `application/grpc` and `application/grpc+proto`, with parameters or without.
fn is_grpc(content_type: Option<&http::HeaderValue>) -> bool {
    let media_type = content_type.map(|value| value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default());
    let media_type = media_type.unwrap_or_default().trim_ascii_end();
    [&b"application/grpc"[..], b"application/grpc+proto"].iter().any(|grpc| media_type.eq_ignore_ascii_case(grpc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grpc_with_protobuf_is_let_through() {
        let is_grpc = |text: &'static str| is_grpc(Some(&http::HeaderValue::from_static(text)));
        for taken in ["application/grpc", "application/grpc+proto", "Application/gRPC", "application/grpc ;x=y"] {
            assert!(is_grpc(taken), "{taken}");
        }
        for refused in [
            "",
            "text/plain",
            "application/grpc-web+proto",
            "application/grpc+json",
            "application/grpcx",
            "application/json",
        ] {
            assert!(!is_grpc(refused), "{refused}");
        }
        assert!(!super::is_grpc(None));
    }
}
