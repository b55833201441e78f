//! Answers that are not gRPC: from a proxy in front of the coordinator, or from another program at its address.
//!
//! Without this, tonic would read the text of a web page as a message, and report an error of the server. The codes are
//! those of gRPC's mapping from HTTP (grpc/doc/http-grpc-status-mapping.md), with or without a text behind the headers.
use tonic::body::Body;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{Response, StatusCode};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::util::MapResponse;

/// The beginning of the message of an answer that no coordinator sends, and no proxy in front of one that is down.
pub(crate) const NO_COORDINATOR: &str = "no coordinator here";
/// The maximum of quoted text of a content type, in characters.
const MAX_TYPE: usize = 60;

/// A channel whose answers are gRPC.
pub(super) type GrpcChannel = MapResponse<Channel, fn(Response<Body>) -> Response<Body>>;

pub(super) fn checked(channel: Channel) -> GrpcChannel {
    MapResponse::new(channel, into_grpc)
}

/// An answer without gRPC's content type and status becomes an error of gRPC.
fn into_grpc(answer: Response<Body>) -> Response<Body> {
    let headers = answer.headers();
    let content_type = headers.get(CONTENT_TYPE).map(|of| String::from_utf8_lossy(of.as_bytes()).into_owned());
    let is_grpc = content_type.as_ref().is_some_and(|of| of.starts_with("application/grpc"));
    if is_grpc || headers.contains_key(Status::GRPC_STATUS) {
        return answer;
    }
    status(answer.status(), content_type.as_deref()).into_http()
}

fn status(http: StatusCode, content_type: Option<&str>) -> Status {
    let said = match content_type {
        None => format!("HTTP status {http}"),
        Some(of) => {
            let shown: String = of.chars().filter(char::is_ascii_graphic).take(MAX_TYPE).collect();
            format!("HTTP status {http} with content of type {shown}")
        }
    };
    let code = match http.as_u16() {
        429 | 502 | 503 | 504 => {
            return Status::unavailable(format!("a proxy answered instead of the coordinator: {said}"));
        }
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        _ => Code::Unknown,
    };
    Status::new(code, format!("{NO_COORDINATOR}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Error;

    fn error(http: u16, content_type: Option<&str>, grpc_status: Option<&str>) -> Option<Error> {
        let mut answer = Response::builder().status(http);
        answer = content_type.into_iter().fold(answer, |answer, of| answer.header(CONTENT_TYPE, of));
        answer = grpc_status.into_iter().fold(answer, |answer, code| answer.header("grpc-status", code));
        let answer = into_grpc(answer.body(Body::empty()).unwrap());
        Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok).map(Error::from)
    }

    #[test]
    fn a_page_of_a_proxy_in_front_of_a_coordinator_that_is_down_is_retried() {
        for http in [429, 502, 503, 504] {
            for content_type in [Some("text/html"), Some("text/html; charset=utf-8"), Some("application/json"), None] {
                let error = error(http, content_type, None).unwrap();
                assert!(matches!(error, Error::Unavailable(_)) && error.is_transient(), "{error:?}");
                assert!(error.to_string().contains(&http.to_string()), "{error}");
            }
        }
    }

    #[test]
    fn any_other_answer_that_is_not_grpc_is_from_no_coordinator() {
        for (http, content_type, code) in [
            (200, Some("text/html"), Code::Unknown),
            (200, None, Code::Unknown),
            (301, Some("text/html"), Code::Unknown),
            (302, None, Code::Unknown),
            (400, Some("text/plain"), Code::Internal),
            (401, Some("text/html"), Code::Unauthenticated),
            (403, Some("text/html"), Code::PermissionDenied),
            (404, Some("text/plain"), Code::Unimplemented),
            (500, Some("text/html"), Code::Unknown),
        ] {
            let error = error(http, content_type, None).unwrap();
            assert_eq!(error.code(), code, "{http}");
            assert!(error.to_string().starts_with(NO_COORDINATOR) && !error.is_transient(), "{error}");
        }
    }

    #[test]
    fn an_answer_of_grpc_is_what_it_says() {
        assert!(error(200, Some("application/grpc"), None).is_none());
        assert!(error(200, Some("application/grpc+proto"), Some("0")).is_none());
        let refused = error(200, None, Some("14")).unwrap();
        assert!(matches!(&refused, Error::Unavailable(status) if status.message().is_empty()), "{refused:?}");
    }
}
