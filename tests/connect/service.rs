//! `connectrpc.conformance.v1.ConformanceService` over gRPC: it answers as the request demands, and describes the
//! request that it received.
use super::messages::{any, append_headers, delay, field, header, inner, new, status};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::{Code, Status};
use tower::Service;

type Frames = mpsc::UnboundedSender<Result<Frame<Bytes>, Status>>;

/// The service.
#[derive(Clone)]
pub(crate) struct Conformance(DescriptorPool);

impl Conformance {
    pub(crate) fn new(pool: DescriptorPool) -> Self {
        Conformance(pool)
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (head, body) = request.into_parts();
        let name = head.uri.path().rsplit('/').next().unwrap_or_default();
        let service = self.0.get_service_by_name("connectrpc.conformance.v1.ConformanceService").expect("its protos");
        let method = service.methods().find(|method| method.name() == name);
        let method = method.ok_or_else(|| Status::unimplemented("there is no such method"))?;
        let mut body = body.collect().await?.to_bytes();
        body.advance(5);
        let request =
            DynamicMessage::decode(method.input(), body).map_err(|error| Status::internal(error.to_string()))?;
        if name == "Unimplemented" {
            return Err(Status::unimplemented("the suite wants it so"));
        }
        let info = self.info(&head.headers, head.uri.query(), &request);
        let (sender, frames) = mpsc::unbounded_channel();
        let mut response = Response::new(Body::new(StreamBody::new(UnboundedReceiverStream::new(frames))));
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        let definition = inner(&request, "response_definition");
        if let Some(definition) = &definition {
            append_headers(response.headers_mut(), definition, "response_headers");
        }
        let answer = Answer { pool: self.0.clone(), output: method.output(), info, definition };
        match method.is_server_streaming() {
            true => _ = tokio::spawn(answer.stream(sender)),
            false => answer.unary(&sender).await,
        }
        Ok(response)
    }

    /// A description of the request.
    fn info(&self, headers: &HeaderMap, query: Option<&str>, request: &DynamicMessage) -> DynamicMessage {
        let mut info = new(&self.0, "ConformancePayload.RequestInfo");
        let seen = headers.keys().map(|name| {
            let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
            header(&self.0, name.as_str(), values)
        });
        info.set_field_by_name("request_headers", Value::List(seen.collect()));
        let timeout = headers.get("connect-timeout-ms").and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(timeout) = timeout {
            info.set_field_by_name("timeout_ms", Value::I64(timeout));
        }
        let mut of_request = DynamicMessage::new(self.0.get_message_by_name("google.protobuf.Any").expect("imported"));
        of_request.transcode_from(&any(request)).expect("the same message");
        info.set_field_by_name("requests", Value::List(vec![Value::Message(of_request)]));
        // Only a GET has a query.
        if let Some(query) = query {
            let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let parameters = pairs.map(|(name, value)| header(&self.0, name, [decoded(value).as_str()].into_iter()));
            let mut get = new(&self.0, "ConformancePayload.ConnectGetInfo");
            get.set_field_by_name("query_params", Value::List(parameters.collect()));
            info.set_field_by_name("connect_get_info", Value::Message(get));
        }
        info
    }
}

/// An answer.
struct Answer {
    pool: DescriptorPool,
    output: MessageDescriptor,
    info: DynamicMessage,
    definition: Option<DynamicMessage>,
}

impl Answer {
    async fn unary(self, frames: &Frames) {
        let Some(definition) = &self.definition else {
            _ = frames.send(self.message(Bytes::new(), true));
            return end(frames, None, HeaderMap::new());
        };
        tokio::time::sleep(delay(definition)).await;
        let mut trailers = HeaderMap::new();
        append_headers(&mut trailers, definition, "response_trailers");
        let error = inner(definition, "error");
        if error.is_none() {
            let data = field(definition, "response_data").as_bytes().cloned().unwrap_or_default();
            _ = frames.send(self.message(data, true));
        }
        end(frames, error.map(|error| status(&error, Some(any(&self.info)))), trailers);
    }

    async fn stream(self, frames: Frames) {
        let Some(definition) = &self.definition else { return end(&frames, None, HeaderMap::new()) };
        let data = field(definition, "response_data");
        let data = data.as_list().expect("a list");
        for (number, data) in data.iter().enumerate() {
            let wait: Duration = delay(definition);
            tokio::time::sleep(wait).await;
            let data = data.as_bytes().cloned().expect("bytes");
            if frames.send(self.message(data, number == 0)).is_err() {
                return;
            }
        }
        let mut trailers = HeaderMap::new();
        append_headers(&mut trailers, definition, "response_trailers");
        let info = data.is_empty().then(|| any(&self.info));
        end(&frames, inner(definition, "error").map(|error| status(&error, info)), trailers);
    }

    /// A message with its prefix.
    fn message(&self, data: Bytes, has_info: bool) -> Result<Frame<Bytes>, Status> {
        let mut payload = new(&self.pool, "ConformancePayload");
        payload.set_field_by_name("data", Value::Bytes(data));
        if has_info {
            payload.set_field_by_name("request_info", Value::Message(self.info.clone()));
        }
        let mut message = DynamicMessage::new(self.output.clone());
        message.set_field_by_name("payload", Value::Message(payload));
        let message = message.encode_to_vec();
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).expect("it is short"));
        framed.put_slice(&message);
        Ok(Frame::data(framed.freeze()))
    }
}

/// The last frame.
fn end(frames: &Frames, error: Option<Status>, mut trailers: HeaderMap) {
    let status = error.unwrap_or_else(|| Status::new(Code::Ok, ""));
    status.add_header(&mut trailers).expect("the suite has valid texts");
    _ = frames.send(Ok(Frame::trailers(trailers)));
}

impl Service<Request<Body>> for Conformance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await.unwrap_or_else(Status::into_http)) })
    }
}
