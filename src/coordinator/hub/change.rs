//! A watch whose threads change while it is open.
//!
//! A thread that is added is queued like one that has changed, so its state comes with the changes. `snapshot_complete` is
//! given after everything that was due when [`Subscription::mark`] was called.
//!
//! The places of removed threads are used again. When most places are vacant, they are freed (H3: memory is bounded by the
//! threads that are watched now, which count against a limit, not by those that once were).
use super::Hub;
use super::state::{State, small};
use super::subscribers::Subscriber;
use super::subscription::Subscription;
use super::watcher::{Changed, Interest, KEPT, Many, Places, Sink, Watched, Watcher};
use crate::core::types::ThreadId;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Up to this many threads are searched linearly: most streams have few, and a table would double their memory.
const SEARCHED: usize = 16;

impl Hub {
    /// Starts a watch of no thread, without a snapshot.
    pub fn watch_none(self: &Arc<Self>) -> Subscription {
        let key = small(self.lock().watchers.insert(Watcher::new(Changed::Many(Box::default()))));
        Subscription { hub: self.clone(), key }
    }
}

impl Subscription {
    /// Excludes this watch from the number of watchers of its threads.
    pub fn observe(&mut self) {
        self.hub.lock().watchers[self.key as usize].observes = true;
    }

    /// Turns a watch of no thread into a watch of `interest`, whose threads do not change afterwards.
    pub fn begin(&mut self, interest: Interest) {
        let mut state = self.hub.lock();
        let observes = state.watchers[self.key as usize].observes;
        let changed = state.begin(self.key, interest, observes);
        state.watchers[self.key as usize].changed = changed;
    }

    /// Makes `snapshot_complete` due after all states that are due now.
    pub fn mark(&mut self) {
        let mut state = self.hub.lock();
        let last_change = state.last_change;
        state.watchers[self.key as usize].set_mark(last_change);
    }

    /// How many threads it would watch after this change.
    pub fn count_after(&self, remove: &[ThreadId], add: &[ThreadId]) -> usize {
        let state = self.hub.lock();
        let Changed::Many(many) = &state.watchers[self.key as usize].changed else { return 0 };
        let is_watched = |thread: &ThreadId| state.find(thread).is_some_and(|topic| many.place_of(topic).is_some());
        let (mut remove, add): (HashSet<_>, HashSet<_>) = (remove.iter().collect(), add.iter().collect());
        remove.retain(|&thread| is_watched(thread));
        let new = add.into_iter().filter(|&thread| remove.contains(thread) || !is_watched(thread)).count();
        many.watched() - remove.len() + new
    }

    /// Removes threads, then adds threads. The state of each added thread becomes due, also if the thread is watched
    /// already.
    pub fn change(&mut self, remove: &[ThreadId], add: &[ThreadId]) {
        let mut state = self.hub.lock();
        remove.iter().for_each(|thread| state.remove_thread(self.key, thread));
        add.iter().for_each(|thread| state.add_thread(self.key, thread));
        state.free_places(self.key);
        // The stream polls next, and sees what is due.
    }

    /// Gives the sink the present states of these threads, until it is full. Returns the number of states given.
    pub fn give(&self, threads: &[ThreadId], sink: &mut impl Sink) -> usize {
        let mut state = self.hub.lock();
        let mut given = 0;
        for thread in threads {
            if sink.is_full() {
                break;
            }
            match state.find(thread) {
                Some(topic) => state.give(topic, sink),
                None => sink.state(thread, None, state.floor),
            }
            given += 1;
        }
        given
    }
}

impl State {
    /// A watcher whose threads change.
    fn changing(&mut self, key: u32) -> Option<&mut Many> {
        match &mut self.watchers[key as usize].changed {
            Changed::Many(many) => Some(many),
            Changed::One { .. } | Changed::All(_) => None,
        }
    }

    fn add_thread(&mut self, key: u32, thread: &ThreadId) {
        let topic = self.topic_to_watch(thread);
        let place_at_topic = small(self.topics[topic as usize].subscribers.len());
        let Some(many) = self.changing(key) else { return };
        if let Some(place) = many.place_of(topic) {
            many.mark(place);
            return;
        }
        let place = many.insert(Watched { topic, place: place_at_topic });
        many.mark(place);
        self.topics[topic as usize].subscribers.push(Subscriber { watcher: key, place });
    }

