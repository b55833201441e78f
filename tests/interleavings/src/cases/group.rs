//! Group commit: the task, the commit thread, and the callers.
use super::{a_while, join, now, run_until};
use crate::coordinator::Coordinator;
use crate::coordinator::hub::{Frame, Interest, Shown, Sink};
use crate::coordinator::store::{CommitError, Contents, OpenError, Store, Write};
use crate::core::types::{ThreadId, Ttl};
use crate::core::{Answer, Command, Refusal, Timestamp};
use crate::runner::Case;
use crate::world::{Moved, s, server::id};
use shuttle::future::{JoinHandle, block_on, spawn};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};
use tokio::time::{advance, sleep};

/// The duration of a slow commit; one value is enough.
const SLOW: Duration = Duration::from_millis(30);

/// What the store has done.
#[derive(Default)]
struct Done {
    /// The number of stored elicitations.
    opened: AtomicUsize,
    closed: AtomicUsize,
}

/// A disk that the scheduler makes fast or slow. It may report that a commit may have to wait, and it refuses up to
/// `refusals` batches.
struct Moody {
    done: Arc<Done>,
    refusals: usize,
}

impl Store for Moody {
    fn load(&mut self, _: Timestamp) -> Result<Contents, OpenError> {
        Ok(Contents::default())
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        tokio::point();
        if tokio::choose() {
            advance(SLOW);
        }
        if self.refusals > 0 && tokio::choose() {
            self.refusals -= 1;
            return Err(CommitError::Refused("no space left".to_owned()));
        }
        let opened = batch.iter().filter(|write| matches!(write, Write::PutElicitation(..))).count();
        self.done.opened.fetch_add(opened, SeqCst);
        Ok(())
    }

    fn may_wait(&self) -> bool {
        tokio::choose()
    }
}

impl Drop for Moody {
    fn drop(&mut self) {
        self.done.closed.fetch_add(1, SeqCst);
    }
}

fn start(done: &Arc<Done>, refusals: usize) -> Arc<Coordinator> {
    let fatal = |error| panic!("nothing fails here: {error}");
    let store = Moody { done: done.clone(), refusals };
    let coordinator = Coordinator::start(Box::new(store), Arc::new(Moved), None, fatal);
    Arc::new(coordinator.expect("there is nothing to load"))
}

fn increment() -> Command {
    let ttl = Ttl::new("ttl", s(3_600)).expect("a valid ttl");
    Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: Some(ttl) }
}

/// Increments; returns the revision, or `None` if the store refused it. Every answer must be published already.
async fn try_to_open(coordinator: &Coordinator) -> Option<u64> {
    match coordinator.call(id("t"), increment()).await {
        Ok(Answer::Incremented { revision, .. }) => {
            let published = coordinator.hub().get(&id("t")).header.map_or(0, |header| header.revision);
            assert!(published >= revision, "answered {revision}, published {published}");
            Some(revision)
        }
        Err(Refusal::StoreUnavailable { .. }) => None,
        other => panic!("the result of an increment was {other:?}"),
    }
}

async fn open(coordinator: &Coordinator) -> u64 {
    try_to_open(coordinator).await.expect("nothing is refused here")
}

/// The revisions that a watcher receives.
struct Rising(u64);

impl Sink for Rising {
    fn state(&mut self, _: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, _: u64) {
        let revision = known.map_or(0, |(shown, _)| shown.header.revision);
        assert!(revision >= self.0, "fell from {} to {revision}", self.0);
        self.0 = revision;
    }

    fn snapshot_complete(&mut self) {}

    fn heartbeat(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }
}

/// Watches until the revision reaches `last`.
fn watch(coordinator: &Coordinator, last: u64) -> JoinHandle<()> {
    let mut subscription = coordinator.hub().watch(Interest::Threads(vec![id("t")]));
    let mut rising = Rising(0);
    spawn(poll_fn(move |context| {
        while subscription.poll_next(context, &mut rising).is_ready() {}
        if rising.0 == last { Poll::Ready(()) } else { Poll::Pending }
    }))
}

pub(super) const ANSWERED_ONCE: Case =
    Case { name: "every_call_is_answered_once_fast_or_slow", run: every_call_is_answered_once_fast_or_slow, share: 1 };

/// Three callers, and a fourth after the disk has been idle for so long that it counts as fast again. Time passes only
/// in the store: a call that waited for a sleep would wait for ever.
fn every_call_is_answered_once_fast_or_slow() {
    let done = Arc::<Done>::default();
    let coordinator = start(&done, 0);
    let watcher = watch(&coordinator, 7);
    let callers = [(); 3].map(|()| {
        let coordinator = coordinator.clone();
        spawn(async move {
            let first = open(&coordinator).await;
            let second = open(&coordinator).await;
            assert!(first < second);
            [first, second]
        })
    });
    let mut revisions: Vec<_> = callers.map(join).into_iter().flatten().collect();
    advance(s(1));
    revisions.push(block_on(open(&coordinator)));
    join(watcher);
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 2, 3, 4, 5, 6, 7], "each call must count once");
    assert_eq!(done.opened.load(SeqCst), 7, "each call must be stored");
    drop(coordinator);
    assert_eq!(done.closed.load(SeqCst), 1, "the stop must close the store");
}

pub(super) const REFUSED: Case = Case {
    name: "every_call_is_answered_while_the_store_refuses",
    run: every_call_is_answered_while_the_store_refuses,
    share: 1,
};

/// Exactly the changes that were answered with a revision are stored; when the store accepts changes again, so does the
/// coordinator.
fn every_call_is_answered_while_the_store_refuses() {
    let done = Arc::<Done>::default();
    let coordinator = start(&done, 2);
    let callers = [(); 3].map(|()| {
        let coordinator = coordinator.clone();
        spawn(async move { [try_to_open(&coordinator).await, try_to_open(&coordinator).await] })
    });
    let mut revisions: Vec<_> = callers.map(join).into_iter().flatten().flatten().collect();
    let last = {
        let coordinator = coordinator.clone();
        spawn(async move {
            loop {
                if let Some(revision) = try_to_open(&coordinator).await {
                    return revision;
                }
                sleep(s(1)).await;
            }
        })
    };
    run_until(|| last.is_finished());
    assert!(now() < s(5), "a store that accepts changes again must be retried before {:?}", now());
    revisions.push(join(last));
    revisions.sort_unstable();
    let all: Vec<_> = (1..=revisions.len() as u64).collect();
    assert_eq!(revisions, all, "each accepted call must count once");
    assert_eq!(done.opened.load(SeqCst), all.len(), "exactly the accepted calls must be stored");
    assert_eq!(coordinator.hub().get(&id("t")).open.len(), all.len(), "exactly the accepted calls must be published");
}

pub(super) const STOPPED: Case =
    Case { name: "accepted_calls_are_finished_at_the_stop", run: accepted_calls_are_finished_at_the_stop, share: 2 };

/// Callers go away after their calls were queued, and the coordinator is dropped at any later moment.
fn accepted_calls_are_finished_at_the_stop() {
    let done = Arc::<Done>::default();
    let coordinator = start(&done, 0);
    let callers = [(); 2].map(|()| {
        let coordinator = coordinator.clone();
        spawn(async move {
            let mut call = pin!(coordinator.call(id("t"), increment()));
            // The first poll queues the call.
            poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await
        })
    });
    callers.into_iter().for_each(|caller| _ = join(caller));
    a_while();
    drop(coordinator);
    assert_eq!(
        (done.opened.load(SeqCst), done.closed.load(SeqCst)),
        (2, 1),
        "both calls must be stored before the store is closed"
    );
}
