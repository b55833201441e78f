//! Watchers of one thread: a change is made, and all are told of it.
use crate::link::Link;
use crate::result::Result;
use crate::threads;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a change may take to reach all.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who knows of the latest change.
pub(crate) struct Board {
    know: Vec<AtomicBool>,
    left: AtomicUsize,
    all_know: Notify,
    /// States that were told twice.
    strays: AtomicUsize,
}

impl Board {
    /// For that many watchers of a thread that is not paused.
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

    /// Changes the state, and waits until all know.
    pub(crate) async fn change(&self, caller: &mut Link, up: bool) -> Result<()> {
        self.left.store(self.know.len(), Relaxed);
        caller.call(&threads::id(0), up).await?;
        let all = timeout(PATIENCE, self.all_know.notified()).await;
        Ok(all.map_err(|_| format!("{} deliveries are missing", self.left.load(Relaxed)))?)
    }

    /// An error if a state was told twice.
    pub(crate) fn check(&self) -> Result<()> {
        match self.strays.load(Relaxed) {
            0 => Ok(()),
            strays => Err(format!("{strays} deliveries of no change").into()),
        }
    }
}
