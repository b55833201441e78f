//! The store of a fleet: several replicas over one etcd cluster, of which one leads at a time (`docs/decisions/0005`).
//!
//! The leader writes a batch as one log entry, in one transaction with the leader record, which fences it (`chain.rs`,
//! `serve.rs`). Checkpoints move the changes of the log into rows (`checkpoint.rs`). A replica that does not lead waits
//! until the leader is silent or resigns (`follow.rs`). Meanwhile it reads the rows and the log (`load.rs`), follows
//! the log (`tail.rs`) and keeps the records up to date (`standby.rs`), which it also shows to its watchers
//! (`progress.rs`). Commands back up a fleet (`backup.rs`) and create one from a backup (`restore.rs`).
//!
//! Everything that talks to etcd runs on a separate thread, so neither the workers nor a slow commit delay the leader's
//! heartbeats.
mod backup;
mod chain;
mod checkpoint;
mod checkpoints;
mod client;
mod cluster_clock;
mod follow;
mod housekeeping;
mod image;
mod join;
mod kv;
mod load;
mod patient;
mod progress;
mod pulse;
mod record;
mod restore;
mod serve;
mod standby;
mod tail;
mod thread;
mod version;
pub mod wire;

#[cfg(test)]
mod backup_tests;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_history;
#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod restore_tests;
#[cfg(test)]
mod tests;

pub(crate) use backup::FleetSnapshot;
pub use client::Endpoints;
pub use cluster_clock::{ClusterClock, LeaderClock};
pub use follow::Leader;
pub(crate) use follow::SURE_FOR;
pub use kv::{Kv, KvError, SpaceUsage, Tail};
pub(crate) use progress::FRESH_FOR;
pub use progress::Progress;
pub use pulse::Pulse;
pub(crate) use restore::restore;
pub use thread::Work;

use super::{CommitError, Contents, OpenError, Store, Write, ops};
use crate::clock::Clock;
use crate::coordinator::hub::Hub;
use crate::core::Timestamp;
use chain::Replica;
pub(crate) use client::Client;
use follow::{Follower, Won};
use join::join;
use record::{FleetRecord, Keys};
use serve::{Reply, Request};
use standby::Standby;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use thread::Thread;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// The maximum number of requests that wait for the chain. The engine makes one at a time.
const QUEUE: usize = 4;

/// A fleet, and how to reach its etcd.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// Where etcd is.
    pub endpoints: Endpoints,
    /// The prefix of the fleet's keys. Replicas with the same prefix are one fleet.
    pub prefix: String,
    /// Compact etcd each minute. Turn this off if others need the history of its keys.
    pub compact: bool,
}

/// This process as a member of a fleet.
pub struct Fleet<K: Kv = Client> {
    thread: Arc<Thread>,
    client: K,
    keys: Arc<Keys>,
    record: FleetRecord,
    machine: Arc<dyn Clock>,
    id: u64,
    compact: bool,
    leader_clock: Arc<LeaderClock>,
    leader: watch::Sender<Option<Leader>>,
    progress: Arc<Progress>,
    /// This replica must not lead any more.
    abstains: Arc<AtomicBool>,
}

/// A term: the time in which this replica leads.
pub struct Term {
    /// The store of the engine.
    pub store: Etcd,
    /// The clock of the engine.
    pub clock: Arc<ClusterClock>,
    pub pulse: Arc<Pulse>,
    /// The number of the term.
    pub number: u64,
    /// Why the term has ended, once it has. It ends when etcd shows another leader, or when the store is dropped.
    pub ended: oneshot::Receiver<String>,
}

impl Fleet {
    /// Connects to etcd, and joins the fleet or creates it.
    ///
    /// # Errors
    /// No member of etcd answers, its version is refused, it has no space left, or the prefix has keys of others or of
    /// a later version.
    pub async fn join(config: &FleetConfig, machine: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let thread = Arc::new(Thread::start()?);
        let keys = Arc::new(Keys::under(&config.prefix));
        let (endpoints, joined) = (config.endpoints.clone(), keys.clone());
        let joining = thread.spawn(async move {
            let client = Client::new(&endpoints)?;
            client.check(true).await?;
            let record = join(&client, &joined).await?;
            Ok::<_, OpenError>((client, record))
        });
        let (client, record) = joining.await??;
        Self::joined(thread, client, keys, record, machine, config.compact)
    }

    /// Reads the certificates for etcd again. If one is invalid, the previous ones stay in use.
    ///
    /// # Errors
    /// A file is invalid.
    pub(crate) fn reload_certificates(&self) -> Result<(), String> {
        self.client.reload()
    }
}

impl<K: Kv> Fleet<K> {
    /// As [`Fleet::join`], over `kv`, with all tasks started by `spawn`.
    ///
    /// # Errors
    /// As [`Fleet::join`].
    pub async fn join_over(
        kv: K,
        prefix: &str,
        machine: Arc<dyn Clock>,
        spawn: impl Fn(Work) -> JoinHandle<()> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let keys = Arc::new(Keys::under(prefix));
        let record = join(&kv, &keys).await?;
        Self::joined(Arc::new(Thread::none(spawn)), kv, keys, record, machine, true)
    }

