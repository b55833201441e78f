//! A watch that reconnects by itself, over a set of threads that may change while it runs: one stream, on which threads
//! are added, removed and confirmed.
//!
//! 1. Everything runs in [`Watch::next`]: there is no task, and memory is bounded by the set; events wait in the network.
//! 2. After a disconnect the whole set is sent again. A watch of all threads adds those that were paused, so that the end
//!    of their pause is reported too.
//! 3. Events of the same cause are reported in the order of the thread ids, so that a simulation can be replayed.
//! 4. Every disconnect is reported, and the first state after it carries `gap`; `paused_total` covers what was missed.
//! 5. With several addresses, a stream that ends, or has no first answer in time, moves the whole client to the next
//!    address. If a call or another watch moves the client, the stream follows after a random delay.
//! 6. If a confirmation does not arrive while the stream is silent, the stream ends, because the connection may be
//!    dead. The confirmation is requested again on the next stream.
mod event;
mod reported;
mod requests;
mod stream;
mod token;

use super::{Client, Error, PauseState, retry, route::Position};
use crate::core::types::ThreadId;
use crate::proto::v1::{Heartbeat, Refusal, WatchRequest, watch_response::Event as Wire};
use backon::ExponentialBackoff;
pub(crate) use event::Message;
pub use event::{Event, Update};
use reported::Reported;
use requests::Requests;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use stream::{Stream, unavailable};
use token::StreamToken;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The silence timeout for a server that does not send its heartbeat interval: two of the usual ones. If the server
/// sends the interval, the timeout is two and a half intervals.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest and the longest heartbeat interval that is accepted from a server.
const ACCEPTED_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60 * 60)];
/// The heartbeat interval of a server that does not send it. If a connection ends after a longer silence, it was
/// dead during the silence: an unanswered ping or this library ended it.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The first and the longest delay before a stream is reopened; each plus up to 100 % at random.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3);
/// The longest delay while a confirmation waits; plus up to 100 % at random.
const MAX_CONFIRMATION_DELAY: Duration = Duration::from_millis(100);
/// How long a stream may be silent while a confirmation is awaited: the initial value, and the minimum until the first
/// request is answered.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_millis(250);
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest random delay before a stream follows its client to another address.
const MAX_MOVE_DELAY: Duration = Duration::from_millis(500);

/// The states of a set of threads, across reconnects, until it is dropped. Made by [`Client::watch`] and
/// [`Client::watch_all`].
///
/// A lost connection, or 30 s without a message (two and a half heartbeats if the server sends their interval), is
/// reported as [`Event::Disconnected`]; then the watch reconnects, after 50 to 100 ms at first and 3 to 6 s at most.
/// Threads that the coordinator refuses are reported in the same way, and the others continue. A slow reader gets the
/// latest states, not all of them.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    all: bool,
    elicitations: bool,
    observer: bool,
    threads: Reported,
    requests: Requests,
    stream: Option<Stream>,
    delays: ExponentialBackoff,
    /// The number of streams without an answer since the last one with an answer.
    unanswered: usize,
    /// A separate connection, because the connection of the client was silent. It is used until the client moves.
    own: Option<Position>,
    moves: watch::Receiver<Position>,
    /// When the stream follows the client to another address.
    move_at: Option<Instant>,
    /// When the next stream is opened: normally, and while a confirmation is urgent.
    reopen_at: (Instant, Instant),
    /// How long the stream may be silent while a confirmation waits.
    confirmation_timeout: Duration,
    /// Since when a confirmation has been awaited, and until when it is urgent.
    confirming: Option<(Instant, Instant)>,
    token: StreamToken,
    disconnect_reported: bool,
    complete_reported: bool,
    ready: VecDeque<Message>,
}

impl Client {
    /// Watches a set of threads, empty at first; [`Watch::add`] adds to it. The watch reconnects by itself.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone(), false)
    }

    /// Watches every thread that this client may read. The watch reconnects by itself.
    pub fn watch_all(&self) -> Watch {
        Watch::new(self.clone(), true)
    }
}

impl Watch {
    fn new(client: Client, all: bool) -> Self {
        let now = Instant::now();
        Self {
            unanswered: 0,
            own: None,
            moves: client.route.moves(),
            move_at: None,
            client,
            all,
            elicitations: false,
            observer: false,
            threads: Reported::default(),
            requests: Requests::default(),
            stream: None,
            delays: retry::backoff(FIRST_RETRY_DELAY, MAX_RETRY_DELAY),
            reopen_at: (now, now),
            confirmation_timeout: CONFIRMATION_TIMEOUT,
            confirming: None,
            token: StreamToken::default(),
            disconnect_reported: false,
            complete_reported: false,
            ready: VecDeque::new(),
        }
    }

