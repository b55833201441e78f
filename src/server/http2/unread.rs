//! Counts the answers of a connection that the service has given and that are not on the wire.
//!
//! HTTP/2 does not tell a service the number of its stream, so both sides are counted: the streams whose answer is not
//! completely written, less the calls that the service still has. The rest is in h2.
use super::streams::Streams;
use crate::server::admission::{ConnectionContext, MemoryReservation};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::Response;

/// The size of an answer in h2, in bytes: its stream and the headers of a refusal with its details.
const ANSWER: usize = 2 << 10;
/// The answers are counted in steps, so that a connection that reads them does not lock the budget for each call.
const STEP: usize = 16;

/// The calls of a connection that the service has not finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveCalls(Arc<AtomicUsize>);

/// A call that the service has.
#[derive(Debug)]
pub(crate) struct LiveCall(LiveCalls);

impl LiveCalls {
    pub(crate) fn begin(&self) -> LiveCall {
        self.0.fetch_add(1, Relaxed);
        LiveCall(self.clone())
    }
}

impl Drop for LiveCall {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

impl LiveCall {
    /// The answer; the call ends with its body.
    pub(crate) fn until_end(self, answer: Response<Body>) -> Response<Body> {
        let has_body = !http_body::Body::is_end_stream(answer.body());
        if has_body { answer.map(|body| Body::new(Answer { body, _call: self })) } else { answer }
    }
}

struct Answer {
    body: Body,
    _call: LiveCall,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The unread answers of a connection, which count as its memory.
#[derive(Debug)]
pub(crate) struct Unread {
    connection: Option<Arc<ConnectionContext>>,
    live: LiveCalls,
    held: Option<MemoryReservation>,
    steps: usize,
}

impl Unread {
    /// Without a `connection`, nothing is counted.
    pub(crate) fn new(connection: Option<Arc<ConnectionContext>>, live: LiveCalls) -> Self {
        Unread { connection, live, held: None, steps: 0 }
    }

    /// Counts the unread answers, and returns their number.
    pub(super) fn count(&mut self, streams: &Streams) -> usize {
        let unread = streams.count().saturating_sub(self.live.0.load(Relaxed));
        let steps = unread / STEP;
        if steps != self.steps {
            self.steps = steps;
            let bytes = steps * STEP * ANSWER;
            match &mut self.held {
                Some(held) if bytes > 0 => held.resize(bytes),
                held => *held = self.connection.as_ref().filter(|_| bytes > 0).map(|connection| connection.hold(bytes)),
            }
        }
        unread
    }

    /// Whether the client reads nothing at present.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        if let Some(connection) = &self.connection {
            connection.set_stuck(is_stuck);
        }
    }
}
