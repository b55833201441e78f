//! A watch of one client: what it is given, and how it is woken.
use super::Hub;
use super::state::{Next, State, small};
use super::topic::Topic;
use super::watcher::{Changed, Interest, Sink, Watcher};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A watch. It ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    pub(super) hub: Arc<Hub>,
    pub(super) key: u32,
}

impl Hub {
    /// Starts a watch with a snapshot.
    pub fn watch(self: &Arc<Self>, interest: Interest) -> Subscription {
        self.start(interest, false)
    }

    /// Starts a watch with a snapshot that does not count among the watchers of its threads.
    pub fn observe(self: &Arc<Self>, interest: Interest) -> Subscription {
        self.start(interest, true)
    }

    fn start(self: &Arc<Self>, interest: Interest, observes: bool) -> Subscription {
        let mut state = self.lock();
        let key = small(state.watchers.vacant_key());
        let mut watcher = Watcher { observes, ..Watcher::new(state.begin(key, interest, observes)) };
        watcher.set_mark(state.last_change);
        state.watchers.insert(watcher);
        drop(state);
        Subscription { hub: self.clone(), key }
    }

    /// Makes a heartbeat due for one part in `of` of the watchers, if they were sent nothing since their last
    /// heartbeat. With one call per `part` in turn, a watcher is silent for at most two full rounds.
    pub fn beat(&self, part: usize, of: usize) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        for (_, watcher) in state.watchers.iter_mut().filter(|(key, _)| key % of == part) {
            if std::mem::replace(&mut watcher.quiet, true) {
                watcher.heartbeat_due = true;
                wakers.extend(watcher.waker.take());
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Adds a watcher to the lists that its interest concerns.
    pub(super) fn begin(&mut self, key: u32, interest: Interest, observes: bool) -> Changed {
        match interest {
            Interest::All => self.watch_all(key, None, observes),
            Interest::Threads(threads) => self.watch_threads(key, &threads, |_| true),
            // Costs other watchers no more than a list of threads does. The snapshot has only the paused threads.
            Interest::Within(scope) => match scope.threads() {
                Some(threads) => self.watch_threads(key, &threads, Topic::is_paused),
                None => self.watch_all(key, scope.areas().is_some().then_some(scope), observes),
            },
        }
    }
}

impl Subscription {
    /// The hub that it is a watch of.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Gives the sink what is due, until it is full. `Ready(true)`: something was given; `Ready(false)`: the watch is
    /// over; `Pending`: nothing is due, and the waker is stored.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, sink: &mut impl Sink) -> Poll<bool> {
        let mut state = self.hub.lock();
        if state.closed || state.watchers[self.key as usize].is_over {
            return Poll::Ready(false);
        }
        let mut given = false;
        while !sink.is_full() {
            if state.watchers[self.key as usize].take_mark() {
                sink.snapshot_complete();
                given = true;
                continue;
            }
            match state.give_next(self.key, sink) {
                Next::Given => given = true,
                Next::Skipped => {}
                // The mark becomes due when nothing else is.
                Next::Nothing if state.watchers[self.key as usize].take_mark() => {
                    sink.snapshot_complete();
                    given = true;
                }
                Next::Nothing => break,
            }
        }
        let watcher = &mut state.watchers[self.key as usize];
        if std::mem::take(&mut watcher.heartbeat_due) && !given {
            sink.heartbeat();
            given = true;
        }
        if given {
            watcher.quiet = false;
            return Poll::Ready(true);
        }
        match &mut watcher.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.lock().remove_watcher(self.key);
    }
}
