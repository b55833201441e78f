//! The body of a request that is a stream of messages, read as soon as it arrives.
//!
//! HTTP/2 keeps a frame that nobody has read in the buffer into which it was received, so a byte may hold 8 KiB. A
//! service that answers one request of a stream at a time would leave the next ones there for as long as its client does
//! not read answers. Therefore a task copies them into a buffer, which counts as memory of the connection.
use super::memory_budget::{ConnectionContext, MemoryReservation};
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tonic::body::Body;

/// The body of a request. Dropping it drops the body that it reads.
pub(crate) struct Inbox {
    received: Arc<Mutex<Received>>,
    _task: AbortOnDropHandle<()>,
}

/// What was received and not taken.
#[derive(Default)]
struct Received {
    buffer: BytesMut,
    held: Option<MemoryReservation>,
    end: Option<End>,
    reader: Option<Waker>,
}

enum End {
    /// `is_whole`: the client has closed its side, rather than reset the stream.
    Closed {
        is_whole: bool,
    },
    Failed(Option<Status>),
}

impl Inbox {
    /// Reads `body` at once. If more than `most` bytes are not taken, the stream fails with RESOURCE_EXHAUSTED.
    pub(crate) fn of(body: Body, most: usize, connection: Option<Arc<ConnectionContext>>) -> Self {
        let received = Arc::<Mutex<Received>>::default();
        let task = tokio::spawn(receive(body, most, connection, received.clone()));
        Inbox { received, _task: AbortOnDropHandle::new(task) }
    }
}

async fn receive(
    mut body: Body,
    most: usize,
    connection: Option<Arc<ConnectionContext>>,
    received: Arc<Mutex<Received>>,
) {
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let mut received = lock(&received);
        match frame {
            Some(Ok(frame)) => received.add(&frame.into_data().unwrap_or_default(), most, connection.as_ref()),
            Some(Err(error)) => received.end = Some(End::Failed(Some(error))),
            None => received.end = Some(End::Closed { is_whole: body.is_end_stream() }),
        }
        if let Some(reader) = received.reader.take() {
            reader.wake();
        }
        if received.end.is_some() {
            return;
        }
    }
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Received {
    fn add(&mut self, data: &[u8], most: usize, connection: Option<&Arc<ConnectionContext>>) {
        if self.buffer.len() + data.len() > most {
            (self.buffer, self.held) = (BytesMut::new(), None);
            let why = format!("more than {most} bytes of requests wait for answers: read them, then send more");
            self.end = Some(End::Failed(Some(Status::resource_exhausted(why))));
            return;
        }
        self.buffer.extend_from_slice(data);
        let size = self.buffer.capacity();
        match &mut self.held {
            Some(held) => held.resize(size),
            held => *held = connection.map(|connection| connection.hold(size)),
        }
    }
}

impl http_body::Body for Inbox {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut received = lock(&self.received);
        if !received.buffer.is_empty() {
            received.held = None;
            let bytes = std::mem::take(&mut received.buffer).freeze();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match &mut received.end {
            Some(End::Failed(status)) => Poll::Ready(status.take().map(Err)),
            Some(End::Closed { .. }) => Poll::Ready(None),
            None => {
                received.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let received = lock(&self.received);
        received.buffer.is_empty() && matches!(received.end, Some(End::Closed { is_whole: true }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_budget::MemoryBudget;
    use super::*;
    use crate::coordinator::quota::{Accounts, CallerKey};
    use http_body_util::{BodyExt, StreamBody};
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use tonic::Code;

    #[tokio::test]
    async fn g7_frames_are_read_before_anyone_asks_for_them_and_more_than_the_most_fails() {
        let (sender, frames) = mpsc::unbounded_channel::<Result<Frame<Bytes>, Status>>();
        let account = Accounts::default().of(CallerKey::Unknown, Duration::ZERO);
        let connection = Arc::<MemoryBudget>::default().connection(account, None);
        let body = Body::new(StreamBody::new(UnboundedReceiverStream::new(frames)));
        let mut inbox = Inbox::of(body, 100, Some(connection.clone()));
        let block = Bytes::from(vec![b'x'; 8 << 10]);
        let send = |range| sender.send(Ok(Frame::data(block.slice(range)))).expect("it is read");
        let is_copied = async || {
            while !block.is_unique() {
                tokio::task::yield_now().await;
            }
        };
        (0..100).for_each(|i| send(i..i + 1));
        is_copied().await;
        assert!(connection.held() >= 100, "it is counted");
        let data = inbox.frame().await.expect("it is there").expect("it is data").into_data().expect("it is data");
        assert_eq!((data.len(), connection.held()), (100, 0));
        send(0..60);
        send(0..60);
        is_copied().await;
        let error = inbox.frame().await.expect("it ends with an error").expect_err("it is too much");
        assert_eq!((error.code(), connection.held()), (Code::ResourceExhausted, 0));
        assert!(inbox.frame().await.is_none());
    }
}
