//! Refuses requests that are not gRPC with protobuf messages, before reading their body: 405 and 415, as the protocol
//! of gRPC over HTTP/2 requires. The generated code checks neither method nor content type, so it would accept a GET,
//! and a `text/plain` that happens to decode.
use super::status;
use crate::core::types::InvalidField;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Status};

/// Passes gRPC requests on to `S`.
#[derive(Clone)]
pub(super) struct GrpcOnly<S>(pub(super) S);

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
        if !is_grpc(request.headers().get(http::header::CONTENT_TYPE)) {
            let refused = request.extensions().get::<RefusedAs>().map_or(Code::InvalidArgument, |refused| refused.0);
            return Response::NotGrpc(refused);
        }
        if *request.method() != http::Method::POST {
            return Response::NotPost;
        }
        match unsupported_encoding(&request) {
            Some(refused) => Response::Compressed(refused),
            None => Response::Of(self.0.call(request)),
        }
    }
}

/// An extension of a request that is not gRPC: the code of its refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedAs(pub(super) Code);

/// Why the messages of the request cannot be read. The generated code would quote the whole header.
fn unsupported_encoding(request: &http::Request<Body>) -> Option<Status> {
    let encoding = request.headers().get("grpc-encoding").filter(|encoding| *encoding != "identity")?;
    let encoding = status::quoted(&String::from_utf8_lossy(encoding.as_bytes()));
    Some(Status::unimplemented(format!("grpc-encoding {encoding} is not supported: send the message uncompressed")))
}

/// The answer to a compressed request, with what the server accepts, as the protocol requires.
fn compressed(status: &Status) -> http::Response<Body> {
    let mut response = status.clone().into_http();
    response.headers_mut().insert("grpc-accept-encoding", http::HeaderValue::from_static("identity"));
    response
}

/// A response of the service, or the refusal.
pub(super) enum Response<F> {
    Of(F),
    NotGrpc(Code),
    NotPost,
    Compressed(Status),
}

impl<F> Future for Response<F>
where
    F: Future<Output = Result<http::Response<Body>, Infallible>> + Unpin,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.get_mut() {
            Response::Of(response) => {
                let response = ready!(Pin::new(response).poll(cx))?;
                let status = of_unreadable(response.headers());
                Poll::Ready(Ok(status.map_or(response, Status::into_http)))
            }
            Response::NotGrpc(code) => {
                let status = Status::new(*code, "content-type: expected application/grpc, this port speaks gRPC");
                let mut response = status.into_http();
                *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Poll::Ready(Ok(response))
            }
            Response::Compressed(status) => Poll::Ready(Ok(compressed(status))),
            Response::NotPost => {
                let mut response = Status::invalid_argument("method: expected POST, as gRPC has it").into_http();
                *response.status_mut() = http::StatusCode::METHOD_NOT_ALLOWED;
                response.headers_mut().insert(http::header::ALLOW, http::HeaderValue::from_static("POST"));
                Poll::Ready(Ok(response))
            }
        }
    }
}

/// The status for a body that is not a gRPC message. tonic reports it as an internal error, and every such client would
/// alert the operators of the server.
fn of_unreadable(headers: &http::HeaderMap) -> Option<Status> {
    headers.get(Status::GRPC_STATUS).filter(|code| *code == "13")?;
    let status = Status::from_header_map(headers)?;
    let compressed = "protocol error: received message with compressed-flag";
    let malformed =
        ["Missing request message", "Unexpected EOF decoding", "protocol error: received message with invalid"];
    match status.message() {
        said if said.starts_with(compressed) => {
            Some(Status::unimplemented("a compressed message is not supported: send it uncompressed"))
        }
        said if malformed.iter().any(|start| said.starts_with(start)) => {
            let was = said.split_once(" (valid").map_or(said, |(start, _)| start);
            let allowed = "one whole message with the prefix of gRPC";
            Some(super::status::of_field(InvalidField::new("request", was, allowed)))
        }
        _ => None,
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
