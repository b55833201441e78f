//! The bridge itself: follows the coordinator's watch, and keeps Codex's counts in step with it.
//!
//! 1. The bridge watches each thread of Codex from the first message about it until Codex closes it.
//! 2. While the coordinator is unreachable, a paused thread stays paused for at most the grace; the first state after that
//!    decides again.
//! 3. At the end, the bridge decrements all counts that are its own, and waits at most [`END_TIMEOUT`] for the answers.
//! 4. A problem is reported once, not once per thread.
use super::guard::Guard;
use super::message::{Ids, News, Op, Outcome, TESTED_VERSION, Waiting, differs, version};
use super::publish::Publisher;
use super::reconcile::{NextStep, Reconciler};
use super::report::say;
use crate::cli::{duration, failure};
use crate::client::{Address, Client, Error, Event, Message, Watch};
use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// The maximum time that the end waits for the answers of the app-server.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay after which an overloaded app-server is asked again.
const BUSY_DELAY: Duration = Duration::from_millis(200);
/// The delay after which a count that could not be undone is tried again.
const UNDO_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of threads that are followed. An app-server unloads a thread after half an hour without use.
const MAX_THREADS: usize = 10_000;
/// The capacity of the queue between the connection and the bridge. It is larger than any backlog, so no client waits.
const QUEUE_SIZE: usize = 1_024;

/// An event of the connection to the app-server.
#[derive(Debug)]
pub(super) enum Input {
    /// The app-server takes requests, one message per string.
    Connected(mpsc::UnboundedSender<String>),
    Disconnected,
    /// The threads that the app-server has: all others are gone.
    Loaded(Vec<String>),
    News(News),
    Answer(u64, Outcome),
    /// The app-server speaks another protocol, as the message says.
    Unusable(String),
    /// Ends the bridge.
    Stop,
}

/// The sender of a connection.
pub(super) type Inputs = mpsc::Sender<Input>;

pub(super) fn inputs() -> (Inputs, mpsc::Receiver<Input>) {
    mpsc::channel(QUEUE_SIZE)
}

/// The coordinator to follow, and the options.
pub(super) struct Plan {
    pub client: Client,
    pub address: Address,
    /// Put before Codex's thread ids to get the coordinator's.
    pub prefix: String,
    pub grace: Duration,
    pub publish: bool,
    /// Undoes our counts if this process is killed.
    pub guard: Option<Guard>,
}

/// The reason for the end of the bridge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    /// The app-server cannot pause threads; it was reported.
    Unusable,
}

/// The bridge.
pub(super) struct Bridge {
    ids: Ids,
    watch: Watch,
    address: Address,
    prefix: String,
    grace: Duration,
    counts: Reconciler,
    publisher: Option<Publisher>,
    guard: Option<Guard>,
    requests: Option<mpsc::UnboundedSender<String>>,
    /// The `userAgent` of the app-server.
    server: Option<String>,
    link: Link,
    retry_at: Option<Instant>,
    /// The end of the wait for the last answers; set by [`Input::Stop`].
    ends_at: Option<Instant>,
    reported: Reported,
}

/// The connection to the coordinator.
#[derive(Default)]
struct Link {
    is_lost: bool,
    /// The coordinator's ids of the threads whose state is unknown, and the end of the grace of each.
    unknown: HashMap<String, Instant>,
}

impl Link {
    /// When the first grace ends.
    fn thaw_at(&self) -> Option<Instant> {
        self.unknown.values().min().copied()
    }

    fn lose(&mut self, thread_ids: &[Arc<str>], thaw_at: Instant) {
        for thread_id in thread_ids {
            self.unknown.entry(thread_id.to_string()).or_insert(thaw_at);
        }
    }

    /// The coordinator answers.
    fn connected(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            say("connected to the coordinator again");
        }
    }
}

#[derive(Default)]
struct Reported {
    refusal: bool,
    not_undone: bool,
    too_many: bool,
    refused_thread: bool,
}

impl Bridge {
    pub(super) fn new(plan: Plan, ids: Ids) -> Self {
        Self {
            ids,
            watch: plan.client.watch(),
            address: plan.address,
            prefix: plan.prefix,
            grace: plan.grace,
            counts: Reconciler::default(),
            publisher: plan.publish.then(|| Publisher::new(plan.client)),
            guard: plan.guard,
            requests: None,
            server: None,
            link: Link::default(),
            retry_at: None,
            ends_at: None,
            reported: Reported::default(),
        }
    }

