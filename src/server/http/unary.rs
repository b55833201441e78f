//! The answer to a unary call: one message, or an error.
use super::envelope;
use super::error::{self, leave_out_grpc};
use super::json::{self, Codec};
use super::methods::{Method, Methods};
use super::protocol::Form;
use super::turns;
use crate::server::admission::{ConnectionContext, Size};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Response};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use tonic::body::Body;
use tonic::{Code, Status};

/// The answer of gRPC as the client reads it. `headers`: what gRPC says before the message.
pub(super) async fn answer(
    response: Response<Body>,
    methods: &Methods,
    method: &Arc<Method>,
    codec: Codec,
    connection: Option<&Arc<ConnectionContext>>,
) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let status = Status::from_header_map(&head.headers);
    leave_out_grpc(&mut head.headers);
    let message = match status {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => message(body, &mut head.headers).await,
    };
    let written = match message {
        Ok(message) if turns::needs_one(codec, message.len()) => {
            // Its memory is not counted yet.
            let _held = connection.map(|connection| connection.hold(message.len()));
            let method = method.clone();
            turns::convert(connection, move || json::response(&method, Codec::Json, message)).await
        }
        Ok(message) => json::response(method, codec, message),
        Err(status) => Err(status),
    };
    match written {
        Err(status) => error::response(methods, &status, head.headers),
        Ok(message) => {
            head.headers.insert(CONTENT_TYPE, Form::Unary(codec).media_type());
            head.extensions.insert(Size(message.len()));
            Response::from_parts(head, Body::new(Full::new(message)))
        }
    }
}

/// The message. Trailers become headers.
async fn message(body: Body, headers: &mut HeaderMap) -> Result<Bytes, Status> {
    let collected = body.collect().await?;
    let mut trailers = collected.trailers().cloned().unwrap_or_default();
    let status = Status::from_header_map(&trailers);
    leave_out_grpc(&mut trailers);
    for (name, value) in &trailers {
        if let Ok(name) = HeaderName::try_from(format!("trailer-{name}")) {
            headers.append(name, value.clone());
        }
    }
    match status {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => envelope::only(collected.to_bytes()),
    }
}
