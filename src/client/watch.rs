//! A watch that heals itself, over a set of threads that may change while it runs.
//!
//! A stream cannot be told to watch one more thread, so the set is spread over streams (*legs*). What is added while a
//! leg is being opened waits and shares the next one. A new leg also takes over every leg that is not larger than itself
//! and keeps the old ones until its own snapshot is complete. So adding N threads one by one sends each id about log2(N)
//! times and leaves about log2(N) small legs beside the full ones. When nothing has been added for a while, legs that fit
//! into one are merged: a set that rests has one stream for each 10,000 threads or so.
//!
//! 1. Each thread belongs to one leg at a time, so its states come in order.
//! 2. A change of legs is no gap: the old leg serves until the new one has told everything.
//! 3. Memory is bounded by the set: events wait in the network, not here.
//! 4. What is told at once is told in the order of the thread ids, so that the same events give the same course (the
//!    simulation replays them).
//! 5. Every break is told, and the first state after it carries `gap`; `paused_total` says what was missed.
mod stream;

use super::{Client, Error, GetPauseStateRequest, PauseState};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stream::{Message, Times, What};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The most thread ids that one stream may name.
const MOST_IDS: usize = 10_000;
/// Messages between the legs and their reader: enough to keep both busy, few enough that a slow reader slows the server.
const IN_FLIGHT: usize = 64;
/// So long after the last thread was added, legs are merged: more are hardly to be expected, and nobody waits for it.
const REST: Duration = Duration::from_secs(1);
/// A leg with more dead ids than live ones is opened anew, unless it is as small as this.
const SMALL: usize = 32;

/// One event of a [`Watch`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of a thread: the first one, a change, or the first one after a break.
    State(Update),
    /// Every watched thread has been told, and all changes come as they happen. Told again after every break and after
    /// threads were added.
    SnapshotComplete,
    /// From here on nothing is known of these threads until their next state comes. The watch is trying again.
    Disconnected {
        /// The threads; empty with [`Client::watch_all`], where it is all of them.
        thread_ids: Vec<Arc<str>>,
        /// Why.
        error: Error,
    },
}

/// A state, and how it follows on the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The state; its `elicitations` are filled if [`Watch::with_elicitations`] asked for them.
    pub state: PauseState,
    /// Changes may have been missed before this state: it is the first of its thread, or the first after a break.
    pub gap: bool,
    /// The revision differs from the last state told. `false` only after a gap: nothing happened in it.
    pub changed: bool,
}

/// The states of a set of threads, across lost connections, for ever. Made by [`Client::watch`] and
/// [`Client::watch_all`].
///
/// A break of the connection, or 30 s of silence (two heartbeats), is told as [`Event::Disconnected`]; then the watch
/// connects again, after 50 ms at first, after 3 to 6 s at most. A reader that is slow gets the latest states, not all.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    all: bool,
    elicitations: bool,
    threads: HashMap<Arc<str>, Thread>,
    legs: BTreeMap<u64, WatchStream>,
    last_leg: u64,
    last_added: Instant,
    /// The leg whose first snapshot is awaited. One at a time: what is added meanwhile shares the next.
    opening: Option<u64>,
    /// Added, and on no leg yet; some may have been removed since.
    waiting: Vec<Arc<str>>,
    /// With `all`: paused when the stream broke, and not in the new snapshot. To be asked for one by one.
    missing: Vec<Arc<str>>,
    ask_missing: bool,
    /// With `all`: what was told of resumed threads that were asked for. A stream that was opened before may still tell
    /// of them what is older.
    asked: HashMap<Arc<str>, Told>,
    told_complete: bool,
    ready: VecDeque<Event>,
    to: mpsc::Sender<Message>,
    from: mpsc::Receiver<Message>,
}

#[derive(Debug)]
struct Thread {
    leg: Option<u64>,
    told: Option<Told>,
    gap: bool,
}

/// The revision that was told last, and when it came.
#[derive(Debug, Clone, Copy)]
struct Told {
    revision: u64,
    came: Instant,
}

impl Told {
    /// Whether a state was overtaken by this one: it is older, and so may its stream be. What is older on a stream that
    /// was opened later comes from a server that has lost its state.
    fn has_overtaken(&self, revision: u64, times: Times) -> bool {
        revision < self.revision && times.opened <= self.came
    }
}

