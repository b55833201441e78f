//! Errors in the format of Connect: `{"code": …, "message": …, "details": […]}`, with the matching HTTP status.
use super::methods::Methods;
use crate::escape::escaped_json;
use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::{Map, Value, json};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Headers of a gRPC answer that other protocols express differently.
const OF_GRPC: [&str; 6] =
    ["grpc-status", "grpc-message", "grpc-status-details-bin", "grpc-encoding", "grpc-accept-encoding", "content-type"];

/// The detail that contains the reason.
const REASON: &str = "/google.rpc.ErrorInfo";

/// The JSON of an error, escaped: it may quote the request, and must not change the terminal that shows it.
pub(super) fn written(error: &Value) -> String {
    escaped_json(&error.to_string()).into_owned()
}

/// The error of a failed call, as a Connect client reads it.
pub(super) fn body(methods: &Methods, status: &Status) -> Value {
    let mut error = json!({ "code": name(status.code()) });
    if !status.message().is_empty() {
        error["message"] = status.message().into();
    }
    let details = tonic_types::pb::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
    if !details.is_empty() {
        // The detail with the reason is the first.
        let (first, others): (Vec<_>, Vec<_>) = details.iter().partition(|any| any.type_url.ends_with(REASON));
        error["details"] = first.into_iter().chain(others).map(|any| detail(methods, any)).collect();
    }
    error
}

fn detail(methods: &Methods, any: &prost_types::Any) -> Value {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let mut detail = json!({ "type": name, "value": BASE64_STANDARD_NO_PAD.encode(&any.value) });
    // The decoded message, for people and for jq.
    if let Some(message) = methods.message(name)
        && let Ok(message) = DynamicMessage::decode(message, any.value.as_slice())
        && let Ok(debug) = serde_json::to_value(&message)
    {
        detail["debug"] = debug;
    }
    detail
}

/// The answer to a failed call. `headers`: the other headers of the answer.
pub(super) fn response(methods: &Methods, status: &Status, mut headers: HeaderMap) -> Response<Body> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(CONTENT_LENGTH);
    if status.code() == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(delay) = status.get_error_details().retry_info().and_then(|info| info.retry_delay) {
        let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, seconds.into());
    }
    let error = written(&body(methods, status));
    let mut response = Response::new(Body::new(Full::new(Bytes::from(error))));
    *response.status_mut() = http_status(status.code());
    *response.headers_mut() = headers;
    response
}

/// The last message of a stream.
pub(super) fn end_of_stream(methods: &Methods, status: Option<&Status>, trailers: &HeaderMap) -> Value {
    let mut end = json!({});
    if let Some(status) = status.filter(|status| status.code() != Code::Ok) {
        end["error"] = body(methods, status);
    }
    let mut metadata = Map::new();
    for (name, value) in trailers {
        let values = metadata.entry(name.as_str()).or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(String::from_utf8_lossy(value.as_bytes()).into());
        }
    }
    if !metadata.is_empty() {
        end["metadata"] = metadata.into();
    }
    end
}

/// The metadata of a status.
pub(super) fn metadata(status: &Status) -> HeaderMap {
    let mut headers = status.metadata().clone().into_headers();
    leave_out_grpc(&mut headers);
    headers
}

/// Removes the headers that only gRPC has.
pub(super) fn leave_out_grpc(headers: &mut HeaderMap) {
    OF_GRPC.iter().for_each(|name| _ = headers.remove(HeaderName::from_static(name)));
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Cancelled => "canceled",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
        Code::Ok | Code::Unknown => "unknown",
    }
}

fn http_status(code: Code) -> StatusCode {
    match code {
        // "Client closed request", which nobody reads.
        Code::Cancelled => StatusCode::from_u16(499).expect("three digits"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::tests::ours;
    use super::*;
    use crate::core::types::InvalidField;
    use crate::core::{Exceeded, Limit};
    use crate::server::status;
    use http_body_util::BodyExt;
    use std::time::Duration;

    #[test]
    fn an_error_has_its_reason_where_jq_finds_it() {
        let status = status::of_field(InvalidField::new("thread_id", "empty", "something"));
        let error = body(&ours(), &status);
        assert_eq!(error["code"], "invalid_argument");
        assert_eq!(error["message"], status.message());
        let info = &error["details"][0];
        assert_eq!(info["type"], "google.rpc.ErrorInfo");
        assert_eq!(info["debug"]["reason"], "INVALID_FIELD");
        assert_eq!(info["debug"]["domain"], "pausewatch");
        assert_eq!(info["debug"]["metadata"]["field"], "thread_id");
        let value = BASE64_STANDARD_NO_PAD.decode(info["value"].as_str().unwrap()).unwrap();
        assert_eq!(tonic_types::pb::ErrorInfo::decode(&value[..]).unwrap().reason, "INVALID_FIELD");
    }

    #[test]
    fn an_answer_says_when_to_try_again_and_how_to_authenticate() {
        let exceeded = Exceeded {
            limit: Limit::CallsPerSecond,
            was: 1,
            allowed: 1,
            caller: None,
            retry_after: Duration::from_millis(1_100),
        };
        let error = body(&ours(), &status::of_limit(exceeded.clone()));
        assert_eq!(error["details"][0]["debug"]["reason"], "LIMIT_EXCEEDED", "it is before the delay");
        let limited = response(&ours(), &status::of_limit(exceeded), HeaderMap::new());
        assert_eq!((limited.status().as_u16(), &limited.headers()[RETRY_AFTER]), (429, &HeaderValue::from(2_u64)));
        let unknown = response(&ours(), &Status::unauthenticated(""), HeaderMap::new());
        assert_eq!(unknown.status().as_u16(), 401);
        assert_eq!(unknown.headers()[WWW_AUTHENTICATE], "Bearer");
        assert!(!unknown.headers().contains_key("grpc-status"));
    }

    #[tokio::test]
    async fn an_error_moves_no_cursor_of_the_terminal_that_shows_it() {
        let status = status::of_field(InvalidField::new("thread_id", "a\u{9b}2J\u{202e}", "something"));
        let answer = response(&ours(), &status, HeaderMap::new()).into_body().collect().await.expect("it is whole");
        let event = super::super::events::error(&body(&ours(), &status));
        let end = super::super::stream::refused(&ours(), &status).slice(5..);
        for bytes in [answer.to_bytes(), event, end] {
            let text = String::from_utf8(bytes.to_vec()).expect("it is text");
            assert!(!text.contains(['\u{9b}', '\u{202e}']) && text.contains("a\\u009b2J\\u202e"), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_stream_has_its_error_and_trailers() {
        let mut trailers = HeaderMap::new();
        trailers.append("x", HeaderValue::from_static("1"));
        trailers.append("x", HeaderValue::from_static("2"));
        let end = end_of_stream(&ours(), Some(&Status::new(Code::Ok, "")), &trailers);
        assert_eq!(end, json!({ "metadata": { "x": ["1", "2"] } }));
        let end = end_of_stream(&ours(), Some(&status::draining()), &HeaderMap::new());
        assert_eq!(end["error"]["code"], "unavailable");
        assert_eq!(end_of_stream(&ours(), None, &HeaderMap::new()), json!({}));
    }
}
