//! The requests of a `Watch`, read one at a time: the next one stays in the client until the one before is answered.
use super::super::codec;
use super::stream::check_encoding;
use crate::core::types::InvalidField;
use crate::proto::v1;
use crate::server::admission::{ConnectionContext, MemoryReservation};
use crate::server::status;
use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// The largest request: 1,000 ids of 256 bytes and a token, with their tags and lengths.
const MAX_REQUEST: usize = 288 << 10;

/// The flag and the length before a message.
const PREFIX: usize = 5;

/// Reads requests. Between two requests it holds no memory.
pub(super) struct Requests {
    /// `None`: the client sends no more.
    body: Option<Body>,
    buffer: BytesMut,
    connection: Option<Arc<ConnectionContext>>,
    /// For an incomplete request.
    held: Option<MemoryReservation>,
}

impl Requests {
    pub(super) fn new(
        request: http::Request<Body>,
        connection: Option<Arc<ConnectionContext>>,
    ) -> Result<Self, Status> {
        check_encoding(&request)?;
        Ok(Requests { body: Some(request.into_body()), buffer: BytesMut::new(), connection, held: None })
    }

    /// The next request. It is pending forever when the client sends no more.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<v1::WatchRequest, Status>> {
        loop {
            if let Some(message) = self.take_message()? {
                return Poll::Ready(codec::decode(message));
            }
            let Some(body) = &mut self.body else { return Poll::Pending };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.append(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    self.body = None;
                    if !self.buffer.is_empty() {
                        let was = format!("cut off after {} bytes", self.buffer.len());
                        return Poll::Ready(Err(invalid(was)));
                    }
                }
            }
        }
    }

    fn append(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
        let size = self.buffer.capacity();
        self.held =
            self.connection.as_ref().filter(|_| !self.buffer.is_empty()).map(|connection| connection.hold(size));
    }

    /// Takes a complete message from the buffer.
    fn take_message(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((&[flag, a, b, c, d], rest)) = self.buffer.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if flag != 0 {
            return Err(Status::unimplemented("a compressed message is not supported: send it uncompressed"));
        }
        if length > MAX_REQUEST {
            return Err(invalid(format!("{length} bytes long")));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let message = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // Frees the memory as soon as the message is decoded.
            (self.buffer, self.held) = (BytesMut::new(), None);
        }
        Ok(Some(message))
    }
}

fn invalid(was: String) -> Status {
    status::of_field(InvalidField::new("request", was, "a message of at most 294,912 bytes"))
}
