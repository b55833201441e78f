//! `--publish`: while Codex itself waits for a person, the thread is paused at the coordinator too, so that every exec server
//! sees it.
//!
//! 1. The bridge has at most one hold for each thread. It opens the hold when Codex starts to wait (without a
//!    coordinator, as soon as there is one), and releases it when Codex stops waiting or disconnects.
//! 2. If this process is killed, the lease ends the hold.
use super::message::Waiting;
use super::report::say;
use crate::client::{Client, Hold};
use std::{collections::HashMap, time::Duration};
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    task::JoinSet,
    time::timeout,
};

/// The lease of a hold, which is renewed while Codex waits.
const TTL: Duration = Duration::from_secs(30);
/// The interval between two attempts to reach the coordinator.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time that the end of the bridge waits for the last releases.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The open holds.
pub(super) struct Publisher {
    client: Client,
    /// By the coordinator's thread id. Dropping the sender releases the hold.
    open: HashMap<String, oneshot::Sender<()>>,
    tasks: JoinSet<()>,
}

impl Publisher {
    pub(super) fn new(client: Client) -> Self {
        Self { client, open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Codex waits for a person in this thread, or does not.
    pub(super) fn set(&mut self, thread_id: &str, waiting: Option<Waiting>) {
        while self.tasks.try_join_next().is_some() {}
        match waiting {
            None => _ = self.open.remove(thread_id),
            Some(_) if self.open.contains_key(thread_id) => {}
            Some(waiting) => {
                let (release, released) = oneshot::channel();
                self.open.insert(thread_id.to_owned(), release);
                self.tasks.spawn(hold(self.client.clone(), thread_id.to_owned(), waiting, released));
            }
        }
    }

    /// Releases all holds: Codex no longer waits for anybody.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Releases all holds, and waits at most [`END_TIMEOUT`] until they are released.
    pub(super) async fn end(mut self) {
        self.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(END_TIMEOUT, all).await.is_err() {
            say("the coordinator does not respond: what was published ends with its lease, within 30s");
        }
    }
}

async fn hold(client: Client, thread_id: String, waiting: Waiting, mut released: oneshot::Receiver<()>) {
    let Some(hold) = open(&client, &thread_id, waiting, &mut released).await else { return };
    // Nothing is ever sent: the wait ends when the sender is dropped, which may have happened while the hold was being
    // opened.
    let _ = released.await;
    if let Err(error) = hold.release().await {
        say(&format!("a published wait of thread {thread_id} ends with its lease: {error}"));
    }
}

/// Opens the hold, as soon as there is a coordinator. `None`: the coordinator refuses it, or Codex stops waiting first.
async fn open(
    client: &Client,
    thread_id: &str,
    waiting: Waiting,
    released: &mut oneshot::Receiver<()>,
) -> Option<Hold> {
    let mut is_reported = false;
    loop {
        // The increment is awaited even if Codex stops waiting meanwhile: if the bridge ended during the increment, the
        // thread would stay paused until the lease ends.
        let hold = client.hold(thread_id).reason(waiting.to_string()).holder("codex").ttl(TTL);
        let error = match hold.open().await {
            Ok(hold) => return Some(hold),
            Err(error) => error,
        };
        if released.try_recv() == Err(TryRecvError::Closed) {
            return None;
        }
        if !std::mem::replace(&mut is_reported, true) {
            let then = if error.is_transient() { "; trying again" } else { "" };
            say(&format!("cannot publish that {waiting} in thread {thread_id}: {error}{then}"));
        }
        if !error.is_transient() {
            return None;
        }
        if timeout(RETRY_INTERVAL, &mut *released).await.is_ok() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Config, GetPauseStateRequest, PauseEnd};
    use crate::testing::TestCoordinator;
    use tokio::{runtime, task};

    /// Otherwise the thread would stay paused until the lease ends.
    #[tokio::test]
    async fn a_wait_that_ends_during_its_increment_is_released_before_the_bridge_ends() {
        let coordinator = TestCoordinator::start().await.unwrap();
        let address = coordinator.address().clone();
        // Its runtime ends with it.
        let bridge = move || {
            runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let client = Client::with_config(&Config { address, ..Config::default() }).unwrap();
                let mut publisher = Publisher::new(client);
                publisher.set("t", Some(Waiting::Approval));
                task::yield_now().await;
                publisher.clear();
                // As `end` does, but without its time limit: this machine may be busy.
                while publisher.tasks.join_next().await.is_some() {}
            });
        };
        task::spawn_blocking(bridge).await.unwrap();
        let request = GetPauseStateRequest { thread_id: "t".into() };
        let state = coordinator.client().unwrap().get_pause_state(request).await.unwrap().pause_state.unwrap();
        assert_eq!((state.count, state.last_pause_end()), (0, PauseEnd::Decremented));
    }
}
