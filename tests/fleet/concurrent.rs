//! Clients that change, read and watch the same two threads at once, and the check that one order per thread explains
//! all that they observed: linearizable, each call counts once (G4), no watch goes back (G6).
use crate::caller;
use crate::clients::{Caller, Shared, Watch, watch};
use crate::history::{Recorder, What};
use crate::linear::check_all;
use crate::support::PATIENCE;
use fastrand::Rng;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use tokio::time::timeout;

const CALLERS: usize = 3;

/// A history that is being recorded.
pub(crate) struct Concurrent {
    shared: Arc<Shared>,
    callers: JoinSet<()>,
    watchers: JoinSet<()>,
    last: tokio::sync::watch::Sender<Option<[u64; 2]>>,
}

/// A history that one order explains.
pub(crate) struct Explained {
    pub(crate) operations: usize,
    /// The number of calls that were never answered.
    pub(crate) unknown: usize,
}

impl Concurrent {
    /// Starts to watch `threads`, which nothing has used before, at whichever replica a connection to `address`
    /// reaches.
    pub(crate) fn begin(address: &str, threads: [&'static str; 2]) -> Self {
        let (record, given) = (Recorder::default(), Mutex::default());
        let address = address.parse().expect("an address");
        let shared = Arc::new(Shared { address, threads, record, given });
        let (last, wait) = tokio::sync::watch::channel(None);
        let mut watchers = JoinSet::new();
        for how in [Watch::Fixed { whole: false }, Watch::Fixed { whole: true }, Watch::Changing { whole: true }] {
            watchers.spawn(watch(shared.clone(), how, wait.clone()));
        }
        Concurrent { shared, callers: JoinSet::new(), watchers, last }
    }

    /// Makes several clients call this often, each.
    pub(crate) fn call(&mut self, calls: usize, random: &mut Rng) {
        for _ in 0..CALLERS {
            self.callers.spawn(Caller::new(self.shared.clone(), random.fork()).make(calls));
        }
    }

    /// Whether all calls have ended.
    pub(crate) fn is_quiet(&mut self) -> bool {
        while let Some(ended) = self.callers.try_join_next() {
            ended.expect("it does not panic");
        }
        self.callers.is_empty()
    }

    /// Waits until all calls have ended.
    pub(crate) async fn answered(&mut self) {
        let answered =
            async { while self.callers.join_next().await.transpose().expect("it does not panic").is_some() {} };
        timeout(PATIENCE, answered).await.expect("each call that may be sent again is answered");
    }

    /// Ends it, with the last state of both threads from whichever of the replicas at `addresses` serves.
    ///
    /// # Errors
    /// No order explains it.
    pub(crate) async fn explain(mut self, addresses: &[String]) -> Result<Explained, String> {
        self.answered().await;
        // The leader may still change.
        let (caller, threads) = (caller::Caller::new(addresses), self.shared.threads);
        let revisions = [caller.get(threads[0]).await.revision, caller.get(threads[1]).await.revision];
        self.last.send_replace(Some(revisions));
        let watchers = &mut self.watchers;
        let told = async { while watchers.join_next().await.transpose().expect("it does not panic").is_some() {} };
        timeout(PATIENCE, told).await.map_err(|_| "G6: a watch does not end at the last state")?;
        for thread in threads {
            let number = self.shared.record.begin(thread, What::Get);
            let state = self.shared.state(thread, caller.get(thread).await, true);
            self.shared.record.end(number, state);
        }
        let operations = self.shared.record.operations();
        check_all(&operations, threads.into_iter().zip([0; 2]))?;
        let unknown = operations.iter().filter(|operation| operation.ended.is_none()).count();
        Ok(Explained { operations: operations.len(), unknown })
    }
}
