//! A watcher: which of its threads have changed since it looked, and how it is woken.
use super::topic::{Frame, Subscriber, Topic};
use super::{Hub, SafeTime, State, small};
use crate::core::Header;
use crate::core::scope::Scope;
use crate::core::types::ThreadId;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Changed threads that a watcher which has caught up keeps room for.
const KEPT: usize = 64;

/// What to watch.
#[derive(Clone, Debug)]
pub enum Interest {
    /// These threads, each once.
    Threads(Vec<ThreadId>),
    /// Every thread.
    All,
    /// Every thread of these.
    Within(Scope),
}

impl Interest {
    /// How many threads it names.
    pub fn named(&self) -> usize {
        match self {
            Interest::Threads(threads) => threads.len(),
            Interest::All => 0,
            Interest::Within(scope) => scope.threads().map_or(0, |threads| threads.len()),
        }
    }
}

/// Takes what a watcher is given.
pub trait Sink {
    /// The state of a thread. `header`: `None` if the thread is not known; its revision is then `floor`.
    fn state(&mut self, thread: &ThreadId, known: Option<(&Header, &[super::OpenElicitation], &mut Frame)>, floor: u64);
    /// The snapshot is complete.
    fn snapshot_complete(&mut self);
    /// Nothing has happened for a while.
    fn heartbeat(&mut self);
    /// Whether it wants no more for now.
    fn is_full(&self) -> bool;
}

/// One watcher in the hub. Kept small: there may be a hundred thousand.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) waker: Option<Waker>,
    changed: Changed,
    /// Entries of the queue that belong to the snapshot; when they are out, its end is due.
    snapshot_left: u32,
    snapshot_end_due: bool,
    heartbeat_due: bool,
    /// Nothing was sent since the last beat.
    quiet: bool,
}

/// The threads of a watcher that have changed since it looked.
#[derive(Debug)]
enum Changed {
    One { thread: Watched, queued: bool },
    Many(Box<Many>),
    All(Box<All>),
}

#[derive(Debug)]
struct Many {
    threads: Vec<Watched>,
    queued: Vec<bool>,
    queue: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct All {
    /// `None`: every thread.
    within: Option<Scope>,
    queued: HashSet<ThreadId>,
    queue: VecDeque<ThreadId>,
}

/// A watched thread, and the watcher's place among its subscribers.
#[derive(Clone, Copy, Debug)]
struct Watched {
    topic: u32,
    place: u32,
}

/// A watch. Dropped, it ends.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    key: u32,
}

impl Hub {
    /// Starts a watch with a snapshot.
    pub fn watch(self: &Arc<Self>, interest: Interest) -> Subscription {
        let mut state = self.lock();
        let key = small(state.watchers.vacant_key());
        let changed = match interest {
            Interest::All => state.watch_all(key, None),
            Interest::Threads(threads) => state.watch_threads(key, &threads, |_| true),
            // As cheap for the others as if the threads were asked for, and still only the paused ones come first.
            Interest::Within(scope) => match scope.threads() {
                Some(threads) => state.watch_threads(key, &threads, Topic::is_paused),
                None => state.watch_all(key, scope.areas().is_some().then_some(scope)),
            },
        };
        let snapshot_left = small(changed.queue_len());
        let watcher = Watcher {
            waker: None,
            changed,
            snapshot_left,
            snapshot_end_due: snapshot_left == 0,
            heartbeat_due: false,
            quiet: false,
        };
        state.watchers.insert(watcher);
        drop(state);
        Subscription { hub: self.clone(), key }
    }

    /// Makes a heartbeat due for those of every `of`-th part `part` of the watchers that were sent nothing since their
    /// last beat. Called for each part in turn, a full round is the time after which silence is broken, twice at most.
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
    fn watch_all(&mut self, key: u32, within: Option<Scope>) -> Changed {
        let keys = if within.is_none() { &mut self.watch_all } else { &mut self.watch_within };
        keys.push(key);
        let paused = self.paused.iter().map(|&topic| &self.topics[topic as usize].thread);
        let seen = paused.filter(|thread| within.as_ref().is_none_or(|scope| scope.contains(thread)));
        let queue: VecDeque<_> = seen.cloned().collect();
        Changed::All(Box::new(All { within, queued: queue.iter().cloned().collect(), queue }))
    }