    /// Runs until [`Input::Stop`], the end of the inputs, or, with `end_if_unusable`, until the app-server turns out to be
    /// unable to pause threads.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<Input>, end_if_unusable: bool) -> End {
        loop {
            let timer = [self.link.thaw_at(), self.retry_at, self.ends_at].into_iter().flatten().min();
            let mut due = pin!(sleep_until(timer.unwrap_or_else(Instant::now)));
            tokio::select! {
                biased;
                () = &mut due, if timer.is_some() => self.on_timer(),
                input = inputs.recv() => {
                    let is_usable = match input {
                        Some(Input::Stop) => { self.stop(); true }
                        Some(input) => self.on_input(input),
                        None => return self.end().await,
                    };
                    if !is_usable && end_if_unusable {
                        self.end().await;
                        return End::Unusable;
                    }
                }
                message = self.watch.next_message(), if self.ends_at.is_none() => self.on_message(message),
            }
            self.send();
            if self.ends_at.is_some_and(|ends_at| self.is_settled() || ends_at <= Instant::now()) {
                return self.end().await;
            }
        }
    }

    fn stop(&mut self) {
        self.counts.release_all();
        self.ends_at = Some(Instant::now() + END_TIMEOUT);
    }

    /// Whether nothing is left to do at the end.
    fn is_settled(&self) -> bool {
        self.requests.is_none() || self.counts.ours().is_empty()
    }

    async fn end(self) -> End {
        // From now on no request can follow, and the connection may be closed.
        drop(self.requests);
        if let Some(publisher) = self.publisher {
            publisher.end().await;
        }
        End::Stopped
    }

    /// Returns false if the app-server cannot pause threads.
    fn on_input(&mut self, input: Input) -> bool {
        match input {
            Input::Connected(requests) => self.requests = Some(requests),
            Input::Disconnected => {
                self.requests = None;
                self.counts.disconnect();
                // A disconnected app-server cannot report that it no longer waits for a person.
                if let Some(publisher) = &mut self.publisher {
                    publisher.clear();
                }
            }
            Input::Unusable(why) => {
                say(&format!("{why}. Use a version that does; the commands of Codex are not paused"));
                return false;
            }
            Input::Loaded(thread_ids) => {
                for gone in self.counts.threads_except(&thread_ids) {
                    self.remove(&gone);
                }
                thread_ids.iter().for_each(|thread_id| self.add(thread_id));
            }
            Input::News(News::Server(server)) => self.server = Some(server),
            Input::News(News::Loaded(thread_id)) => self.add(&thread_id),
            Input::News(News::Status(thread_id, waiting)) => {
                self.add(&thread_id);
                self.publish(&thread_id, waiting);
            }
            Input::News(News::Closed(thread_id)) => self.remove(&thread_id),
            Input::Answer(number, outcome) => return self.on_answer(number, outcome),
            Input::Stop => {}
        }
        true
    }

    fn add(&mut self, thread_id: &str) {
        if self.counts.len() >= MAX_THREADS {
            if !std::mem::replace(&mut self.reported.too_many, true) {
                say(&format!("Codex has more than {MAX_THREADS} threads: the others are not paused"));
            }
        } else if self.counts.add(thread_id) && self.watch.add(&self.coordinators(thread_id)).is_err() {
            // The coordinator does not allow this id, so no thread with it can be paused.
            self.counts.remove(thread_id);
        }
    }

    fn remove(&mut self, thread_id: &str) {
        let ours = self.coordinators(thread_id);
        self.counts.remove(thread_id);
        self.watch.remove(&ours);
        self.link.unknown.remove(&ours);
        self.publish(thread_id, None);
    }

    fn publish(&mut self, thread_id: &str, waiting: Option<Waiting>) {
        let thread_id = self.coordinators(thread_id);
        if let Some(publisher) = &mut self.publisher {
            publisher.set(&thread_id, waiting);
        }
    }

    /// The coordinator's id of a thread.
    fn coordinators(&self, thread_id: &str) -> String {
        format!("{}{thread_id}", self.prefix)
    }

    fn on_answer(&mut self, number: u64, outcome: Outcome) -> bool {
        match self.counts.answer(number, outcome) {
            NextStep::Nothing => {}
            NextStep::Retry => self.retry_at = Some(Instant::now() + BUSY_DELAY),
            NextStep::NotLoaded(thread_id) => self.remove(&thread_id),
            NextStep::Unusable(outcome) => {
                say(&self.unusable(&outcome));
                return false;
            }
            NextStep::Refused(why) => {
                if !std::mem::replace(&mut self.reported.refusal, true) {
                    let differs = differs(self.server.as_deref(), Op::Increment.method(), &Outcome::Failed(why));
                    say(&format!("{differs}; its commands may not be paused"));
                }
            }
            NextStep::NotUndone(why) => {
                self.retry_at.get_or_insert(Instant::now() + UNDO_DELAY);
                if !std::mem::replace(&mut self.reported.not_undone, true) {
                    let differs = differs(self.server.as_deref(), Op::Decrement.method(), &Outcome::Failed(why));
                    say(&format!("{differs}; trying again, because its commands stay paused until it is done"));
                }
            }
        }
        true
    }

    fn unusable(&self, outcome: &Outcome) -> String {
        let server = self.server.as_deref().unwrap_or("unknown");
        let found = version(server).unwrap_or(server);
        let then = "its commands are not paused, everything else works as without the bridge";
        match outcome {
            Outcome::NotExperimental => format!(
                "the client turns off what the bridge needs: it sends `initialize` with capabilities.experimentalApi false \
                 (Codex {found}; tested with {TESTED_VERSION}); {then}"
            ),
            _ => format!(
                "Codex {found} does not know thread/increment_elicitation, which Codex {TESTED_VERSION} does (the tested \
                 version): use a version that knows it; {then}"
            ),
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Event(Event::State(update)) => {
                self.link.connected();
                let state = update.state;
                self.link.unknown.remove(&state.thread_id);
                if let Some(thread_id) = state.thread_id.strip_prefix(&self.prefix) {
                    self.counts.set_paused(thread_id, state.paused);
                }
            }
            Message::Event(Event::SnapshotComplete) => {
                self.link.connected();
                self.link = Link::default();
            }
            Message::Event(Event::Disconnected { thread_ids, since, error }) => {
                self.link.lose(&thread_ids, since + self.grace);
                if !std::mem::replace(&mut self.link.is_lost, true) {
                    let (address, why) = (&self.address, failure::cause(&error));
                    let grace = duration::show(self.grace);
                    say(&format!("no coordinator at {address}: {why}; trying again. Paused threads resume in {grace}"));
                }
            }
            Message::Refused { thread_ids, since, error } => {
                self.link.connected();
                self.link.lose(&thread_ids, since + self.grace);
                self.report_refused(&thread_ids[0], &error);
            }
            // The states and the refusals say the same as `OthersComplete`, and the bridge requests no confirmation.
            Message::OthersComplete | Message::Confirmed { .. } => {}
        }
    }

    fn report_refused(&mut self, thread_id: &str, error: &Error) {
        if !std::mem::replace(&mut self.reported.refused_thread, true) {
            let thread_id = thread_id.strip_prefix(&self.prefix).unwrap_or(thread_id);
            let (address, why, grace) = (&self.address, failure::cause(error), duration::show(self.grace));
            say(&format!(
                "the coordinator at {address} refuses thread {thread_id}: {why}; trying again. Until then its commands are \
                 not paused; if they are now, they resume in {grace}. Further threads are not reported"
            ));
        }
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            self.counts.retry();
        }
        for (ours, _) in self.link.unknown.extract_if(|_, thaw_at| *thaw_at <= now) {
            let Some(thread_id) = ours.strip_prefix(&self.prefix) else { continue };
            if self.counts.is_paused(thread_id) {
                self.counts.set_paused(thread_id, false);
                say(&format!("thread {thread_id} resumes: its state is unknown for {}", duration::show(self.grace)));
            }
        }
    }

    /// Sends the requests that are due. The guard gets the threads first, so that it can undo these requests too.
    fn send(&mut self) {
        let requests = match &self.requests {
            Some(_) => self.counts.requests(),
            None => Vec::new(),
        };
        if let Some(guard) = &mut self.guard {
            guard.set(&self.counts.ours());
        }
        for request in requests {
            let line = self.ids.count_request(request.number, request.op, &request.thread_id);
            // If it fails, the connection is lost, which is reported separately.
            let _ = self.requests.as_ref().map(|requests| requests.send(line));
        }
    }
}
