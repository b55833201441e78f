//! The form of a request: unary or a stream, JSON or bytes, the message in the body or in the query.
//!
//! Only the head determines it; the body is not read. See connectrpc.com/docs/protocol. Only the parts that our calls
//! need are supported: no compression and no streams of requests.
use super::json::Codec;
use super::methods::{Kind, Method};
use super::query;
use crate::core::types::InvalidField;
use crate::server::status;
use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request};
use std::time::Duration;
use tonic::Status;

const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const STREAM_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
const EVENTS: &str = "text/event-stream";

/// Whether a content type is gRPC, in any encoding.
pub(super) fn is_grpc(content_type: &HeaderValue) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    content_type.as_bytes().get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
}

/// How the client reads the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One message.
    Unary(Codec),
    /// Messages with prefixes.
    Stream(Codec),
    /// Server-sent events, in JSON.
    Events,
}

impl Form {
    /// The content type of the answer.
    pub(super) fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Form::Unary(Codec::Json) => "application/json",
            Form::Unary(Codec::Proto) => "application/proto",
            Form::Stream(Codec::Json) => "application/connect+json",
            Form::Stream(Codec::Proto) => "application/connect+proto",
            Form::Events => EVENTS,
        })
    }
}

/// A request that can be a call.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) form: Form,
    /// The encoding of the request.
    pub(super) codec: Codec,
    /// The message of a GET; `None`: it is in the body.
    pub(super) message: Option<Bytes>,
    /// Unknown fields are refused, because a person may have mistyped them.
    pub(super) is_strict: bool,
    pub(super) timeout: Option<Duration>,
}

/// A request that cannot be a call.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    /// Replaces the HTTP status of the gRPC status.
    pub(super) http: Option<StatusCode>,
    pub(super) header: Option<(HeaderName, &'static str)>,
    /// The form in which the client expects the refusal, if it is known.
    pub(super) form: Option<Form>,
}

/// Reads the head of a request. `method`: the method at its path.
pub(super) fn read(head: &request::Parts, method: Option<&Method>) -> Result<Asked, Refusal> {
    let is_get = head.method == http::Method::GET;
    let media_type = media_type(&head.headers);
    if head.method == http::Method::POST && media_type.is_none() {
        return Err(unsupported(method));
    }
    let Some(method) = method else { return Err(not_found()) };
    if method.kind == Kind::ClientStream {
        let status = Status::unimplemented("a call with a stream of requests is served by gRPC alone");
        return Err(of(status));
    }
    if !(is_get || head.method == http::Method::POST) {
        return Err(not_allowed(method, "this method is not used here"));
    }
    let is_stream = method.kind == Kind::ServerStream;
    let (form, codec) = match media_type {
        _ if is_get => {
            if !method.has_no_side_effects {
                return Err(not_allowed(method, "the call may change something"));
            }
            if is_stream && !accepts_events(&head.headers) {
                return Err(not_allowed(method, "a stream by GET needs the header accept: text/event-stream"));
            }
            (None, Codec::Json)
        }
        Some(Media::Unary(codec)) if !is_stream => (Some(Form::Unary(codec)), codec),
        Some(Media::Stream(codec)) if is_stream => (Some(Form::Stream(codec)), codec),
        Some(Media::Unary(Codec::Json)) if accepts_events(&head.headers) => (Some(Form::Events), Codec::Json),
        _ => return Err(unsupported(Some(method))),
    };
    let refused = |form| move |status| Refusal { form, ..of(status) };
    check_version(&head.headers).map_err(refused(form))?;
    check_encoding(&head.headers, form).map_err(refused(form))?;
    let timeout = timeout(&head.headers).map_err(refused(form))?;
    let is_of_client = head.headers.contains_key(VERSION);
    let Some(form) = form else {
        let query = query::read(head.uri.query().unwrap_or_default()).map_err(of)?;
        let Some(codec) = query.codec else { return Err(unknown_encoding()) };
        let form = if is_stream { Form::Events } else { Form::Unary(codec) };
        let is_strict = !(is_of_client || query.is_of_client);
        return Ok(Asked { form, codec, message: Some(query.message), is_strict, timeout });
    };
    Ok(Asked { form, codec, message: None, is_strict: !is_of_client, timeout })
}

#[derive(Clone, Copy)]
enum Media {
    Unary(Codec),
    Stream(Codec),
}

