//! The body of a request, converted to gRPC. It is read only when the service polls it, so a caller without permission
//! is refused first. `MemoryLimit` limits the time of its arrival.
use super::envelope::{self, PREFIX};
use super::json::{self, Codec};
use super::methods::Method;
use super::protocol::{Asked, Form};
use super::turns;
use crate::server::admission::ConnectionContext;
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;

/// The message of a request, which is converted to gRPC.
pub(super) struct Request {
    /// `None`: it was read.
    body: Option<Body>,
    read: BytesMut,
    method: Arc<Method>,
    codec: Codec,
    has_prefix: bool,
    is_strict: bool,
    max: usize,
    connection: Option<Arc<ConnectionContext>>,
    /// A large message that is being converted, when it is the caller's turn.
    converting: Option<Converting>,
}

type Converting = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

impl Request {
    pub(super) fn new(
        asked: &Asked,
        method: Arc<Method>,
        body: Body,
        connection: Option<Arc<ConnectionContext>>,
    ) -> Self {
        let has_prefix = matches!(asked.form, Form::Stream(_));
        let max = method.max_request + if has_prefix { PREFIX } else { 0 };
        let (codec, is_strict) = (asked.codec, asked.is_strict);
        // A message in the query needs no reading.
        let body = match &asked.message {
            Some(message) => Body::new(http_body_util::Full::new(message.clone())),
            None => body,
        };
        let (read, converting) = (BytesMut::new(), None);
        Request { body: Some(body), read, method, codec, has_prefix, is_strict, max, connection, converting }
    }

    fn append(&mut self, data: &[u8]) -> Result<(), Status> {
        if self.read.len() + data.len() > self.max {
            return Err(too_large(self.max));
        }
        self.read.extend_from_slice(data);
        Ok(())
    }

    /// The message; `None`: it is being converted.
    fn message(&mut self) -> Option<Result<Bytes, Status>> {
        let bytes = std::mem::take(&mut self.read).freeze();
        let message = match self.has_prefix {
            true => envelope::only(bytes),
            false => Ok(bytes),
        };
        let message = match message {
            Ok(message) => message,
            Err(status) => return Some(Err(status)),
        };
        let (method, codec, is_strict) = (self.method.clone(), self.codec, self.is_strict);
        if !turns::needs_one(codec, message.len()) {
            return Some(json::request(&method, codec, &message, is_strict));
        }
        let connection = self.connection.clone();
        self.converting = Some(Box::pin(async move {
            let convert = move || json::request(&method, codec, &message, is_strict);
            turns::convert(connection.as_ref(), convert).await
        }));
        None
    }

    /// Reads a part; `None`: there is more to come.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        if let Some(converting) = &mut self.converting {
            return converting.as_mut().poll(cx).map(Some);
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        // If the announced length is too large, nothing is read.
        if http_body::Body::size_hint(body).lower() > self.max as u64 {
            return Poll::Ready(Some(Err(too_large(self.max))));
        }
        Poll::Ready(match ready!(Pin::new(body).poll_frame(cx)) {
            None => self.message(),
            Some(Err(status)) => Some(Err(status)),
            Some(Ok(frame)) => self.append(frame.data_ref().map_or(&[][..], |data| &data[..])).err().map(Err),
        })
    }
}

impl http_body::Body for Request {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        while this.body.is_some() {
            if let Some(message) = ready!(this.poll_part(cx)) {
                (this.body, this.converting) = (None, None);
                return Poll::Ready(Some(message.map(Frame::data)));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }
}

fn too_large(max: usize) -> Status {
    Status::resource_exhausted(format!("the request is too large: at most {max} bytes are read"))
}
