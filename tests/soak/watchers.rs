//! Watches: revisions never decrease, and a watch that names its threads ends at the last one (G6). After a broken
//! connection, a watch of all threads gets the ones that are paused, and those that no longer are.
use crate::books;
use crate::world::World;
use pausewatch::client::{Event, PauseState};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const WATCHERS: usize = 4;
/// The time after the load has stopped by which every watcher has the last state.
const CAUGHT_UP: Duration = Duration::from_secs(30);
/// The number of threads that are checked in each watch while the load is paused.
const LOOKED_AT: usize = 100;

/// The last state of each thread that a watch delivered.
type Seen = Arc<Mutex<HashMap<String, PauseState>>>;

pub(crate) struct Watcher {
    number: usize,
    seen: Seen,
}

impl Watcher {
    /// Two watches are of all threads, directly and through the proxy, and two name their threads.
    fn names_threads(&self) -> bool {
        self.number >= WATCHERS / 2
    }

    async fn watch(number: usize, by_name: bool, world: Arc<World>, seen: Seen) {
        let client = world.client(number);
        let mut watch = if by_name { client.watch() } else { client.watch_all() };
        if by_name {
            books::thread_ids().for_each(|thread_id| watch.add(&thread_id).expect("a good name"));
        }
        loop {
            match watch.next().await {
                Event::State(update) => {
                    world.counts.states.fetch_add(1, Relaxed);
                    let (state, mut seen) = (update.state, seen.lock().expect("no panic"));
                    let before = seen.get(&state.thread_id).map_or(0, |before| before.revision);
                    if state.revision < before {
                        world.fail(format!("watcher {number}: revision {before}, then {state:?}"));
                    }
                    seen.insert(state.thread_id.clone(), state);
                }
                Event::Disconnected { .. } => _ = world.counts.breaks.fetch_add(1, Relaxed),
                _ => {}
            }
        }
    }

    fn seen(&self, thread_id: &str) -> Option<PauseState> {
        self.seen.lock().expect("no panic").get(thread_id).cloned()
    }

    fn is_behind(&self, state: &PauseState) -> bool {
        let seen = self.seen(&state.thread_id);
        match self.names_threads() {
            true => seen.is_none_or(|seen| seen.revision != state.revision),
            // A thread that was paused and resumed during a broken connection is not reported.
            false => seen.is_some_and(|seen| seen.paused) != state.paused,
        }
    }

    async fn compare(&self, world: &World) {
        let client = world.client(0);
        let known: Vec<_> = self.seen.lock().expect("no panic").keys().cloned().collect();
        let step = known.len().div_ceil(LOOKED_AT).max(1);
        let named = self.names_threads().then(books::thread_ids);
        for thread_id in known.into_iter().step_by(step).chain(named.into_iter().flatten()) {
            let asked = Instant::now();
            loop {
                let state = world.get(&client, &thread_id).await;
                if !self.is_behind(&state) {
                    break;
                }
                if asked.elapsed() > CAUGHT_UP {
                    let seen = self.seen(&thread_id);
                    return world.fail(format!("watcher {}: {seen:?}, and the server says {state:?}", self.number));
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

pub(crate) fn start(world: &Arc<World>) -> Vec<Watcher> {
    let start = |number| {
        let watcher = Watcher { number, seen: Seen::default() };
        let seen = watcher.seen.clone();
        tokio::spawn(Watcher::watch(number, watcher.names_threads(), world.clone(), seen));
        watcher
    };
    (0..WATCHERS).map(start).collect()
}

/// Waits until all watchers have the state of the server, while no caller works.
pub(crate) async fn compare(world: &World, watchers: &[Watcher]) {
    for watcher in watchers {
        watcher.compare(world).await;
    }
}