    /// `in_snapshot`: whether a thread is told at first.
    fn watch_threads(&mut self, key: u32, threads: &[ThreadId], in_snapshot: impl Fn(&Topic) -> bool) -> Changed {
        let mut seen = HashSet::with_capacity(threads.len());
        let mut watched = Vec::with_capacity(threads.len());
        let mut queued = Vec::with_capacity(threads.len());
        for thread in threads.iter().filter(|&thread| seen.insert(thread)) {
            let topic = self.topic(thread);
            queued.push(in_snapshot(&self.topics[topic as usize]));
            let subscribers = &mut self.topics[topic as usize].subscribers;
            let place = small(subscribers.len());
            subscribers.push(Subscriber { watcher: key, place: small(watched.len()) });
            watched.push(Watched { topic, place });
        }
        watched.shrink_to_fit();
        match watched[..] {
            [thread] => Changed::One { thread, queued: queued[0] },
            _ => {
                queued.shrink_to_fit();
                let queue = (0..small(watched.len())).filter(|&place| queued[place as usize]).collect();
                Changed::Many(Box::new(Many { queued, threads: watched, queue }))
            }
        }
    }

    /// Tells the subscribers of a topic, and the watchers of every thread, that it has changed.
    pub(super) fn mark_changed(&mut self, key: u32, wakers: &mut Vec<Waker>) {
        let topic = &self.topics[key as usize];
        let mut overtaken = 0;
        wakers.reserve(topic.subscribers.len() + self.watch_all.len());
        for subscriber in &topic.subscribers {
            let watcher = &mut self.watchers[subscriber.watcher as usize];
            match &mut watcher.changed {
                Changed::One { queued, .. } => overtaken += u64::from(std::mem::replace(queued, true)),
                Changed::Many(many) => overtaken += u64::from(!many.mark(subscriber.place)),
                Changed::All(_) => {}
            }
            wakers.extend(watcher.waker.take());
        }
        for &key in self.watch_all.iter().chain(&self.watch_within) {
            let watcher = &mut self.watchers[key as usize];
            if !watcher.sees(&topic.thread) {
                continue;
            }
            if let Changed::All(all) = &mut watcher.changed {
                match all.queued.insert(topic.thread.clone()) {
                    true => all.queue.push_back(topic.thread.clone()),
                    false => overtaken += 1,
                }
            }
            wakers.extend(watcher.waker.take());
        }
        self.conflations += overtaken;
    }

    /// Gives the sink the state of a topic.
    fn give(&mut self, key: u32, sink: &mut impl Sink) {
        self.deliveries += 1;
        let topic = &mut self.topics[key as usize];
        let known = topic.known.as_deref_mut();
        sink.state(&topic.thread, known.map(|known| (&known.header, &known.open[..], &mut known.frame)), self.floor);
    }

    /// Takes the next changed thread of a watcher, and gives it to the sink. `false`: none has changed.
    fn give_next(&mut self, key: u32, sink: &mut impl Sink) -> bool {
        let topic = match &mut self.watchers[key as usize].changed {
            Changed::One { thread, queued } => std::mem::take(queued).then_some(thread.topic),
            Changed::Many(many) => many.next(),
            Changed::All(all) => match all.next() {
                // Forgotten since it was queued: what it was is of no use to anyone.
                Some(thread) => match self.find(&thread) {
                    Some(topic) => Some(topic),
                    None => return true,
                },
                None => None,
            },
        };
        topic.map(|topic| self.give(topic, sink)).is_some()
    }

