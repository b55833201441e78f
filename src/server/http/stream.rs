//! The answer to a call with a stream: messages as they come, then how it ended.
//!
//! It is polled only when the connection can take more, like the gRPC stream that it converts, and holds at most one
//! part of that. So a client that does not read costs only the memory of its watched threads. Large parts count as
//! memory of their connection until they are sent.
use super::envelope::{self, END};
use super::error::{self, leave_out_grpc};
use super::events;
use super::json::{self, Codec};
use super::methods::{Method, Methods};
use super::pace;
use crate::server::admission::{ConnectionContext, counted};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as _, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep_until};
use tonic::body::Body;
use tonic::{Code, Status};

/// Parts of this size and less are not worth counting, as in gRPC's own streams.
const LARGE: usize = 2 << 10;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// With prefixes.
    Prefixed(Codec),
    /// As server-sent events.
    Events,
}

/// The body of the answer.
pub(super) struct Stream {
    /// `None`: the stream has ended.
    body: Option<Body>,
    framing: Framing,
    methods: Arc<Methods>,
    method: Arc<Method>,
    /// The start of a message.
    read: BytesMut,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Set while the stream has to wait (`pace.rs`).
    pause: Option<Pin<Box<Sleep>>>,
    connection: Option<Arc<ConnectionContext>>,
}

impl Stream {
    pub(super) fn new(
        body: Body,
        framing: Framing,
        (methods, method): (Arc<Methods>, Arc<Method>),
        deadline: Option<Pin<Box<Sleep>>>,
        connection: Option<Arc<ConnectionContext>>,
    ) -> Self {
        let (body, read, pause) = (Some(body), BytesMut::new(), pause_after(0));
        Stream { body, framing, methods, method, read, deadline, pause, connection }
    }

    /// The bytes to send for a part of the gRPC stream; empty: the part ends within a message.
    fn written(&mut self, data: Bytes) -> Result<Bytes, Status> {
        // Both protocols have the same prefixes.
        if self.framing == Framing::Prefixed(Codec::Proto) {
            return Ok(data);
        }
        self.read.extend_from_slice(&data);
        let mut written = BytesMut::new();
        while let Some(message) = envelope::take(&mut self.read) {
            let json = json::response(&self.method, Codec::Json, message)?;
            match self.framing {
                Framing::Prefixed(_) => envelope::append(&mut written, 0, &json),
                Framing::Events => events::append_message(&mut written, &json),
            }
        }
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
        self.pause = pause_after(written.len());
        let written = written.freeze();
        Ok(match &self.connection {
            Some(connection) if written.len() > LARGE => {
                let held = connection.hold(written.len());
                counted(written, held)
            }
            _ => written,
        })
    }

    /// The last part.
    fn end(&mut self, status: Option<&Status>, trailers: &HeaderMap) -> Bytes {
        (self.body, self.deadline, self.pause) = (None, None, None);
        end(&self.methods, self.framing, status, trailers)
    }

    fn end_with(&mut self, status: &Status) -> Bytes {
        self.end(Some(status), &error::metadata(status))
    }

    fn end_with_trailers(&mut self, mut trailers: HeaderMap) -> Bytes {
        let status = Status::from_header_map(&trailers);
        leave_out_grpc(&mut trailers);
        self.end(status.as_ref(), &trailers)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(self.end_with(&Status::deadline_exceeded("the time of the call is over"))));
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        Pin::new(body).poll_frame(cx).map(|frame| {
            Some(match frame {
                // A gRPC stream ends with trailers. One without them was cut off, and so is this.
                None => {
                    self.body = None;
                    return None;
                }
                Some(Err(status)) => self.end_with(&status),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.written(data).unwrap_or_else(|status| self.end_with(&status)),
                    Err(frame) => self.end_with_trailers(frame.into_trailers().unwrap_or_default()),
                },
            })
        })
    }
}

/// The wait of a stream that has written this many bytes; `None`: it need not wait.
fn pause_after(written: usize) -> Option<Pin<Box<Sleep>>> {
    pace::after(written).map(|until| Box::pin(sleep_until(until)))
}

