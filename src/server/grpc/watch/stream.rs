//! The common part of both kinds of watches: a subscription, its end, and its accounting.
use super::super::frame::{BatchSize, Show};
use super::super::wire::ReadContext;
use super::confirmed::Confirmed;
use crate::clock::Clock;
use crate::coordinator::hub::{Hub, Subscription};
use crate::coordinator::metrics::Rpc;
use crate::coordinator::quota::StreamPermit;
use crate::server::access::{Access, Denial};
use crate::server::admission::{ConnectionContext, MemoryReservation, Rights, ServiceContext, counted};
use crate::server::status;
use bytes::Bytes;
use http_body::Frame;
use std::borrow::Borrow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codegen::http;
use tonic::{Code, Status};

/// States that are larger than this (in bytes) count as memory of their connection until they are sent, and ids until
/// their request is answered.
const LARGE: usize = 2 << 10;

/// The overhead of messages that HTTP/2 has not sent, in bytes.
const UNSENT: usize = 512;

/// Counts these ids as memory of the connection, if they are large.
pub(super) fn hold_ids<'a, I: Borrow<str> + 'a>(
    connection: Option<&Arc<ConnectionContext>>,
    ids: impl Iterator<Item = &'a I>,
) -> Option<MemoryReservation> {
    let size = ids.map(|id| size_of::<I>() + id.borrow().len()).sum();
    connection.filter(|_| size > LARGE).map(|connection| connection.hold(size))
}

/// Completes when the caller loses its permission for the watch.
pub(super) type End = Pin<Box<dyn Future<Output = Denial> + Send>>;

pub(super) fn end_of(access: Option<&Arc<Access>>, rights: &Rights) -> Option<End> {
    let (access, caller) = access.cloned().zip(rights.caller())?;
    Some(Box::pin(access.end_of(caller)))
}

/// The messages of a stream. `subscription`: `None` after the end.
pub(super) struct Stream {
    pub(super) subscription: Option<Subscription>,
    pub(super) include_elicitations: bool,
    pub(super) batch_size: BatchSize,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) confirmed: Option<Arc<Confirmed>>,
    pub(super) connection: Option<Arc<ConnectionContext>>,
    pub(super) end: Option<End>,
    pub(super) ends: Ends,
    pub(super) permit: StreamPermit,
}

/// Counts the end of a stream when it is dropped.
pub(super) struct Ends {
    pub(super) context: Arc<ServiceContext>,
    pub(super) rpc: Rpc,
    pub(super) code: Code,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.context.metrics.calls.ended(self.rpc, self.code as i32);
    }
}

pub(super) type Sent = Option<Result<Frame<Bytes>, Status>>;

impl Stream {
    /// How states are shown at this moment. Call this before reading them.
    pub(super) fn show(&self, hub: &Hub) -> Show {
        let context = ReadContext::of(hub, &*self.clock);
        let heartbeat = self.confirmed.as_ref().map(|confirmed| confirmed.heartbeat);
        Show { context, include_elicitations: self.include_elicitations, heartbeat }
    }

    /// The end of the stream if the caller has lost its permission.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Sent> {
        match self.end.as_mut().map(|end| end.as_mut().poll(cx)) {
            Some(Poll::Ready(denial)) => Poll::Ready(self.end_with(&status::of_denial(&denial))),
            _ => Poll::Pending,
        }
    }

    /// Sends the status that ends the stream.
    pub(super) fn end_with(&mut self, status: &Status) -> Sent {
        self.subscription = None;
        self.end = None;
        self.ends.code = status.code();
        let mut trailers = http::HeaderMap::new();
        Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers)))
    }

    /// Sends these messages. Small ones are not worth counting while the client reads, and most are shared.
    pub(super) fn send(&mut self, bytes: Bytes) -> Sent {
        self.batch_size = self.batch_size.next();
        let bytes = match &self.connection {
            Some(connection) if bytes.len() > LARGE || connection.is_stuck() => {
                let held = connection.hold(UNSENT + bytes.len());
                counted(bytes, held)
            }
            _ => bytes,
        };
        Some(Ok(Frame::data(bytes)))
    }
}
