//! One stream of a watch, opened again whenever it breaks.
//!
//! 1. A stream that is silent for two heartbeats is dead, whatever TCP believes. Only time spent waiting for the stream
//!    counts: a slow reader does not break its own stream.
//! 2. Nothing piles up here: while the reader is slow the stream is not read, HTTP/2 flow control tells the server, and
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

/// Twice the time within which the server promises a heartbeat.
const SILENCE: Duration = Duration::from_secs(30);
/// The first pause before a stream is opened again, and the longest; each with up to as much again at random.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What a leg tells its watch.
pub(super) struct Message {
    pub(super) leg: u64,
    pub(super) times: Times,
    pub(super) what: What,
}

/// Where a message stands among all that is heard of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When its stream was asked for: it shows at least what had come by then.
    pub(super) opened: Instant,
    /// When it came.
    pub(super) came: Instant,
}

pub(super) enum What {
    State(PauseState),
    /// Each thread was told once since the stream was opened.
    Complete,
    Heartbeat,
    /// The stream broke, or could not be opened. The leg opens it again by itself.
    Broken(Error),
}

/// Ends its leg when it is dropped; the server is told by the reset of the stream.
#[derive(Debug)]
pub(super) struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where a leg's messages go. An error means that nobody listens any more.
struct Sink {
    leg: u64,
    opened: Instant,
    to: mpsc::Sender<Message>,
}

impl Sink {
    async fn send(&self, what: What) -> Option<()> {
        let times = Times { opened: self.opened, came: Instant::now() };
        self.to.send(Message { leg: self.leg, times, what }).await.ok()
    }
}

/// Starts a leg; no `thread_ids` means every thread.
pub(super) fn start(
    client: &Client,
    leg: u64,
    thread_ids: Arc<[Arc<str>]>,
    elicitations: bool,
    to: mpsc::Sender<Message>,
) -> Running {
    let sink = Sink { leg, opened: Instant::now(), to };
    Running(tokio::spawn(run(client.without_retries(), thread_ids, elicitations, sink)).abort_handle())
}

async fn run(client: Client, thread_ids: Arc<[Arc<str>]>, include_elicitations: bool, mut sink: Sink) -> Option<()> {
    let mut pauses = retry::backoff(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        // Built for each attempt, so that a quiet stream does not keep a second copy of its ids.
        let thread_ids = thread_ids.iter().map(|id| id.to_string()).collect();
        let request = WatchPauseStateRequest { thread_ids, include_elicitations };
        sink.opened = Instant::now();
        let (complete, error) = match client.watch_pause_state(request).await {
            Ok(stream) => read(stream, &sink).await?,
            Err(error) => (false, error),
        };
        tracing::debug!(leg = sink.leg, %error, "the watch was interrupted");
        sink.send(What::Broken(error)).await?;
        if complete {
            pauses = retry::backoff(FIRST_PAUSE, LONGEST_PAUSE);
        }
        // Also after a stream that worked: the clients of a restarted server must not all come back at once.
        tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
    }
}

/// Reads to the end of the stream: whether its snapshot was complete, and why it ended. `None`: nobody listens.
async fn read(
    mut stream: impl Stream<Item = Result<WatchPauseStateResponse, Error>> + Unpin,
    sink: &Sink,
) -> Option<(bool, Error)> {
    let mut complete = false;
    loop {
        let what = match timeout(SILENCE, stream.next()).await {
            Err(_) => return Some((complete, unavailable(format!("the watch was silent for {SILENCE:?}")))),
            Ok(None) => return Some((complete, unavailable("the watch ended".to_owned()))),
            Ok(Some(Err(error))) => return Some((complete, error)),
            Ok(Some(Ok(message))) => match message.event {
                Some(Wire::PauseState(state)) => What::State(state),
                Some(Wire::SnapshotComplete(_)) => {
                    complete = true;
                    What::Complete
                }
                // An event of a newer server is a sign of life.
                Some(Wire::Heartbeat(_)) | None => What::Heartbeat,
            },
        };
        sink.send(what).await?;
    }
}

fn unavailable(text: String) -> Error {
    Error::Unavailable(Box::new(Status::unavailable(text)))
}