/// The content type, if Connect has it.
fn media_type(headers: &HeaderMap) -> Option<Media> {
    let value = only(headers, CONTENT_TYPE)?;
    let (media, parameters) = value.split_once(';').map_or((value, ""), |(media, rest)| (media, rest.trim()));
    let is_utf8 = ["", "charset=utf-8", "charset=\"utf-8\""].iter().any(|utf8| parameters.eq_ignore_ascii_case(utf8));
    match media.trim().to_ascii_lowercase().as_str() {
        _ if !is_utf8 => None,
        "application/json" => Some(Media::Unary(Codec::Json)),
        "application/proto" => Some(Media::Unary(Codec::Proto)),
        "application/connect+json" => Some(Media::Stream(Codec::Json)),
        "application/connect+proto" => Some(Media::Stream(Codec::Proto)),
        _ => None,
    }
}

/// The value of a header that occurs exactly once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let media = values.flat_map(|value| value.split(',')).map(|range| range.split(';').next().unwrap_or_default());
    media.map(str::trim).any(|media| media.eq_ignore_ascii_case(EVENTS))
}

fn check_version(headers: &HeaderMap) -> Result<(), Status> {
    match headers.get(VERSION) {
        Some(version) if version != "1" => Err(invalid(VERSION.as_str(), version, "1")),
        _ => Ok(()),
    }
}

fn check_encoding(headers: &HeaderMap, form: Option<Form>) -> Result<(), Status> {
    let name = if matches!(form, Some(Form::Stream(_))) { STREAM_ENCODING } else { CONTENT_ENCODING };
    match headers.get(&name) {
        Some(encoding) if encoding != "identity" => Err(Status::unimplemented(format!(
            "{name} {} is not supported: send the message uncompressed",
            shown(encoding)
        ))),
        _ => Ok(()),
    }
}

fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| (1..=10).contains(&text.len()));
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let timeout = digits.and_then(|text| text.parse().ok()).map(Duration::from_millis);
    timeout.map(Some).ok_or_else(|| invalid(TIMEOUT.as_str(), value, "milliseconds, of 1 to 10 digits"))
}

fn invalid(field: &str, value: &HeaderValue, allowed: &'static str) -> Status {
    status::of_field(InvalidField::new(field, shown(value), allowed))
}

/// The start of a value, in quotes.
fn shown(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    format!("{:?}", text.chars().take(40).collect::<String>())
}

/// For 405 and 415, which no code represents, the code is the one that Connect clients derive: unknown.
fn of(status: Status) -> Refusal {
    Refusal { status, http: None, header: None, form: None }
}

/// The path has no method that is served by Connect.
fn not_found() -> Refusal {
    let status = Status::unimplemented("there is nothing at this path");
    Refusal { http: Some(StatusCode::NOT_FOUND), ..of(status) }
}

/// The service is served by gRPC alone.
pub(super) fn grpc_alone() -> Refusal {
    let header = Some((ACCEPT_POST, "application/grpc"));
    let status = Status::unknown("content-type: expected application/grpc, this service is served by gRPC alone");
    Refusal { http: Some(StatusCode::UNSUPPORTED_MEDIA_TYPE), header, ..of(status) }
}

fn unsupported(method: Option<&Method>) -> Refusal {
    let accepted = match method.map(|method| method.kind) {
        Some(Kind::ServerStream) => {
            "application/connect+json, application/connect+proto, or application/json with accept: text/event-stream"
        }
        _ => "application/json, application/proto",
    };
    let header = Some((ACCEPT_POST, accepted));
    let status = Status::unknown(format!("content-type: expected {accepted}"));
    Refusal { http: Some(StatusCode::UNSUPPORTED_MEDIA_TYPE), header, ..of(status) }
}

fn unknown_encoding() -> Refusal {
    let status = Status::unknown("encoding: expected json or proto");
    Refusal { http: Some(StatusCode::UNSUPPORTED_MEDIA_TYPE), ..of(status) }
}

fn not_allowed(method: &Method, why: &str) -> Refusal {
    let allowed = if method.has_no_side_effects { "GET, POST" } else { "POST" };
    let status = Status::unknown(format!("{why}: use {allowed}"));
    Refusal { http: Some(StatusCode::METHOD_NOT_ALLOWED), header: Some((ALLOW, allowed)), ..of(status) }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
