//! The watch of the client library: real subscriptions of the server's hub, one per thread, with events that are under
//! way until the scheduler lets them arrive. A lost `confirm` request is repeated, as on a new stream.
use super::client::{Error, Network, PauseState};
use super::server::{id, told};
use crate::coordinator::hub::{Frame, Hub, Interest, Shown, Sink, Subscription};
use crate::core::types::ThreadId;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{task::yield_now, time::Instant};

#[allow(dead_code)] // There are only states: the simulation tests broken connections.
pub(crate) enum Event {
    State(Update),
    SnapshotComplete,
    Disconnected { thread_ids: Vec<Arc<str>>, since: Instant, error: Error },
}

pub(crate) struct Update {
    pub(crate) state: PauseState,
}

#[allow(dead_code)] // No thread is refused here.
pub(crate) enum Message {
    Event(Event),
    Refused { thread_ids: Vec<Arc<str>>, since: Instant, error: Error },
    OthersComplete,
    Confirmed { states: Vec<PauseState>, asked: Instant },
}

pub(crate) struct Watch {
    hub: Arc<Hub>,
    network: Arc<Network>,
    threads: BTreeMap<String, Subscription>,
    confirm: BTreeSet<Arc<str>>,
    ready: VecDeque<Message>,
}

impl Watch {
    pub(super) fn new(hub: Arc<Hub>, network: Arc<Network>) -> Self {
        let (threads, confirm, ready) = Default::default();
        Self { hub, network, threads, confirm, ready }
    }

    pub(crate) fn add(&mut self, thread_id: &str) -> Result<(), Error> {
        let hub = &self.hub;
        let subscribe = || hub.watch(Interest::Threads(vec![id(thread_id)]));
        self.threads.entry(thread_id.to_owned()).or_insert_with(subscribe);
        Ok(())
    }

    /// Events that were already sent still arrive, as with the real watch.
    pub(crate) fn remove(&mut self, thread_id: &str) {
        self.threads.remove(thread_id);
        self.confirm.remove(thread_id);
    }

    pub(crate) fn confirm(&mut self, thread_id: Arc<str>, _urgent_until: Instant) {
        self.confirm.insert(thread_id);
    }

    pub(crate) fn has_stream(&self) -> bool {
        true
    }

    pub(crate) async fn next_message(&mut self) -> Message {
        while self.ready.is_empty() {
            let asked = Instant::now();
            if !self.confirm.is_empty() && self.network.carry().await.is_err() {
                continue;
            }
            poll_fn(|context| self.poll(context, asked)).await;
            // The event is under way; a drop at this point loses nothing.
            yield_now().await;
        }
        self.ready.pop_front().expect("it was filled just now")
    }

    /// Collects the events that are due, and then the states to be confirmed.
    fn poll(&mut self, context: &mut Context<'_>, asked: Instant) -> Poll<()> {
        let mut states = Vec::new();
        for subscription in self.threads.values_mut() {
            if let Poll::Ready(false) = subscription.poll_next(context, &mut Queue(&mut states)) {
                panic!("no case with a watch closes the hub");
            }
        }
        self.ready.extend(states.into_iter().map(|state| Message::Event(Event::State(Update { state }))));
        if let (Some(subscription), false) = (self.threads.values().next(), self.confirm.is_empty()) {
            let threads: Vec<_> = std::mem::take(&mut self.confirm).iter().map(|thread_id| id(thread_id)).collect();
            let mut states = Vec::new();
            subscription.give(&threads, &mut Queue(&mut states));
            self.ready.push_back(Message::Confirmed { states, asked });
        }
        if self.ready.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }
}

struct Queue<'a>(&'a mut Vec<PauseState>);

impl Sink for Queue<'_> {
    fn state(&mut self, thread: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, floor: u64) {
        self.0.push(told(thread, known.map(|(shown, _)| shown), floor));
    }

    fn snapshot_complete(&mut self) {}

    fn heartbeat(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }
}
