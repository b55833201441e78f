//! A watch that reconnects by itself, over a set of threads that may change while it runs.
//!
//! The threads of a stream cannot change once it is open, so the set is spread over several streams. Threads that are added
//! while a stream is being opened wait and share the next one. A new stream also replaces every stream that is not larger
//! than itself, and keeps the old ones until its own snapshot is complete. So adding N threads one by one sends each id
//! about log2(N) times and leaves about log2(N) small streams beside the full ones. When nothing has been added for a
//! while, streams that fit into one are merged: a set that no longer changes has one stream per 10,000 threads or so.
//!
//! 1. Each thread belongs to one stream at a time, so its states arrive in order.
//! 2. Replacing a stream is no gap: the old stream serves until the snapshot of the new one is complete.
//! 3. Memory is bounded by the set: events wait in the network, not here.
//! 4. Events of the same cause are reported in the order of the thread ids, so that a simulation can be replayed.
//! 5. Every disconnect is reported, and the first state after it carries `gap`; `paused_total` covers what was missed.
mod stream;

use super::{Client, Error, GetPauseStateRequest, PauseState};
use crate::core::types::ThreadId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stream::{Message, StreamEvent, Times};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The maximum number of thread ids per stream: the server's limit.
const MAX_THREAD_IDS: usize = 10_000;
/// Messages queued between the streams and their reader: enough to keep both busy, few enough that a slow reader slows
/// the server.
const QUEUE_SIZE: usize = 64;
/// How long after the last thread was added streams are merged: by then more additions are unlikely.
const MERGE_DELAY: Duration = Duration::from_secs(1);
/// A stream with more removed threads than watched ones is rebuilt, if it has more thread ids than this.
const MIN_REBUILD_SIZE: usize = 32;

/// One event of a [`Watch`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of a thread: the first one, a change, or the first one after a disconnect.
    State(Update),
    /// The state of every watched thread has been reported; changes follow as they happen. Reported again after every
    /// disconnect and after threads were added.
    SnapshotComplete,
    /// The states of these threads are unknown until the next one arrives. The watch is reconnecting.
    Disconnected {
        /// The threads; empty with [`Client::watch_all`], where all are affected.
        thread_ids: Vec<Arc<str>>,
        /// When the connection was lost; if it was silent for 15 s before, when its last message arrived.
        since: Instant,
        /// The cause.
        error: Error,
    },
}

/// A state, and its relation to the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The state; with its `elicitations` if [`Watch::with_elicitations`] was called.
    pub state: PauseState,
    /// Changes may have been missed before this state: it is the first of its thread, or the first after a disconnect.
    pub gap: bool,
    /// The revision or the store's epoch differs from the last reported one. `false` only after a gap in which nothing
    /// changed.
    pub changed: bool,
}

/// The states of a set of threads, across reconnects, until it is dropped. Made by [`Client::watch`] and
/// [`Client::watch_all`].
///
/// A lost connection, or 30 s without a message (two heartbeats), is reported as [`Event::Disconnected`]; then the watch
/// reconnects, after 50 to 100 ms at first and 3 to 6 s at most. A slow reader gets the latest states, not all of them.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    all: bool,
    elicitations: bool,
    threads: HashMap<Arc<str>, Thread>,
    streams: BTreeMap<u64, WatchStream>,
    last_stream_id: u64,
    last_added: Instant,
    /// The stream whose first snapshot is awaited. One at a time: threads added meanwhile share the next stream.
    opening: Option<u64>,
    /// Added, and not on a stream yet; some may have been removed since.
    unassigned: Vec<Arc<str>>,
    /// With `all`: paused at the disconnect and absent from the new snapshot; queried one by one.
    missing: Vec<Arc<str>>,
    query_missing: bool,
    /// With `all`: the reported states of queried threads that have resumed. A stream opened before the query may still
    /// deliver older states of them.
    queried: HashMap<Arc<str>, Reported>,
    complete_reported: bool,
    ready: VecDeque<Event>,
    sender: mpsc::Sender<Message>,
    receiver: mpsc::Receiver<Message>,
}

#[derive(Debug)]
struct Thread {
    stream: Option<u64>,
    reported: Option<Reported>,
    gap: bool,
}

/// The last reported revision with its epoch, and when it was received.
#[derive(Debug, Clone, Copy)]
struct Reported {
    epoch: u64,
    revision: u64,
    received: Instant,
}

