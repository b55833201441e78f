//! Limits the HTTP/1 connections of a listener, and keeps it available under a flood.
//!
//! A connection without a counted request, such as one that sends half a request or one whose request was refused, is
//! closed for a new one, the oldest first. Under a flood, each connection has [`FIRST_REQUEST_TIME`] for its first
//! request, because the next one is accepted a little later.
use hyper::body::{Body, Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Far more than the round trip in which a request arrives.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(250);

/// The connections of a listener.
pub(crate) struct HttpConnections {
    most: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    open: usize,
    entered: u64,
    /// Connections without a request, oldest first.
    idle: BTreeMap<u64, CancellationToken>,
}

/// An open connection. It is closed when this and its last request are dropped.
pub(crate) struct HttpConnection {
    all: Arc<HttpConnections>,
    closing: CancellationToken,
    requests: Mutex<Requests>,
}

enum Requests {
    /// No request. The number is the key in the list of idle connections, above 0; 0: it is not in the list.
    None(u64),
    /// The number of requests.
    Some(usize),
}

/// A request that keeps its connection open.
pub(crate) struct HttpRequest(Arc<HttpConnection>);

impl HttpConnections {
    /// A listener with at most `most` connections.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(HttpConnections { most, state: Mutex::default(), freed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// Waits until one more connection may be accepted. It may replace another one.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            let freed = self.freed.notified();
            match self.make_room() {
                Some(pause) if pause.is_zero() => return,
                Some(pause) => return tokio::time::sleep(pause).await,
                None => freed.await,
            }
        }
    }

    /// How long to wait before the next accept; `None`: all connections have a request.
    fn make_room(&self) -> Option<Duration> {
        let mut state = self.lock();
        if state.open < self.most {
            return Some(Duration::ZERO);
        }
        let (_, oldest) = state.idle.pop_first()?;
        oldest.cancel();
        state.open -= 1;
        Some(FIRST_REQUEST_TIME / u32::try_from(self.most).unwrap_or(u32::MAX))
    }

    /// A connection that was accepted.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<HttpConnection> {
        let closing = CancellationToken::new();
        let mut state = self.lock();
        state.open += 1;
        let requests = Mutex::new(Requests::None(state.list(closing.clone())));
        drop(state);
        Arc::new(HttpConnection { all: self.clone(), closing, requests })
    }
}

impl State {
    fn list(&mut self, closing: CancellationToken) -> u64 {
        self.entered += 1;
        self.idle.insert(self.entered, closing);
        self.entered
    }
}

impl HttpConnection {
    /// Completes when the connection must be closed.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Records a request that keeps the connection open.
    pub(crate) fn request(self: &Arc<Self>) -> HttpRequest {
        let mut requests = self.requests.lock().expect("no panic while locked");
        *requests = match *requests {
            Requests::None(number) => {
                self.all.lock().idle.remove(&number);
                Requests::Some(1)
            }
            Requests::Some(count) => Requests::Some(count + 1),
        };
        HttpRequest(self.clone())
    }
}

impl HttpRequest {
    /// The body of the response.
    pub(crate) fn until_sent<B>(self, body: B) -> UntilSent<B, HttpRequest> {
        UntilSent::new(body, self)
    }
}

/// A body with a guard that lives until the body is sent: its request counts until then.
pub(crate) struct UntilSent<B, G> {
    body: B,
    _guard: G,
}

impl<B, G> UntilSent<B, G> {
    pub(crate) fn new(body: B, guard: G) -> Self {
        UntilSent { body, _guard: guard }
    }
}

impl<B: Body + Unpin, G: Unpin> Body for UntilSent<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for HttpRequest {
    fn drop(&mut self) {
        let HttpConnection { all, closing, requests } = &*self.0;
        let mut requests = requests.lock().expect("no panic while locked");
        *requests = match *requests {
            Requests::Some(count) if count > 1 => Requests::Some(count - 1),
            // It was closed for another one when the request arrived, and is not counted any more.
            _ if closing.is_cancelled() => Requests::None(0),
            _ => Requests::None(all.lock().list(closing.clone())),
        };
        // A waiting connection may take its place.
        all.freed.notify_one();
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        // A connection that was closed for another one is no longer counted.
        if let Requests::None(number) = *self.requests.get_mut().expect("no panic while locked")
            && state.idle.remove(&number).is_some()
        {
            state.open -= 1;
            drop(state);
            self.all.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn g7_the_oldest_connection_without_a_request_gives_way() {
        let all = HttpConnections::new(2);
        let (first, second) = (all.enter(), all.enter());
        let request = first.request();
        all.wait_for_room().await;
        let third = all.enter();
        assert!(!first.closing.is_cancelled() && second.closing.is_cancelled() && !third.closing.is_cancelled());
        drop(second);
        assert_eq!(all.lock().open, 2);
        // A request that ended makes its connection the youngest.
        drop(request);
        all.wait_for_room().await;
        assert!(!first.closing.is_cancelled() && third.closing.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_arrives_while_its_connection_gives_way_frees_one_place_only() {
        let all = HttpConnections::new(1);
        let first = all.enter();
        all.wait_for_room().await;
        let second = all.enter();
        assert!(first.closing.is_cancelled());
        drop(first.request());
        drop(first);
        assert_eq!(all.lock().open, 1);
        drop(second);
        assert_eq!(all.lock().open, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_a_request_stay_and_the_next_one_waits_for_their_end() {
        let all = HttpConnections::new(1);
        let first = all.enter();
        let (request, beside) = (first.request(), first.request());
        drop(beside);
        let mut room = Box::pin(all.wait_for_room());
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut room).await.is_err());
        drop((request, first));
        room.await;
        drop(all.enter());
        assert_eq!(all.lock().open, 0);
        assert!(all.lock().idle.is_empty());
    }
}
