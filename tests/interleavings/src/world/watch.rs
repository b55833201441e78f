//! The watch of the client library: real subscriptions of the server's hub, one for each thread, and events that are on
//! their way until the scheduler lets them arrive.
use super::client::{Error, PauseState};
use super::server::{id, told};
use crate::coordinator::hub::{Frame, Hub, Interest, Shown, Sink, Subscription};
use crate::core::types::ThreadId;
use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    sync::Arc,
    task::Poll,
};
use tokio::task::yield_now;

#[allow(dead_code)] // Breaks of the connection belong to the simulation.
pub(crate) enum Event {
    State(Update),
    SnapshotComplete,
    Disconnected { thread_ids: Vec<Arc<str>>, since: tokio::time::Instant, error: Error },
}

pub(crate) struct Update {
    pub(crate) state: PauseState,
    pub(crate) gap: bool,
}

pub(crate) struct Watch {
    hub: Arc<Hub>,
    threads: BTreeMap<String, Watched>,
    ready: VecDeque<Event>,
}

struct Watched {
    subscription: Subscription,
    told: bool,
}

impl Watch {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, threads: BTreeMap::new(), ready: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, thread_id: &str) -> Result<(), Error> {
        let hub = &self.hub;
        self.threads.entry(thread_id.to_owned()).or_insert_with(|| Watched {
            subscription: hub.watch(Interest::Threads(vec![id(thread_id)])),
            told: false,
        });
        Ok(())
    }

    /// Events of it that wait to be read still come, as with the real one.
    pub(crate) fn remove(&mut self, thread_id: &str) {
        self.threads.remove(thread_id);
    }

    pub(crate) async fn next(&mut self) -> Event {
        if self.ready.is_empty() {
            poll_fn(|context| {
                for watched in self.threads.values_mut() {
                    let mut sink = Queue { ready: &mut self.ready, told: &mut watched.told };
                    if let Poll::Ready(false) = watched.subscription.poll_next(context, &mut sink) {
                        panic!("no case with a watch closes the hub");
                    }
                }
                if self.ready.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            // On its way; dropped here, nothing is lost.
            yield_now().await;
        }
        self.ready.pop_front().expect("it was filled just now")
    }
}

struct Queue<'a> {
    ready: &'a mut VecDeque<Event>,
    told: &'a mut bool,
}

impl Sink for Queue<'_> {
    fn state(&mut self, thread: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, floor: u64) {
        let state = told(thread, known.map(|(shown, _)| shown), floor);
        self.ready.push_back(Event::State(Update { state, gap: !std::mem::replace(self.told, true) }));
    }

    fn snapshot_complete(&mut self) {
        self.ready.push_back(Event::SnapshotComplete);
    }

    fn heartbeat(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }
}