    /// Adds the open elicitations to the states. Call it before the first [`Watch::next`].
    #[must_use]
    pub fn with_elicitations(self) -> Self {
        Self { elicitations: true, ..self }
    }

    /// Says that this watch only shows pauses to people, and freezes nothing: it does not count among the
    /// [`watchers`](crate::proto::v1::PauseState::watchers) of a thread. Call it before the first [`Watch::next`].
    #[must_use]
    pub fn as_observer(self) -> Self {
        Self { observer: true, ..self }
    }

    /// Adds a thread; its first state is an event of [`Watch::next`]. Does nothing if the thread, or every thread, is
    /// watched already. `thread_id`: 1 to 256 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: `thread_id` is out of its limits; nothing changed.
    pub fn add(&mut self, thread_id: &str) -> Result<(), Error> {
        // The server would end the whole stream, with every other thread on it.
        ThreadId::parse("thread_id", thread_id)?;
        if !self.all && !self.threads.contains(thread_id) {
            let thread_id: Arc<str> = thread_id.into();
            self.threads.add(thread_id.clone(), true);
            self.requests.add(thread_id);
            self.complete_reported = false;
        }
        Ok(())
    }

    /// Removes a thread. [`Watch::next`] may still return events of it that were queued. Does nothing with
    /// [`Client::watch_all`].
    pub fn remove(&mut self, thread_id: &str) {
        if self.all {
            return;
        }
        if let Some(thread_id) = self.threads.remove(thread_id) {
            self.requests.remove(&thread_id);
        }
    }

    /// The number of added threads; 0 with [`Client::watch_all`].
    pub fn len(&self) -> usize {
        if self.all { 0 } else { self.threads.len() }
    }

