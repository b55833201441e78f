//! One stream of a watch, which is reopened after every disconnect.
//!
//! 1. A stream without a message for two heartbeats is considered dead. Only time spent waiting for the stream counts: a
//!    slow reader does not disconnect its own stream.
//! 2. Nothing accumulates here: while the reader is slow the stream is not read, HTTP/2 flow control stops the server, and
//!    the server keeps only the latest state of each thread.
use super::super::{Client, Error, PauseState, WatchPauseStateRequest, WatchPauseStateResponse, retry};
use crate::proto::v1::watch_pause_state_response::Event as Wire;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, timeout},
};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// Twice the server's longest heartbeat interval.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The server's longest heartbeat interval. A connection that ends after a longer silence was dead during it: its end is
/// what a ping without an answer, or this library, has made of the silence.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The first and the longest delay before a stream is reopened; each plus up to 100 % at random.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3);

/// A message from a stream to its watch.
pub(super) struct Message {
    pub(super) stream_id: u64,
    pub(super) times: Times,
    pub(super) event: StreamEvent,
}

/// Orders a message among all messages about a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When its stream was requested: the stream includes at least every change acknowledged by then.
    pub(super) opened: Instant,
    /// When the message was received.
    pub(super) received: Instant,
}

pub(super) enum StreamEvent {
    State(PauseState),
    /// Each thread's state was sent once since the stream was opened.
    SnapshotComplete,
    Heartbeat,
    /// The stream broke then, or could not be opened. It is reopened automatically.
    Disconnected(Instant, Error),
}

/// Ends its stream when it is dropped; the server sees the reset of the HTTP/2 stream.
#[derive(Debug)]
pub(super) struct StreamHandle(AbortHandle);

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a stream's messages to its watch. `None` from a send means that the watch has been dropped.
struct Sink {
    stream_id: u64,
    opened: Instant,
    /// When the last message had been passed on, if any was since the stream was opened.
    last_message: Option<Instant>,
    sender: mpsc::Sender<Message>,
}

impl Sink {
    /// The end of the stream, from the last message on if it was silent for long.
    fn disconnected(&mut self, error: Error) -> StreamEvent {
        let now = Instant::now();
        let last_message = self.last_message.take().filter(|last| now - *last >= MAX_HEARTBEAT_INTERVAL);
        StreamEvent::Disconnected(last_message.unwrap_or(now), error)
    }

    async fn send(&self, event: StreamEvent) -> Option<()> {
        let times = Times { opened: self.opened, received: Instant::now() };
        self.sender.send(Message { stream_id: self.stream_id, times, event }).await.ok()
    }
}

/// Starts a stream; empty `thread_ids` select every thread.
pub(super) fn start(
    client: &Client,
    stream_id: u64,
    thread_ids: Arc<[Arc<str>]>,
    elicitations: bool,
    sender: mpsc::Sender<Message>,
) -> StreamHandle {
    let sink = Sink { stream_id, opened: Instant::now(), last_message: None, sender };
    StreamHandle(tokio::spawn(run(client.without_retries(), thread_ids, elicitations, sink)).abort_handle())
}

async fn run(client: Client, thread_ids: Arc<[Arc<str>]>, include_elicitations: bool, mut sink: Sink) -> Option<()> {
    let mut delays = retry::backoff(FIRST_RETRY_DELAY, MAX_RETRY_DELAY);
    loop {
        // Built for each attempt, so that an open stream does not keep a second copy of its ids.
        let thread_ids = thread_ids.iter().map(|id| id.to_string()).collect();
        let request = WatchPauseStateRequest { thread_ids, include_elicitations };
        sink.opened = Instant::now();
        let (complete, error) = match client.watch_pause_state(request).await {
            Ok(stream) => read(stream, &mut sink).await?,
            Err(error) => (false, error),
        };
        tracing::debug!(stream_id = sink.stream_id, %error, "the watch was interrupted");
        let disconnected = sink.disconnected(error);
        sink.send(disconnected).await?;
        if complete {
            delays = retry::backoff(FIRST_RETRY_DELAY, MAX_RETRY_DELAY);
        }
        // Also after a stream that worked: the clients of a restarted server must not all return at once.
        tokio::time::sleep(delays.next().unwrap_or(MAX_RETRY_DELAY)).await;
    }
}

/// Reads to the end of the stream. Returns whether its snapshot was complete, and the error that ended it; `None` if the
/// watch has been dropped.
async fn read(
    mut stream: impl Stream<Item = Result<WatchPauseStateResponse, Error>> + Unpin,
    sink: &mut Sink,
) -> Option<(bool, Error)> {
    let mut complete = false;
    loop {
        let event = match timeout(SILENCE_TIMEOUT, stream.next()).await {
            Err(_) => return Some((complete, unavailable(format!("the watch was silent for {SILENCE_TIMEOUT:?}")))),
            Ok(None) => return Some((complete, unavailable("the watch ended".to_owned()))),
            Ok(Some(Err(error))) => return Some((complete, error)),
            Ok(Some(Ok(message))) => match message.event {
                Some(Wire::PauseState(state)) => StreamEvent::State(state),
                Some(Wire::SnapshotComplete(_)) => {
                    complete = true;
                    StreamEvent::SnapshotComplete
                }
                // An unknown event, of a newer server, shows that the stream is alive.
                Some(Wire::Heartbeat(_)) | None => StreamEvent::Heartbeat,
            },
        };
        sink.send(event).await?;
        sink.last_message = Some(Instant::now());
    }
}

fn unavailable(text: String) -> Error {
    Error::Unavailable(Box::new(Status::unavailable(text)))
}