/// The end of a stream. Server-sent events can only express an error.
fn end(methods: &Methods, framing: Framing, status: Option<&Status>, trailers: &HeaderMap) -> Bytes {
    match framing {
        Framing::Prefixed(_) => {
            envelope::write(END, error::written(&error::end_of_stream(methods, status, trailers)).as_bytes())
        }
        Framing::Events => match status.filter(|status| status.code() != Code::Ok) {
            Some(status) => events::error(&error::body(methods, status)),
            None => Bytes::new(),
        },
    }
}

/// A stream that has only an end.
pub(super) fn refused(methods: &Methods, status: &Status) -> Bytes {
    end(methods, Framing::Prefixed(Codec::Json), Some(status), &error::metadata(status))
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            match ready!(this.poll_part(cx)) {
                Some(part) if part.is_empty() => {}
                part => return Poll::Ready(part.map(|part| Ok(Frame::data(part)))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::tests::{method, ours};
    use super::*;
    use crate::proto::v1;
    use crate::server::status;
    use http_body_util::BodyExt;
    use prost::Message;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use v1::watch_pause_state_response::Event;

    fn stream(framing: Framing, parts: mpsc::UnboundedReceiver<Frame<Bytes>>) -> Stream {
        use tokio_stream::StreamExt;
        let parts = UnboundedReceiverStream::new(parts).map(Ok::<_, Status>);
        let body = Body::new(http_body_util::StreamBody::new(parts));
        Stream::new(body, framing, (ours().into(), method("WatchPauseState")), None, None)
    }

    fn heartbeat() -> Vec<u8> {
        let event = Some(Event::Heartbeat(v1::Heartbeat::default()));
        envelope::write(0, &v1::WatchPauseStateResponse { event }.encode_to_vec()).to_vec()
    }

    async fn sent(framing: Framing, parts: Vec<Frame<Bytes>>) -> Vec<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        parts.into_iter().for_each(|part| sender.send(part).unwrap());
        drop(sender);
        let mut stream = stream(framing, receiver);
        let mut sent = Vec::new();
        while let Some(frame) = stream.frame().await {
            sent.push(frame.unwrap().into_data().unwrap());
        }
        sent
    }

    fn draining() -> Frame<Bytes> {
        let mut trailers = HeaderMap::new();
        status::draining().add_header(&mut trailers).unwrap();
        Frame::trailers(trailers)
    }

    #[tokio::test]
    async fn messages_are_sent_as_they_come_in_whatever_parts() {
        let two = [heartbeat(), heartbeat()].concat();
        let parts = || vec![two.clone().into(), two[..7].to_vec().into(), two[7..].to_vec().into()];
        let parts = || parts().into_iter().map(Frame::data).collect();
        let json = envelope::write(0, br#"{"heartbeat":{}}"#);
        let both = [&json[..], &json].concat();
        assert_eq!(sent(Framing::Prefixed(Codec::Json), parts()).await, [&both[..], &both[..json.len()], &json]);
        let event = "data: {\"heartbeat\":{}}\n\n";
        assert_eq!(sent(Framing::Events, parts()).await, [&[event, event].concat(), event, event]);
        assert_eq!(sent(Framing::Prefixed(Codec::Proto), parts()).await.concat(), [&two[..], &two].concat());
    }

    #[tokio::test]
    async fn the_end_says_why() {
        for codec in [Codec::Json, Codec::Proto] {
            let sent = sent(Framing::Prefixed(codec), vec![draining()]).await;
            assert_eq!((sent.len(), sent[0][0]), (1, END));
            let end: serde_json::Value = serde_json::from_slice(&sent[0][5..]).unwrap();
            assert_eq!(end["error"]["code"], "unavailable");
        }
        let sent = sent(Framing::Events, vec![draining()]).await.concat();
        assert!(sent.starts_with(b"event: error\ndata: {\"code\":\"unavailable\""), "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_at_its_deadline() {
        let (_sender, receiver) = mpsc::unbounded_channel();
        let mut stream = stream(Framing::Events, receiver);
        stream.deadline = Some(Box::pin(tokio::time::sleep(std::time::Duration::from_secs(5))));
        let end = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(end.starts_with(b"event: error\ndata: {\"code\":\"deadline_exceeded\""), "{end:?}");
        assert!(stream.frame().await.is_none());
    }
}
