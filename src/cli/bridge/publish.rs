//! `--publish`: while Codex itself waits for a person, the thread is paused at the coordinator too, so that every exec server
//! sees it.
//!
//! 1. A thread has at most one hold here. It is opened when Codex starts to wait, and released when Codex stops.
//! 2. If this process is killed, the lease ends the hold.
use super::message::Waiting;
use super::report::say;
use crate::client::Client;
use std::{collections::HashMap, time::Duration};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

/// The lease of a hold, which is renewed while Codex waits.
const TTL: Duration = Duration::from_secs(30);
/// The maximum time that the end of the bridge waits for the last releases.
const END_PATIENCE: Duration = Duration::from_secs(2);

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

    /// Releases everything.
    pub(super) async fn end(mut self) {
        self.open.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(END_PATIENCE, all).await.is_err() {
            say("the coordinator does not respond: what was published ends with its lease, within 30s");
        }
    }
}

async fn hold(client: Client, thread_id: String, waiting: Waiting, released: oneshot::Receiver<()>) {
    let hold = client.hold(thread_id.as_str()).reason(waiting.to_string()).holder("codex").ttl(TTL);
    match hold.open().await {
        Ok(hold) => {
            // The sender is dropped, never used.
            let _ = released.await;
            if let Err(error) = hold.release().await {
                say(&format!("a published wait of thread {thread_id} ends with its lease: {error}"));
            }
        }
        Err(error) => say(&format!("cannot publish that {waiting} in thread {thread_id}: {error}")),
    }
}
