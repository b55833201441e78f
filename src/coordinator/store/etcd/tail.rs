//! Follows the log: reads everything at one revision, then each entry as it is written; and everything again if etcd
//! has compacted entries.
use super::kv::{Kv, KvError, Tail};
use super::load::{LoadError, load};
use super::record::{Entry, Keys};
use super::standby::Standby;
use crate::coordinator::store::OpenError;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// The maximum number of waiting messages. A slow follower slows down its watch.
const QUEUE: usize = 16;
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The news for a follower, in this order.
pub(super) enum LogEvent {
    /// Everything, loaded again.
    Loaded(Box<Standby>),
    /// The next entries, with their numbers.
    Entries(Vec<(u64, Entry)>),
    /// The stored data cannot be used.
    Unusable(OpenError),
}

/// A log that is being followed, until this is dropped.
pub(super) struct LogFollower {
    pub(super) news: mpsc::Receiver<LogEvent>,
    /// The follower notifies this if entries are missing that are known to be written. Then the watch is opened again.
    pub(super) stalled: Arc<Notify>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl LogFollower {
    pub(super) fn follow<K: Kv>(kv: K, keys: Arc<Keys>, epoch: u64) -> Self {
        let (sender, news) = mpsc::channel(QUEUE);
        let stalled = Arc::<Notify>::default();
        let task = tokio::spawn(follow(kv, keys, epoch, sender, stalled.clone()));
        LogFollower { news, stalled, _task: tokio_util::task::AbortOnDropHandle::new(task) }
    }
}

async fn follow<K: Kv>(kv: K, keys: Arc<Keys>, epoch: u64, news: mpsc::Sender<LogEvent>, stalled: Arc<Notify>) {
    loop {
        let loaded = match load(&kv, &keys).await {
            Ok(loaded) => loaded,
            Err(LoadError::Compacted) => continue,
            Err(LoadError::Damaged(error)) => {
                let _ = news.send(LogEvent::Unusable(error)).await;
                return;
            }
        };
        let mut next = loaded.revision + 1;
        match loaded.standby(epoch, &keys) {
            Ok(standby) => _ = news.send(LogEvent::Loaded(Box::new(standby))).await,
            Err(error) => {
                let _ = news.send(LogEvent::Unusable(error)).await;
                return;
            }
        }
        while let Err(error) = tail(&kv, &keys, &mut next, &news, &stalled).await {
            tracing::debug!(%error, "follow the log");
            if news.is_closed() {
                return;
            }
            if error == KvError::Compacted {
                break;
            }
            sleep(AGAIN_AFTER).await;
        }
    }
}

/// Follows from the revision `next` on, until the watch breaks.
async fn tail<K: Kv>(
    kv: &K,
    keys: &Keys,
    next: &mut i64,
    news: &mpsc::Sender<LogEvent>,
    stalled: &Notify,
) -> Result<(), KvError> {
    let mut tail = kv.tail(keys.entries(), *next).await?;
    loop {
        let written = tokio::select! {
            biased;
            () = stalled.notified() => return Err(KvError::Unknown("entries are missing".into())),
            written = tail.next() => written?,
        };
        let mut entries = Vec::with_capacity(written.len());
        for written in written {
            *next = (*next).max(written.mod_revision + 1);
            let entry = keys.seq(&written.key).zip(Entry::decode(&written.value[..]).ok());
            // An entry that cannot be decoded is left out: the load reports the gap.
            entries.extend(entry);
        }
        news.send(LogEvent::Entries(entries)).await.map_err(|_| KvError::Unknown("nobody follows".into()))?;
    }
}