    fn joined(
        thread: Arc<Thread>,
        client: K,
        keys: Arc<Keys>,
        record: FleetRecord,
        machine: Arc<dyn Clock>,
        compact: bool,
    ) -> Result<Self, OpenError> {
        let id = getrandom::u64().map_err(|error| OpenError::Io(format!("get random numbers: {error}")))?;
        Ok(Fleet {
            thread,
            client,
            keys,
            record,
            machine,
            id,
            compact,
            leader_clock: Arc::default(),
            leader: watch::Sender::new(None),
            progress: Arc::new(Progress::new(Arc::<Hub>::default())),
            abstains: Arc::default(),
        })
    }

    /// Follows until this replica leads. `address`: where clients and other replicas reach it.
    ///
    /// # Errors
    /// The stored data is damaged, of a later version, or no longer the fleet that this replica has joined.
    ///
    /// # Cancel safety
    /// If the future is dropped, this replica does not lead. If it had just won, others wait until its record has been
    /// silent for a second.
    pub async fn lead(&self, address: &str) -> Result<Term, OpenError> {
        let follower = Follower {
            kv: self.client.clone(),
            keys: self.keys.clone(),
            machine: self.machine.clone(),
            me: Replica { id: self.id, address: address.to_owned() },
            fleet: self.record.clone(),
            leader_clock: self.leader_clock.clone(),
            compact: self.compact,
            abstains: self.abstains.clone(),
        };
        let (leader, progress) = (self.leader.clone(), self.progress.clone());
        let winning = self.thread.spawn(async move { follower.until_leading(&leader, &progress).await });
        let Won { chain, clock, standby } = winning.await??;
        let (pulse, number) = (chain.pulse.clone(), chain.term);
        let (requests, queue) = mpsc::channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let next_row = standby.next_row;
        // The thread lives until the chain has ended.
        let thread = self.thread.clone();
        self.thread.detach(async move {
            let why = chain.run(queue, next_row).await;
            let _ = end.send(why.to_string());
            drop(thread);
        });
        self.leader.send_replace(None);
        let store = Etcd { standby: Some(standby), requests, pulse: pulse.clone(), fleet_id: self.record.id };
        Ok(Term { store, clock, pulse, number, ended })
    }

    /// From now on this replica only follows.
    pub(crate) fn abstain(&self) {
        self.abstains.store(true, SeqCst);
    }

    /// The leader, while this replica follows.
    pub fn leader(&self) -> watch::Receiver<Option<Leader>> {
        self.leader.subscribe()
    }

    /// How far this replica is while it follows.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The boot id of the clock that all replicas share.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// The leader's clock, as far as this replica knows it.
    pub fn leader_clock(&self) -> &Arc<LeaderClock> {
        &self.leader_clock
    }

    /// The secret that only replicas know.
    pub(crate) fn peer_key(&self) -> &[u8] {
        &self.record.peer_key
    }

    /// Names this process among the replicas.
    pub fn replica(&self) -> u64 {
        self.id
    }
}

fn ended() -> CommitError {
    CommitError::Deposed("this replica no longer leads the fleet".into())
}

/// The store of a term.
pub struct Etcd {
    /// `None` after it was loaded.
    standby: Option<Standby>,
    requests: mpsc::Sender<Request>,
    pulse: Arc<Pulse>,
    fleet_id: u64,
}

impl Etcd {
    /// Encodes a batch for [`Etcd::commit_encoded`].
    pub fn encode(&self, batch: &[Write<'_>]) -> Vec<u8> {
        let mut encoded = Vec::new();
        ops::encode(batch, self.fleet_id, &mut encoded);
        encoded
    }

    /// As [`Store::commit`], without blocking.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn commit_encoded(&self, batch: Vec<u8>) -> Result<(), CommitError> {
        self.ask(|reply| Request::Commit(batch, reply)).await
    }

    /// As [`Store::confirm`], without blocking.
    ///
    /// # Errors
    /// As [`Store::confirm`].
    pub async fn confirm_later(&self) -> Result<(), CommitError> {
        self.ask(Request::Confirm).await
    }

    async fn ask(&self, request: impl FnOnce(Reply) -> Request) -> Result<(), CommitError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Waits for the answer of the chain.
    fn ask_and_block(&self, request: impl FnOnce(Reply) -> Request) -> Result<(), CommitError> {
        let (reply, answer) = oneshot::channel();
        self.requests.blocking_send(request(reply)).map_err(|_| ended())?;
        answer.blocking_recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Store for Etcd {
    fn load(&mut self, now: Timestamp) -> Result<Contents, OpenError> {
        Ok(self.standby.take().unwrap_or_default().contents(now))
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        let batch = self.encode(batch);
        self.ask_and_block(|reply| Request::Commit(batch, reply))
    }

    fn confirm(&mut self) -> Result<(), CommitError> {
        self.ask_and_block(Request::Confirm)
    }

    fn is_full(&self) -> bool {
        self.pulse.is_full()
    }

    fn why_full(&self) -> &'static str {
        "etcd has used 80 % of its quota or more (etcd --quota-backend-bytes)"
    }

    fn why_refused(&self) -> &'static str {
        "etcd accepts no writes, as when its quota is used up (etcdctl alarm list)"
    }

    fn keeps_ends(&self) -> bool {
        true
    }

    /// A commit waits for etcd, which must not happen on a worker.
    fn may_wait(&self) -> bool {
        true
    }
}