    fn remove_watcher(&mut self, key: u32) {
        match self.watchers.remove(key as usize).changed {
            Changed::All(all) => {
                let keys = if all.within.is_none() { &mut self.watch_all } else { &mut self.watch_within };
                keys.retain(|&other| other != key);
            }
            Changed::One { thread, .. } => self.unsubscribe(thread),
            Changed::Many(many) => many.threads.into_iter().for_each(|thread| self.unsubscribe(thread)),
        }
    }

    /// Takes one subscriber out; the last one moves to its place, and is told.
    fn unsubscribe(&mut self, watched: Watched) {
        let topic = &mut self.topics[watched.topic as usize];
        topic.subscribers.swap_remove(watched.place as usize);
        if let Some(moved) = topic.subscribers.get(watched.place as usize) {
            match &mut self.watchers[moved.watcher as usize].changed {
                Changed::One { thread, .. } => thread.place = watched.place,
                Changed::Many(many) => many.threads[moved.place as usize].place = watched.place,
                Changed::All(_) => {}
            }
        }
        self.drop_if_unused(watched.topic);
    }
}

impl Watcher {
    /// Whether the thread is among all those that it watches.
    pub(super) fn sees(&self, thread: &ThreadId) -> bool {
        match &self.changed {
            Changed::All(all) => all.within.as_ref().is_none_or(|scope| scope.contains(thread)),
            _ => true,
        }
    }
}

#[cfg(test)]
impl Watcher {
    /// Changed threads that it has room for.
    pub(super) fn room(&self) -> usize {
        match &self.changed {
            Changed::One { .. } => 1,
            Changed::Many(many) => many.queue.capacity(),
            Changed::All(all) => all.queue.capacity() + all.queued.capacity(),
        }
    }

    /// The topic at `place`, and where it has this watcher.
    pub(super) fn watched(&self, place: u32) -> (u32, u32) {
        let watched = match &self.changed {
            Changed::One { thread, .. } => thread,
            Changed::Many(many) => &many.threads[place as usize],
            Changed::All(_) => panic!("it watches no thread of its own"),
        };
        (watched.topic, watched.place)
    }
}

impl Changed {
    fn queue_len(&self) -> usize {
        match self {
            Changed::One { queued, .. } => usize::from(*queued),
            Changed::Many(many) => many.queue.len(),
            Changed::All(all) => all.queue.len(),
        }
    }
}

impl Many {
    /// `false`: it is marked already.
    fn mark(&mut self, place: u32) -> bool {
        let new = !std::mem::replace(&mut self.queued[place as usize], true);
        if new {
            self.queue.push_back(place);
        }
        new
    }

    fn next(&mut self) -> Option<u32> {
        let Some(place) = self.queue.pop_front() else {
            self.queue.shrink_to(KEPT);
            return None;
        };
        self.queued[place as usize] = false;
        Some(self.threads[place as usize].topic)
    }
}

impl All {
    fn next(&mut self) -> Option<ThreadId> {
        let Some(thread) = self.queue.pop_front() else {
            self.queue.shrink_to(KEPT);
            self.queued.shrink_to(KEPT);
            return None;
        };
        self.queued.remove(&thread);
        Some(thread)
    }
}

impl Subscription {
    /// Up to when lengths may be told.
    pub fn horizon(&self) -> &SafeTime {
        self.hub.horizon()
    }

    /// Gives the sink what is due, until it is full. `Ready(true)`: something was given; `Ready(false)`: the hub was
    /// closed, and the watch is over; `Pending`: nothing is due, and the waker is kept.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, sink: &mut impl Sink) -> Poll<bool> {
        let mut state = self.hub.lock();
        if state.closed {
            return Poll::Ready(false);
        }
        let mut given = false;
        while !sink.is_full() {
            let watcher = &mut state.watchers[self.key as usize];
            if std::mem::take(&mut watcher.snapshot_end_due) {
                sink.snapshot_complete();
            } else if state.give_next(self.key, sink) {
                let watcher = &mut state.watchers[self.key as usize];
                if watcher.snapshot_left > 0 {
                    watcher.snapshot_left -= 1;
                    watcher.snapshot_end_due = watcher.snapshot_left == 0;
                }
            } else {
                break;
            }
            given = true;
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