#[derive(Debug)]
struct WatchStream {
    thread_ids: Arc<[Arc<str>]>,
    /// How many threads belong to it.
    live: usize,
    complete: bool,
    broken: bool,
    /// Mostly dead ids: to be opened anew.
    worn: bool,
    /// The legs that it takes over when its snapshot is complete, and what it has told of their threads until then.
    replaces: Vec<u64>,
    held_back: BTreeMap<String, (PauseState, Times)>,
    _running: stream::Running,
}

impl Client {
    /// Watches a set of threads, at first none, across lost connections: [`Watch::add`] names them.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone(), false)
    }

    /// Watches every thread that this client may see, across lost connections.
    pub fn watch_all(&self) -> Watch {
        Watch::new(self.clone(), true)
    }
}

impl Watch {
    pub(super) fn new(client: Client, all: bool) -> Self {
        let (to, from) = mpsc::channel(IN_FLIGHT);
        Self {
            client,
            all,
            elicitations: false,
            threads: HashMap::new(),
            legs: BTreeMap::new(),
            last_leg: 0,
            last_added: Instant::now(),
            opening: None,
            waiting: Vec::new(),
            missing: Vec::new(),
            ask_missing: false,
            asked: HashMap::new(),
            told_complete: false,
            ready: VecDeque::new(),
            to,
            from,
        }
    }

    /// States come with their open elicitations. To be said before the first [`Watch::next`].
    #[must_use]
    pub fn with_elicitations(self) -> Self {
        Self { elicitations: true, ..self }
    }

    /// Watches one thread more; [`Watch::next`] does the work. Nothing happens if it is watched already, or all are.
    ///
    /// # Errors
    /// [`Error::InvalidField`]: no thread can have this id.
    pub fn add(&mut self, thread_id: &str) -> Result<(), Error> {
        check_thread_id(thread_id)?;
        if !self.all && !self.threads.contains_key(thread_id) {
            let thread_id: Arc<str> = thread_id.into();
            self.threads.insert(thread_id.clone(), Thread { leg: None, told: None, gap: true });
            self.waiting.push(thread_id);
            self.last_added = Instant::now();
            self.told_complete = false;
            // Threads that come and go while there is no connection must not pile up.
            if self.waiting.len() > 2 * self.threads.len() + SMALL {
                let threads = &self.threads;
                self.waiting.retain(|id| threads.get(id).is_some_and(|thread| thread.leg.is_none()));
            }
        }
        Ok(())
    }

    /// Watches one thread less. Events of it that wait to be read may still come.
    pub fn remove(&mut self, thread_id: &str) {
        if self.all {
            return;
        }
        let Some(id) = self.threads.remove(thread_id).and_then(|thread| thread.leg) else { return };
        let Some(leg) = self.legs.get_mut(&id) else { return };
        leg.live -= 1;
        if leg.live == 0 && leg.replaces.is_empty() {
            self.legs.remove(&id);
            self.opening.take_if(|opening| *opening == id);
        } else if leg.thread_ids.len() > SMALL && leg.live < leg.thread_ids.len() / 2 {
            leg.worn = true;
        }
    }

    /// How many threads are watched by name.
    pub fn len(&self) -> usize {
        if self.all { 0 } else { self.threads.len() }
    }