impl Reported {
    fn of(state: &PauseState, times: Times) -> Self {
        Self { epoch: state.store_epoch, revision: state.revision, received: times.received }
    }

    fn is_same(&self, state: &PauseState) -> bool {
        (self.epoch, self.revision) == (state.store_epoch, state.revision)
    }

    /// Whether this state has overtaken `state`: that is older, and its stream was opened before this state was received.
    /// On a stream opened later, a lower revision means that the server lost its state, and so does another epoch.
    fn has_overtaken(&self, state: &PauseState, times: Times) -> bool {
        self.epoch == state.store_epoch && state.revision < self.revision && times.opened <= self.received
    }
}

#[derive(Debug)]
struct WatchStream {
    thread_ids: Arc<[Arc<str>]>,
    /// The number of its thread ids that are still watched on it.
    live: usize,
    complete: bool,
    disconnected: bool,
    /// Most of its threads have been removed; rebuild it.
    mostly_removed: bool,
    /// The streams that it replaces when its snapshot is complete, and the states of their threads until then.
    replaces: Vec<u64>,
    pending_states: BTreeMap<String, (PauseState, Times)>,
    _handle: stream::StreamHandle,
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
        let (sender, receiver) = mpsc::channel(QUEUE_SIZE);
        Self {
            client,
            all,
            elicitations: false,
            threads: HashMap::new(),
            streams: BTreeMap::new(),
            last_stream_id: 0,
            last_added: Instant::now(),
            opening: None,
            unassigned: Vec::new(),
            missing: Vec::new(),
            query_missing: false,
            queried: HashMap::new(),
            complete_reported: false,
            ready: VecDeque::new(),
            sender,
            receiver,
        }
    }

    /// Adds the open elicitations to the states. Call it before the first [`Watch::next`].
    #[must_use]
    pub fn with_elicitations(self) -> Self {
        Self { elicitations: true, ..self }
    }

    /// Adds a thread; its first state is an event of [`Watch::next`]. Does nothing if the thread, or every thread, is
    /// watched already. `thread_id`: 1 to 256 bytes without control characters.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: `thread_id` is out of its limits; nothing changed.
    pub fn add(&mut self, thread_id: &str) -> Result<(), Error> {
        // The server would refuse the whole stream, with every other thread on it.
        ThreadId::parse("thread_id", thread_id)?;
        if !self.all && !self.threads.contains_key(thread_id) {
            let thread_id: Arc<str> = thread_id.into();
            self.threads.insert(thread_id.clone(), Thread { stream: None, reported: None, gap: true });
            self.unassigned.push(thread_id);
            self.last_added = Instant::now();
            self.complete_reported = false;
            // Threads that are added and removed while disconnected must not accumulate.
            if self.unassigned.len() > 2 * self.threads.len() + MIN_REBUILD_SIZE {
                let threads = &self.threads;
                self.unassigned.retain(|id| threads.get(id).is_some_and(|thread| thread.stream.is_none()));
            }
        }
        Ok(())
    }

    /// Removes a thread. [`Watch::next`] may still return events of it that were queued. Does nothing with
    /// [`Client::watch_all`].
    pub fn remove(&mut self, thread_id: &str) {
        if self.all {
            return;
        }
        let Some(id) = self.threads.remove(thread_id).and_then(|thread| thread.stream) else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.live -= 1;
        if stream.live == 0 && stream.replaces.is_empty() {
            self.streams.remove(&id);
            self.opening.take_if(|opening| *opening == id);
        } else if stream.thread_ids.len() > MIN_REBUILD_SIZE && stream.live < stream.thread_ids.len() / 2 {
            stream.mostly_removed = true;
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

    /// Waits for the next event; with an empty set, for ever.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if self.query_missing {
                self.query_for_missing().await;
                continue;
            }
            self.open_next(false);
            let merge_at = self.can_merge().then_some(self.last_added + MERGE_DELAY);
            tokio::select! {
                biased;
                message = self.receiver.recv() => self.handle(message.expect("this watch holds a sender itself")),
                () = sleep_until(merge_at.unwrap_or(self.last_added)), if merge_at.is_some() => self.open_next(true),
            }
        }
    }

    /// Whether two streams fit into one.
    fn can_merge(&self) -> bool {
        let mut sizes: Vec<_> =
            self.streams.values().filter(|stream| stream.complete).map(|stream| stream.live).collect();
        sizes.sort_unstable();
        self.opening.is_none() && sizes.get(..2).is_some_and(|two| two.iter().sum::<usize>() <= MAX_THREAD_IDS)
    }

    /// Opens a stream for the unassigned threads that replaces the streams that are not larger; with `merge`, all that fit.
    fn open_next(&mut self, merge: bool) {
        if self.opening.is_some() || (self.all && !self.streams.is_empty()) {
            return;
        }
        let mut thread_ids = Vec::new();
        let stream = self.last_stream_id + 1;
        while let (Some(id), true) = (self.unassigned.last(), thread_ids.len() < MAX_THREAD_IDS) {
            if let Some(thread) = self.threads.get_mut(id).filter(|thread| thread.stream.is_none()) {
                thread.stream = Some(stream);
                thread_ids.push(id.clone());
            }
            self.unassigned.pop();
        }
        let live = thread_ids.len();
        let mut smaller: Vec<_> = self.streams.iter().filter(|(_, other)| other.complete).collect();
        smaller.sort_by_key(|(_, other)| other.live);
        let mut replaces = Vec::new();
        for (id, other) in smaller {
            let size = thread_ids.len();
            if (merge || other.mostly_removed || other.live <= size) && size + other.live <= MAX_THREAD_IDS {
                let owned = |thread: &&Arc<str>| self.threads.get(*thread).is_some_and(|t| t.stream == Some(*id));
                thread_ids.extend(other.thread_ids.iter().filter(owned).cloned());
                replaces.push(*id);
            }
        }
        if thread_ids.is_empty() && !self.all {
            return;
        }
        self.last_stream_id = stream;
        self.opening = Some(stream);
        let thread_ids: Arc<[Arc<str>]> = thread_ids.into();
        let handle = stream::start(&self.client, stream, thread_ids.clone(), self.elicitations, self.sender.clone());
        let pending_states = BTreeMap::new();
        let (complete, disconnected, mostly_removed) = (false, false, false);
        self.streams.insert(
            stream,
            WatchStream {
                thread_ids,
                live,
                complete,
                disconnected,
                mostly_removed,
                replaces,
                pending_states,
                _handle: handle,
            },
        );
    }

    fn handle(&mut self, message: Message) {
        // A message that a dropped stream sent before.
        let Some(stream) = self.streams.get_mut(&message.stream_id) else { return };
        self.query_missing = !self.missing.is_empty();
        match message.event {
            StreamEvent::Heartbeat => {}
            StreamEvent::State(state) if self.all => self.report_any(message.stream_id, state, message.times),
            StreamEvent::State(state) => {
                stream.disconnected = false;
                match self.threads.get(state.thread_id.as_str()).and_then(|thread| thread.stream) {
                    Some(owner) if owner == message.stream_id => _ = self.report(state, message.times),
                    Some(owner) if stream.replaces.contains(&owner) => {
                        stream.pending_states.insert(state.thread_id.clone(), (state, message.times));
                    }
                    _ => {}
                }
            }
            StreamEvent::SnapshotComplete => self.on_snapshot_complete(message.stream_id, message.times),
            StreamEvent::Disconnected(since, error) => self.on_disconnected(message.stream_id, since, error),
        }
    }

    /// Reports a state of a thread in the set, unless it is already known. Returns whether it was not overtaken.
    fn report(&mut self, state: PauseState, times: Times) -> bool {
        let Some(thread) = self.threads.get_mut(state.thread_id.as_str()) else { return true };
        let gap = thread.gap;
        let changed = thread.reported.is_none_or(|reported| !reported.is_same(&state));
        // A new stream may be behind the one that it replaces, and any stream behind a query.
        if thread.reported.is_some_and(|reported| reported.has_overtaken(&state, times)) {
            return false;
        }
        if !gap && !changed {
            return true;
        }
        (thread.gap, thread.reported) = (false, Some(Reported::of(&state, times)));
        self.ready.push_back(Event::State(Update { state, gap, changed }));
        true
    }

    /// With `all`: reports a state, and remembers the thread only while it is paused.
    fn report_any(&mut self, stream: u64, state: PauseState, times: Times) {
        let snapshot = self.streams.get(&stream).is_some_and(|stream| !stream.complete);
        if let Some(queried) = self.queried.get(state.thread_id.as_str())
            && (queried.has_overtaken(&state, times) || queried.is_same(&state))
        {
            return;
        }
        let (thread_id, paused) = (Arc::<str>::from(state.thread_id.as_str()), state.paused);
        let known = Thread { stream: Some(stream), reported: None, gap: snapshot };
        self.threads.entry(thread_id.clone()).or_insert(known);
        let is_news = self.report(state, times);
        if is_news && !paused {
            self.threads.remove(&thread_id);
        }
    }

    fn on_snapshot_complete(&mut self, id: u64, times: Times) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        (stream.complete, stream.disconnected) = (true, false);
        let (replaces, pending_states) =
            (std::mem::take(&mut stream.replaces), std::mem::take(&mut stream.pending_states));
        for old in replaces {
            let Some(old_stream) = self.streams.remove(&old) else { continue };
            for thread_id in &*old_stream.thread_ids {
                let thread = self.threads.get_mut(thread_id).filter(|thread| thread.stream == Some(old));
                let (Some(thread), Some(stream)) = (thread, self.streams.get_mut(&id)) else { continue };
                thread.stream = Some(id);
                stream.live += 1;
            }
        }
        pending_states.into_values().for_each(|(state, times)| _ = self.report(state, times));
        self.opening.take_if(|opening| *opening == id);
        if self.streams.get(&id).is_some_and(|stream| stream.live == 0) && !self.all {
            self.streams.remove(&id);
        }
        if self.all {
            // This snapshot has the paused threads only: a known thread that it lacks resumed in the gap.
            self.missing = self.threads.iter().filter(|(_, t)| t.gap).map(|(id, _)| id.clone()).collect();
            self.missing.sort_unstable();
            self.query_missing = true;
            self.queried.retain(|_, queried| queried.received >= times.opened);
        }
        self.report_complete();
    }

    fn report_complete(&mut self) {
        let unassigned =
            self.unassigned.iter().any(|id| self.threads.get(id).is_some_and(|thread| thread.stream.is_none()));
        let streams = self.streams.values().all(|stream| stream.complete || (stream.live == 0 && !self.all));
        if !self.complete_reported && !unassigned && streams && self.missing.is_empty() {
            self.complete_reported = true;
            self.ready.push_back(Event::SnapshotComplete);
        }
    }

    fn on_disconnected(&mut self, id: u64, since: Instant, error: Error) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.complete = false;
        stream.pending_states.clear();
        let refused = !error.is_transient() && self.opening == Some(id);
        let first = !std::mem::replace(&mut stream.disconnected, true);
        let mut thread_ids = Vec::new();
        for (thread_id, thread) in &mut self.threads {
            if thread.stream == Some(id) {
                thread.gap = true;
                thread_ids.push(thread_id.clone());
            }
        }
        thread_ids.sort_unstable();
        if refused {
            // It keeps retrying for its own threads, but no other stream waits for it.
            self.opening = None;
            for old in std::mem::take(&mut stream.replaces) {
                self.streams.get_mut(&old).map(|old| old.mostly_removed = false).unwrap_or_default();
            }
        }
        let affected = self.all || !thread_ids.is_empty();
        if !affected && refused {
            self.streams.remove(&id);
        }
        if affected && first {
            self.complete_reported = false;
            self.missing.clear();
            let thread_ids = if self.all { Vec::new() } else { thread_ids };
            self.ready.push_back(Event::Disconnected { thread_ids, since, error });
        }
    }

    /// Queries the threads that the snapshot lacks, until a query fails.
    async fn query_for_missing(&mut self) {
        while let Some(thread_id) = self.missing.last() {
            let request = GetPauseStateRequest { thread_id: thread_id.to_string() };
            let opened = Instant::now();
            let answer = self.client.get_pause_state(request).await;
            if answer.as_ref().is_err_and(Error::is_transient) {
                break;
            }
            let Some(thread_id) = self.missing.pop() else { break };
            if let Some(state) = answer.ok().and_then(|response| response.pause_state) {
                self.on_query_response(thread_id, state, Times { opened, received: Instant::now() });
            }
        }
        self.query_missing = false;
        self.report_complete();
    }

    /// With `all`: reports the state of a missing thread, unless its stream has delivered one meanwhile.
    fn on_query_response(&mut self, thread_id: Arc<str>, state: PauseState, times: Times) {
        if !self.threads.get(&thread_id).is_some_and(|thread| thread.gap) {
            return;
        }
        let (paused, reported) = (state.paused, Reported::of(&state, times));
        let elicitations = if self.elicitations { state.elicitations } else { Vec::new() };
        self.report(PauseState { elicitations, ..state }, times);
        if !paused {
            self.threads.remove(&thread_id);
            self.queried.insert(thread_id, reported);
        }
    }
}

#[cfg(test)]
mod tests;