    fn remove_thread(&mut self, key: u32, thread: &ThreadId) {
        let Some(topic) = self.find(thread) else { return };
        let watched = self.changing(key).and_then(|many| many.remove(topic));
        watched.into_iter().for_each(|watched| self.unsubscribe(watched));
    }

    /// Frees the vacant places of a watcher if they are most of its places.
    fn free_places(&mut self, key: u32) {
        let Some(many) = self.changing(key).filter(|many| many.threads.len() > 4 * many.watched().max(KEPT)) else {
            return;
        };
        many.free_places();
        for (place, watched) in many.threads.clone().into_iter().enumerate() {
            self.topics[watched.topic as usize].subscribers[watched.place as usize].place = small(place);
        }
    }
}

impl Many {
    /// Moves the threads together. The order of the queue stays, without the removed threads.
    fn free_places(&mut self) {
        let old = std::mem::take(self);
        let mut moved = vec![None; old.threads.len()];
        for (place, thread) in old.threads.iter().enumerate().filter(|(_, thread)| !thread.is_vacant()) {
            moved[place] = Some(small(self.threads.len()));
            self.threads.push(*thread);
            self.queued.push(old.queued[place]);
        }
        self.queue = old.queue.into_iter().filter_map(|place| moved[place as usize]).collect();
        self.places = (self.threads.len() > SEARCHED).then(|| Box::new(Places::of(&self.threads)));
    }

    /// How many threads it watches.
    fn watched(&self) -> usize {
        let vacant = || self.threads.iter().filter(|thread| thread.is_vacant()).count();
        self.threads.len() - self.places.as_ref().map_or_else(vacant, |places| places.free.len())
    }

    fn place_of(&self, topic: u32) -> Option<u32> {
        match &self.places {
            Some(places) => places.of_topic(topic, &self.threads),
            None => self.threads.iter().position(|thread| thread.topic == topic).map(small),
        }
    }

    fn free_place(&mut self) -> Option<u32> {
        match &mut self.places {
            Some(places) => places.free.pop(),
            None => self.threads.iter().position(|thread| thread.is_vacant()).map(small),
        }
    }

    /// Puts a thread at a free place. If that place is still queued, the new thread is due instead of the removed one.
    fn insert(&mut self, watched: Watched) -> u32 {
        let place = self.free_place().unwrap_or_else(|| {
            self.threads.push(Watched::VACANT);
            self.queued.push(false);
            small(self.threads.len() - 1)
        });
        self.threads[place as usize] = watched;
        match &mut self.places {
            Some(places) => places.insert(place, &self.threads),
            None if self.threads.len() > SEARCHED => self.places = Some(Box::new(Places::of(&self.threads))),
            None => {}
        }
        place
    }

    fn remove(&mut self, topic: u32) -> Option<Watched> {
        let place = self.place_of(topic)?;
        if let Some(places) = &mut self.places {
            places.remove(place, topic);
        }
        let watched = std::mem::replace(&mut self.threads[place as usize], Watched::VACANT);
        if self.queue.is_empty() && self.watched() == 0 {
            // No thread is left, so the memory is freed.
            (self.threads, self.queued, self.places) = (Vec::new(), Vec::new(), None);
        }
        Some(watched)
    }
}

impl Places {
    fn of(threads: &[Watched]) -> Self {
        let mut places = Places::default();
        for (place, thread) in threads.iter().enumerate() {
            match thread.is_vacant() {
                true => places.free.push(small(place)),
                false => places.insert(small(place), threads),
            }
        }
        places
    }

    fn of_topic(&self, topic: u32, threads: &[Watched]) -> Option<u32> {
        let is_of_topic = |&place: &u32| threads[place as usize].topic == topic;
        self.of.find(self.hasher.hash_one(topic), is_of_topic).copied()
    }

    fn insert(&mut self, place: u32, threads: &[Watched]) {
        let hasher = &self.hasher;
        let hash = |&place: &u32| hasher.hash_one(threads[place as usize].topic);
        self.of.insert_unique(hash(&place), place, hash);
    }

    fn remove(&mut self, place: u32, topic: u32) {
        if let Ok(taken) = self.of.find_entry(self.hasher.hash_one(topic), |&taken| taken == place) {
            taken.remove();
        }
        self.free.push(place);
    }
}
