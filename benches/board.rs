//! Watchers of one thread: a change is made, and all of them receive it.
use crate::link::Link;
use crate::result::Result;
use crate::threads;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The maximum time until a change reaches all of them.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which watchers have received the latest change.
pub(crate) struct Board {
    know: Vec<AtomicBool>,
    left: AtomicUsize,
    all_know: Notify,
    /// The number of states that were delivered twice.
    strays: AtomicUsize,
}

impl Board {
    /// A board for `watchers` watchers of a thread that is not paused.
    pub(crate) fn new(watchers: usize) -> Self {
        Board {
            know: (0..watchers).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(0),
            all_know: Notify::new(),
            strays: AtomicUsize::new(0),
        }
    }

    pub(crate) fn told(&self, watcher: usize, paused: bool) {
        if self.know[watcher].swap(paused, Relaxed) == paused {
            self.strays.fetch_add(1, Relaxed);
        } else if self.left.fetch_sub(1, Relaxed) == 1 {
            self.all_know.notify_one();
        }
    }

    /// Changes the state, and waits until all watchers have received it.
    pub(crate) async fn change(&self, caller: &mut Link, up: bool) -> Result<()> {
        self.left.store(self.know.len(), Relaxed);
        caller.call(&threads::id(0), up).await?;
        let all = timeout(PATIENCE, self.all_know.notified()).await;
        Ok(all.map_err(|_| format!("{} deliveries are missing", self.left.load(Relaxed)))?)
    }

    /// An error if a state was delivered twice.
    pub(crate) fn check(&self) -> Result<()> {
        match self.strays.load(Relaxed) {
            0 => Ok(()),
            strays => Err(format!("{strays} deliveries of no change").into()),
        }
    }
}
