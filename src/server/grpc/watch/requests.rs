//! The requests of a `Watch`, decoded one at a time: the next one is decoded only when the previous one is answered.
use super::super::codec;
use crate::core::types::InvalidField;
use crate::proto::v1;
use crate::server::admission::{Arrival, ConnectionContext, HALF_REQUEST, Inbox, MemoryReservation};
use crate::server::status;
use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// The largest request: 1,000 ids of 256 bytes and a token, with their tags and lengths.
const MAX_REQUEST: usize = 288 << 10;

/// Requests that wait for the answers to earlier ones: all that a client can have to say at once, 10,000 ids of 256
/// bytes. An honest client may send it faster than it is answered.
const MAX_WAITING: usize = 3 << 20;

/// The flag and the length before a message.
const PREFIX: usize = 5;

/// Reads requests. Between two requests it holds no memory.
pub(super) struct Requests {
    /// `None`: the client has closed its side.
    body: Option<Inbox>,
    buffer: BytesMut,
    connection: Option<Arc<ConnectionContext>>,
    /// The reservation for an incomplete request.
    held: Option<MemoryReservation>,
    /// The timeout of an incomplete request. Between two requests the client may be silent for any time.
    arrival: Arrival,
}

impl Requests {
    pub(super) fn new(request: http::Request<Body>, connection: Option<Arc<ConnectionContext>>) -> Self {
        let body = Inbox::of(request.into_body(), MAX_WAITING, connection.clone());
        let (body, buffer, arrival) = (Some(body), BytesMut::new(), Arrival::default());
        Requests { body, buffer, connection, held: None, arrival }
    }

    /// The next request. Pending forever when the client sends no more.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<v1::WatchRequest, Status>> {
        loop {
            if let Some(message) = self.take_message()? {
                return Poll::Ready(codec::decode(message));
            }
            let Some(body) = &mut self.body else { return Poll::Pending };
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                if self.buffer.is_empty() {
                    return Poll::Pending;
                }
                return self.arrival.poll_late(cx).map(Err);
            };
            match frame {
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
        let size = self.buffer.capacity().max(HALF_REQUEST);
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
        self.arrival = Arrival::default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use prost::Message;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::time::{Instant, timeout};
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use tonic::Code;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn message(thread: &str) -> Vec<u8> {
        let request = v1::WatchRequest { add: vec![thread.into()], ..Default::default() }.encode_to_vec();
        [&[0], &u32::try_from(request.len()).expect("it is short").to_be_bytes()[..], &request].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn g7_half_a_request_is_not_kept_for_ever_but_the_client_may_be_silent_after_a_whole_one() {
        let (sender, frames) = mpsc::unbounded_channel::<Result<Frame<Bytes>, Status>>();
        let body = Body::new(StreamBody::new(UnboundedReceiverStream::new(frames)));
        let mut requests = Requests::new(http::Request::new(body), None);
        let send = |bytes: &[u8]| sender.send(Ok(Frame::data(bytes.to_vec().into()))).expect("it is read");
        let (first, second) = (message("a"), message("b"));
        // One and a half, in time.
        send(&first[..3]);
        timeout(Duration::from_secs(29), poll_fn(|cx| requests.poll_next(cx)))
            .await
            .expect_err("the rest is waited for");
        send(&[&first[3..], &second[..6]].concat());
        assert_eq!(poll_fn(|cx| requests.poll_next(cx)).await.expect("it is whole").add, ["a"]);
        timeout(Duration::from_secs(29), poll_fn(|cx| requests.poll_next(cx)))
            .await
            .expect_err("each has its own time");
        send(&second[6..]);
        assert_eq!(poll_fn(|cx| requests.poll_next(cx)).await.expect("it is whole").add, ["b"]);
        timeout(HOUR, poll_fn(|cx| requests.poll_next(cx))).await.expect_err("it may be silent");
        send(&first[..1]);
        let began = Instant::now();
        let late = timeout(HOUR, poll_fn(|cx| requests.poll_next(cx))).await.expect("half a request has an end");
        assert_eq!(late.expect_err("it is not whole").code(), Code::DeadlineExceeded);
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