    /// Whether no thread is watched by name.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next event. Waits for ever if nothing happens, which with an empty set is certain.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if self.ask_missing {
                self.ask_for_missing().await;
                continue;
            }
            self.open_next(false);
            let rest = self.can_merge().then_some(self.last_added + REST);
            tokio::select! {
                biased;
                message = self.from.recv() => self.take(message.expect("this watch holds a sender itself")),
                () = sleep_until(rest.unwrap_or(self.last_added)), if rest.is_some() => self.open_next(true),
            }
        }
    }

    /// Whether there are two legs that fit into one.
    fn can_merge(&self) -> bool {
        let mut sizes: Vec<_> = self.legs.values().filter(|leg| leg.complete).map(|leg| leg.live).collect();
        sizes.sort_unstable();
        self.opening.is_none() && sizes.get(..2).is_some_and(|two| two.iter().sum::<usize>() <= MOST_IDS)
    }

    /// Opens a leg for what waits, and lets it take over the legs that are not larger; with `merge`, all that fit.
    fn open_next(&mut self, merge: bool) {
        if self.opening.is_some() || (self.all && !self.legs.is_empty()) {
            return;
        }
        let mut thread_ids = Vec::new();
        let leg = self.last_leg + 1;
        while let (Some(id), true) = (self.waiting.last(), thread_ids.len() < MOST_IDS) {
            if let Some(thread) = self.threads.get_mut(id).filter(|thread| thread.leg.is_none()) {
                thread.leg = Some(leg);
                thread_ids.push(id.clone());
            }
            self.waiting.pop();
        }
        let live = thread_ids.len();
        let mut smaller: Vec<_> = self.legs.iter().filter(|(_, other)| other.complete).collect();
        smaller.sort_by_key(|(_, other)| other.live);
        let mut replaces = Vec::new();
        for (id, other) in smaller {
            let size = thread_ids.len();
            if (merge || other.worn || other.live <= size) && size + other.live <= MOST_IDS {
                let owned = |thread: &&Arc<str>| self.threads.get(*thread).is_some_and(|t| t.leg == Some(*id));
                thread_ids.extend(other.thread_ids.iter().filter(owned).cloned());
                replaces.push(*id);
            }
        }
        if thread_ids.is_empty() && !self.all {
            return;
        }
        self.last_leg = leg;
        self.opening = Some(leg);
        let thread_ids: Arc<[Arc<str>]> = thread_ids.into();
        let running = stream::start(&self.client, leg, thread_ids.clone(), self.elicitations, self.to.clone());
        let held_back = BTreeMap::new();
        let (complete, broken, worn) = (false, false, false);
        self.legs.insert(
            leg,
            WatchStream { thread_ids, live, complete, broken, worn, replaces, held_back, _running: running },
        );
    }

    fn take(&mut self, message: Message) {
        // What an abandoned leg had still sent.
        let Some(leg) = self.legs.get_mut(&message.leg) else { return };
        self.ask_missing = !self.missing.is_empty();
        match message.what {
            What::Heartbeat => {}
            What::State(state) if self.all => self.tell_any(message.leg, state, message.times),
            What::State(state) => {
                leg.broken = false;
                match self.threads.get(state.thread_id.as_str()).and_then(|thread| thread.leg) {
                    Some(owner) if owner == message.leg => _ = self.tell(state, message.times),
                    Some(owner) if leg.replaces.contains(&owner) => {
                        leg.held_back.insert(state.thread_id.clone(), (state, message.times));
                    }
                    _ => {}
                }
            }
            What::Complete => self.complete(message.leg, message.times),
            What::Broken(error) => self.broken(message.leg, error),
        }
    }

    /// Tells a state of a thread in the set, unless it is no news. `false`: it was overtaken.
    fn tell(&mut self, state: PauseState, times: Times) -> bool {
        let Some(thread) = self.threads.get_mut(state.thread_id.as_str()) else { return true };
        let (gap, revision) = (thread.gap, state.revision);
        let changed = thread.told.is_none_or(|told| told.revision != revision);
        // A new leg may be behind the old one that it takes over, and a stream behind what was asked for.
        if thread.told.is_some_and(|told| told.has_overtaken(revision, times)) {
            return false;
        }
        if !gap && !changed {
            return true;
        }
        (thread.gap, thread.told) = (false, Some(Told { revision, came: times.came }));
        self.ready.push_back(Event::State(Update { state, gap, changed }));
        true
    }

    /// With `all`: tells a state, and remembers the thread only while it is paused.
    fn tell_any(&mut self, leg: u64, state: PauseState, times: Times) {
        let snapshot = self.legs.get(&leg).is_some_and(|leg| !leg.complete);
        if let Some(asked) = self.asked.get(state.thread_id.as_str())
            && (asked.has_overtaken(state.revision, times) || asked.revision == state.revision)
        {
            return;
        }
        let (thread_id, paused) = (Arc::<str>::from(state.thread_id.as_str()), state.paused);
        let known = Thread { leg: Some(leg), told: None, gap: snapshot };
        self.threads.entry(thread_id.clone()).or_insert(known);
        let is_news = self.tell(state, times);
        if is_news && !paused {
            self.threads.remove(&thread_id);
        }
    }

    fn complete(&mut self, id: u64, times: Times) {
        let Some(leg) = self.legs.get_mut(&id) else { return };
        (leg.complete, leg.broken) = (true, false);
        let (replaces, held_back) = (std::mem::take(&mut leg.replaces), std::mem::take(&mut leg.held_back));
        for old in replaces {
            let Some(old_leg) = self.legs.remove(&old) else { continue };
            for thread_id in &*old_leg.thread_ids {
                let thread = self.threads.get_mut(thread_id).filter(|thread| thread.leg == Some(old));
                let (Some(thread), Some(leg)) = (thread, self.legs.get_mut(&id)) else { continue };
                thread.leg = Some(id);
                leg.live += 1;
            }
        }
        held_back.into_values().for_each(|(state, times)| _ = self.tell(state, times));
        self.opening.take_if(|opening| *opening == id);
        if self.legs.get(&id).is_some_and(|leg| leg.live == 0) && !self.all {
            self.legs.remove(&id);
        }
        if self.all {
            // A snapshot of everything names the paused threads only: what it does not name was resumed in the gap.
            self.missing = self.threads.iter().filter(|(_, t)| t.gap).map(|(id, _)| id.clone()).collect();
            self.missing.sort_unstable();
            self.ask_missing = true;
            self.asked.retain(|_, asked| asked.came >= times.opened);
        }
        self.tell_complete();
    }

    fn tell_complete(&mut self) {
        let waiting = self.waiting.iter().any(|id| self.threads.get(id).is_some_and(|thread| thread.leg.is_none()));
        let legs = self.legs.values().all(|leg| leg.complete || (leg.live == 0 && !self.all));
        if !self.told_complete && !waiting && legs && self.missing.is_empty() {
            self.told_complete = true;
            self.ready.push_back(Event::SnapshotComplete);
        }
    }

    fn broken(&mut self, id: u64, error: Error) {
        let Some(leg) = self.legs.get_mut(&id) else { return };
        leg.complete = false;
        leg.held_back.clear();
        let refused = !error.is_transient() && self.opening == Some(id);
        let first = !std::mem::replace(&mut leg.broken, true);
        let mut thread_ids = Vec::new();
        for (thread_id, thread) in &mut self.threads {
            if thread.leg == Some(id) {
                thread.gap = true;
                thread_ids.push(thread_id.clone());
            }
        }
        thread_ids.sort_unstable();
        if refused {
            // It goes on trying for its own threads, but nobody else waits for it.
            self.opening = None;
            for old in std::mem::take(&mut leg.replaces) {
                self.legs.get_mut(&old).map(|old| old.worn = false).unwrap_or_default();
            }
        }
        let affected = self.all || !thread_ids.is_empty();
        if !affected && refused {
            self.legs.remove(&id);
        }
        if affected && first {
            self.told_complete = false;
            self.missing.clear();
            let thread_ids = if self.all { Vec::new() } else { thread_ids };
            self.ready.push_back(Event::Disconnected { thread_ids, error });
        }
    }

    /// Asks for the threads that a snapshot of everything left out, as far as that works now.
    async fn ask_for_missing(&mut self) {
        while let Some(thread_id) = self.missing.last() {
            let request = GetPauseStateRequest { thread_id: thread_id.to_string() };
            let opened = Instant::now();
            let answer = self.client.get_pause_state(request).await;
            if answer.as_ref().is_err_and(Error::is_transient) {
                break;
            }
            let Some(thread_id) = self.missing.pop() else { break };
            if let Some(state) = answer.ok().and_then(|response| response.pause_state) {
                self.answered(thread_id, state, Times { opened, came: Instant::now() });
            }
        }
        self.ask_missing = false;
        self.tell_complete();
    }

    /// With `all`: tells the state of a missing thread, unless its stream has told of it meanwhile: then that goes on.
    fn answered(&mut self, thread_id: Arc<str>, state: PauseState, times: Times) {
        if !self.threads.get(&thread_id).is_some_and(|thread| thread.gap) {
            return;
        }
        let (paused, revision) = (state.paused, state.revision);
        let elicitations = if self.elicitations { state.elicitations } else { Vec::new() };
        self.tell(PauseState { elicitations, ..state }, times);
        if !paused {
            self.threads.remove(&thread_id);
            self.asked.insert(thread_id, Told { revision, came: times.came });
        }
    }
}

/// What the server would refuse, and with it every other thread of the stream.
pub(crate) fn check_thread_id(thread_id: &str) -> Result<(), Error> {
    let problem = match thread_id.len() {
        0 => "is empty; allowed: 1 to 256 bytes".to_owned(),
        length @ 257.. => format!("has {length} bytes; allowed: 1 to 256"),
        _ if thread_id.chars().any(char::is_control) => "has a control character; allowed: none".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::invalid_field("thread_id", format!("thread_id {problem}")))
}

#[cfg(test)]
mod tests;
