//! The answer to a unary call: one message, or an error.
use super::envelope;
use super::error::{self, leave_out_grpc};
use super::json::{self, Codec};
use super::methods::{Method, Methods};
use super::protocol::Form;
use crate::server::admission::{ConnectionContext, Size};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Response};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tonic::body::Body;
use tonic::{Code, Status};

/// A larger message is converted to JSON on another thread, because it would block the worker for too long.
const LARGE: usize = 32 << 10;
/// The maximum of concurrent conversions in the process.
static WRITERS: Semaphore = Semaphore::const_new(2);

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
        Ok(message) if codec == Codec::Json && message.len() > LARGE => {
            // Its memory is not counted yet.
            let _held = connection.map(|connection| connection.hold(message.len()));
            write_large(method.clone(), message).await
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

async fn write_large(method: Arc<Method>, message: Bytes) -> Result<Bytes, Status> {
    let writer = WRITERS.acquire().await.map_err(|error| Status::internal(error.to_string()))?;
    let write = move || {
        let _writer = writer;
        json::response(&method, Codec::Json, message)
    };
    spawn_blocking(write).await.map_err(|error| Status::internal(format!("write the answer as JSON: {error}")))?
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