    /// Whether [`Watch::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next event; with an empty set, forever. The connection is made, and kept, only while this is awaited.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            match self.next_message().await {
                Message::Event(event) => return event,
                Message::Refused { thread_ids, since, error } => {
                    return Event::Disconnected { thread_ids, since, error };
                }
                Message::OthersComplete | Message::Confirmed { .. } => {}
            }
        }
    }

    /// The number of addresses that have not failed since the last answer; 0 with one address.
    #[cfg(feature = "cli")]
    pub(crate) fn untried_addresses(&self) -> usize {
        let addresses = self.client.route.len();
        if addresses > 1 { addresses.saturating_sub(self.unanswered) } else { 0 }
    }

    /// Requests the present state of a thread of the set, and again on each new stream until it arrives. Until
    /// `urgent_until`, the watch reconnects faster.
    pub(crate) fn confirm(&mut self, thread_id: Arc<str>, urgent_until: Instant) {
        let waiting = self.confirming.filter(|_| self.requests.is_confirming());
        self.confirming = Some((waiting.map_or_else(Instant::now, |(since, _)| since), urgent_until));
        self.requests.confirm(thread_id);
    }

    /// Whether a stream is open or being opened.
    pub(crate) fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// As [`Watch::next`], with the confirmations.
    pub(crate) async fn next_message(&mut self) -> Message {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return message;
            }
            self.open_and_send();
            let due = self.due();
            tokio::select! {
                biased;
                received = receive(&mut self.stream) => match received {
                    Ok(event) => self.handle(event),
                    Err(error) => self.on_disconnected(error),
                },
                () = sleep_until(due.unwrap_or(self.reopen_at.0)), if due.is_some() => self.give_up_if_due(),
                Ok(()) = self.moves.changed() => self.follow_later(),
            }
        }
    }

    /// Whether a stream is needed.
    fn is_needed(&self) -> bool {
        self.all || !self.threads.is_empty()
    }

    fn open_and_send(&mut self) {
        let now = Instant::now();
        if !self.is_needed() {
            if self.stream.take().is_some() {
                self.requests.restart([].into_iter());
            }
            return;
        }
        if self.stream.is_none() && self.reopening_at(now) <= now {
            let position = self.client.route.position();
            let (position, place) = match self.own.clone().filter(|own| own.moves == position.moves) {
                Some(own) => (own, None),
                None => {
                    let (position, place) = self.client.route.position_of_stream();
                    (position, Some(place))
                }
            };
            self.stream = Some(Stream::open(&self.client, position, place));
            self.move_at = None;
            self.token = StreamToken::of(&self.client, now);
        }
        let Some(stream) = &self.stream else { return };
        if let Some(token) = self.token.renew(&self.client, now) {
            self.requests.renew(token);
        }
        let of_stream = WatchRequest {
            all_threads: self.all,
            include_elicitations: self.elicitations,
            observer: self.observer,
            ..WatchRequest::default()
        };
        if let Some(request) = self.requests.next(now, of_stream) {
            stream.send(request);
        }
    }

    /// When the next stream is opened.
    fn reopening_at(&self, now: Instant) -> Instant {
        let (usual, urgent) = self.reopen_at;
        let is_urgent = self.requests.is_confirming() && self.confirming.is_some_and(|(_, until)| now < until);
        if is_urgent { urgent } else { usual }
    }

    /// When the watch must act even if no message arrives.
    fn due(&self) -> Option<Instant> {
        if !self.is_needed() {
            return None;
        }
        let Some(stream) = &self.stream else { return Some(self.reopening_at(Instant::now())) };
        let silent_at = self.silent_at(stream);
        [self.requests.due(self.all), self.token.due(), self.move_at, Some(silent_at)].into_iter().flatten().min()
    }

    /// When the stream has been silent for too long. A confirmation that the coordinator has delayed does not count.
    fn silent_at(&self, stream: &Stream) -> Instant {
        let last_sign = stream.last_sign();
        let limit = stream.interval.map_or(SILENCE_TIMEOUT, |interval| interval * 5 / 2);
        let first_answer = self.client.route.no_answer().filter(|_| !stream.is_answered);
        let silent_at = last_sign + first_answer.map_or(limit, |first| limit.min(first));
        let Some((since, _)) = self.confirming.filter(|_| self.requests.is_confirming()) else { return silent_at };
        let asked = self.requests.under_way().map(|request| request.sent).or(self.requests.confirm_not_before());
        let since = asked.map_or(since, |asked| asked.max(since));
        let confirmation_timeout = if stream.is_answered {
            self.confirmation_timeout
        } else {
            self.confirmation_timeout.max(FIRST_ANSWER_TIMEOUT)
        };
        silent_at.min(last_sign.max(since) + confirmation_timeout)
    }

    /// The client has moved: the stream follows after a delay, so that not all streams move at once.
    fn follow_later(&mut self) {
        let moves = self.moves.borrow_and_update().moves;
        let is_elsewhere = self.stream.as_ref().is_some_and(|stream| stream.moves != moves);
        if is_elsewhere && self.move_at.is_none() {
            self.move_at = Some(Instant::now() + MAX_MOVE_DELAY.mul_f64(fastrand::f64()));
        }
    }

    fn give_up_if_due(&mut self) {
        let Some(stream) = &self.stream else { return };
        let now = Instant::now();
        if self.move_at.is_some_and(|at| at <= now) {
            self.on_disconnected(unavailable("the client has moved to another address".to_owned()));
            return;
        }
        let silent_at = self.silent_at(stream);
        if now < silent_at {
            return;
        }
        let silence = now - stream.last_sign();
        if silence < SILENCE_TIMEOUT && self.requests.is_confirming() {
            self.confirmation_timeout = (self.confirmation_timeout * 2).min(SILENCE_TIMEOUT);
        }
        // Another stream on the same connection would be silent too.
        let position = self.client.route.position();
        self.own = Some(Position { stub: self.client.route.separate(&position), ..position });
        let error = unavailable(format!("the watch was silent for {:?}", retry::whole_ms(silence)));
        // A slow confirmation does not move the client, unless the next stream has no answer either.
        let is_slow = stream.is_answered && silence < stream.interval.map_or(SILENCE_TIMEOUT, |every| every * 5 / 2);
        self.end_stream(error, !is_slow);
    }

    fn handle(&mut self, event: Option<Wire>) {
        match event {
            Some(Wire::PauseState(state)) => self.report(state),
            Some(Wire::SnapshotComplete(complete)) => {
                if self.requests.on_answer(complete.requests).unwrap_or_default() {
                    self.confirmation_timeout = CONFIRMATION_TIMEOUT;
                }
                self.on_answered();
            }
            Some(Wire::Confirmation(confirmation)) => {
                // A confirmation without a request confirms nothing.
                let Some(asked) = self.requests.under_way().map(|request| request.sent) else { return };
                self.ready.push_back(Message::Confirmed { states: confirmation.pause_states, asked });
            }
            Some(Wire::Refusal(refusal)) => {
                self.on_refused(refusal);
                self.on_answered();
            }
            Some(Wire::Heartbeat(heartbeat)) => self.on_heartbeat(heartbeat),
            // An unknown event, of a newer server, shows that the stream is alive.
            None => {}
        }
    }

    /// Reports a state, unless it is already known. With `all`, remembers the thread only while it is paused.
    fn report(&mut self, state: PauseState) {
        self.disconnect_reported = false;
        if self.all && !self.threads.contains(&state.thread_id) {
            let is_snapshot = !self.requests.is_accepted();
            self.threads.add(state.thread_id.as_str().into(), is_snapshot);
        }
        let ended = (self.all && !state.paused).then(|| state.thread_id.clone());
        self.ready.extend(self.threads.update(state).map(|update| Message::Event(Event::State(update))));
        if let Some(thread_id) = ended {
            self.threads.remove(&thread_id);
        }
    }

    fn on_heartbeat(&mut self, heartbeat: Heartbeat) {
        let Some(stream) = &mut self.stream else { return };
        let interval = heartbeat.interval.and_then(|interval| Duration::try_from(interval).ok());
        let [shortest, longest] = ACCEPTED_INTERVALS;
        stream.interval = interval.filter(|every| !every.is_zero()).map(|every| every.clamp(shortest, longest));
    }

    fn on_answered(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        stream.is_answered = true;
        if self.complete_reported || self.requests.is_adding(self.all) {
            return;
        }
        self.disconnect_reported = false;
        if self.threads.has_refused() {
            self.ready.push_back(Message::OthersComplete);
        } else {
            self.complete_reported = true;
            self.ready.push_back(Message::Event(Event::SnapshotComplete));
        }
    }

    fn on_refused(&mut self, refusal: Refusal) {
        if self.requests.is_renewal(refusal.request) {
            tracing::debug!(reason = refusal.message, "the new token is refused: the stream keeps the previous one");
            self.requests.on_refusal(&refusal, Instant::now());
            return;
        }
        let unwatched = self.requests.on_refusal(&refusal, Instant::now());
        self.requests.retain(|thread_id| self.threads.contains(thread_id));
        if self.all {
            // A thread that the client may no longer see has no state.
            refusal.thread_ids.iter().for_each(|thread_id| _ = self.threads.remove(thread_id));
            if refusal.thread_ids.is_empty() && !std::mem::replace(&mut self.disconnect_reported, true) {
                self.report_disconnected(Vec::new(), Instant::now(), requests::error_of(refusal));
            }
            return;
        }
        let thread_ids = self.threads.refuse(unwatched);
        if !thread_ids.is_empty() {
            self.complete_reported = false;
            let (since, error) = (Instant::now(), requests::error_of(refusal));
            self.ready.push_back(Message::Refused { thread_ids, since, error });
        }
    }

    fn report_disconnected(&mut self, thread_ids: Vec<Arc<str>>, since: Instant, error: Error) {
        self.ready.push_back(Message::Event(Event::Disconnected { thread_ids, since, error }));
    }

    fn on_disconnected(&mut self, error: Error) {
        self.end_stream(error, true);
    }

    /// Ends the stream. With `leave`, the client moves to the next address, unless it has moved since.
    fn end_stream(&mut self, error: Error, leave: bool) {
        let Some(stream) = self.stream.take() else { return };
        tracing::debug!(%error, "the watch was interrupted");
        let now = Instant::now();
        let route = self.client.route.clone();
        if stream.is_answered {
            self.delays = retry::backoff(FIRST_RETRY_DELAY, MAX_RETRY_DELAY);
            self.unanswered = 0;
        }
        // A refusal would be the same at every replica. A missed deadline is not a refusal.
        let is_lost = matches!(error, Error::Unavailable(_) | Error::DeadlineExceeded(_));
        let leaves = leave && is_lost && route.move_on(stream.moves);
        self.unanswered += usize::from(leaves);
        let mid_lap = leaves && !self.unanswered.is_multiple_of(route.len());
        // Also after a stream that worked: the clients of a restarted server must not all return at once.
        let delay = match (self.move_at.take(), mid_lap) {
            (Some(_), _) => Duration::ZERO,
            (None, true) => FIRST_RETRY_DELAY.mul_f64(1.0 + fastrand::f64()),
            (None, false) => self.delays.next().unwrap_or(MAX_RETRY_DELAY),
        };
        let urgent = MAX_CONFIRMATION_DELAY.mul_f64(1.0 + fastrand::f64());
        self.reopen_at = (now + delay, now + delay.min(urgent));
        self.threads.on_disconnected();
        self.requests.restart(self.threads.ids());
        self.complete_reported = false;
        if !std::mem::replace(&mut self.disconnect_reported, true) {
            let thread_ids = if self.all { Vec::new() } else { self.threads.ids().collect() };
            let longest = stream.interval.unwrap_or(MAX_HEARTBEAT_INTERVAL);
            let was_silent = stream.last_message.filter(|last| now - *last >= longest);
            self.report_disconnected(thread_ids, was_silent.unwrap_or(now), error);
        }
    }
}

/// The next event of the stream; without a stream, waits forever.
async fn receive(stream: &mut Option<Stream>) -> Result<Option<Wire>, Error> {
    match stream {
        Some(stream) => stream.receive().await,
        None => std::future::pending().await,
    }
}
