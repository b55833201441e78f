//! One stream of a watch. It is driven by its reader: while nobody reads, HTTP/2 flow control stops the server, and the
//! server keeps only the latest state of each thread.
use super::super::{Client, Error, lanes::Place, route::Position};
use crate::proto::v1::{WatchRequest, WatchResponse, watch_response};
use std::time::Duration;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tonic::{Status, Streaming};

/// An open stream. Dropping it ends the stream with an HTTP/2 reset.
#[derive(Debug)]
pub(super) struct Stream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    /// On the connection; `None`: it has the connection alone.
    _place: Option<Place>,
    /// The attempt to open it; aborted when it is dropped.
    opening: JoinSet<Result<Streaming<WatchResponse>, Error>>,
    responses: Option<Streaming<WatchResponse>>,
    pub(super) opened: Instant,
    /// The position of the client that it was opened at.
    pub(super) moves: usize,
    /// How often the server sends a heartbeat, if it has said so.
    pub(super) interval: Option<Duration>,
    /// When the last message was received.
    pub(super) last_message: Option<Instant>,
    /// Whether the first request has been answered.
    pub(super) is_answered: bool,
}

impl Stream {
    pub(super) fn open(client: &Client, Position { moves, stub }: Position, place: Option<Place>) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        let mut opening = JoinSet::new();
        let client = client.clone();
        opening.spawn(async move { client.open_watch(stub, receiver).await });
        let opened = Instant::now();
        Self {
            requests,
            _place: place,
            opening,
            responses: None,
            opened,
            moves,
            interval: None,
            last_message: None,
            is_answered: false,
        }
    }

    pub(super) fn send(&self, request: WatchRequest) {
        // Fails only on a broken stream, whose end is about to be received.
        let _ = self.requests.send(request);
    }

    /// When the last message arrived or, before the first one, when the stream was opened.
    pub(super) fn last_sign(&self) -> Instant {
        self.last_message.unwrap_or(self.opened)
    }

    /// The next event; `None`: one that this library does not know. After an error there are no more.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub(super) async fn receive(&mut self) -> Result<Option<watch_response::Event>, Error> {
        loop {
            if let Some(responses) = &mut self.responses {
                let message = responses.message().await.map_err(Error::from)?;
                self.last_message = Some(Instant::now());
                return message.map(|message| message.event).ok_or_else(|| unavailable("the watch ended".to_owned()));
            }
            self.responses = match self.opening.join_next().await {
                Some(Ok(opened)) => Some(opened?),
                Some(Err(_)) | None => return Err(unavailable("the watch could not be opened".to_owned())),
            };
        }
    }
}

pub(super) fn unavailable(text: String) -> Error {
    Error::Unavailable(Box::new(Status::unavailable(text)))
}
