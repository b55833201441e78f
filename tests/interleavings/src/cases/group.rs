//! Group commit: the task, the commit thread, and the callers.
use super::{a_while, join};
use crate::coordinator::Coordinator;
use crate::core::types::{ThreadId, Ttl};
use crate::core::{Answer, Command, Header, Moment};
use crate::hub::{Frame, Interest, Shown, Sink};
use crate::runner::Case;
use crate::store::{CommitError, Contents, OpenError, Store, Write};
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
use tokio::time::advance;

/// How long a slow commit takes.
const SLOW: Duration = Duration::from_millis(3);

/// What the store has done, for those who look on.
#[derive(Default)]
struct Done {
    /// Elicitations that were stored.
    opened: AtomicUsize,
    closed: AtomicUsize,
}

/// A disk that is quick or slow, and says that it may have to wait or does not, as the scheduler likes.
struct Moody(Arc<Done>);

impl Store for Moody {
    fn load(&mut self, _: Moment) -> Result<Contents, OpenError> {
        Ok(Contents::default())
    }

    fn commit(&mut self, batch: &[Write<'_>]) -> Result<(), CommitError> {
        tokio::point();
        if tokio::choose() {
            advance(SLOW);
        }
        let opened = batch.iter().filter(|write| matches!(write, Write::PutElicitation(..))).count();
        self.0.opened.fetch_add(opened, SeqCst);
        Ok(())
    }

    fn may_wait(&self) -> bool {
        tokio::choose()
    }
}

impl Drop for Moody {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, SeqCst);
    }
}

fn start(done: &Arc<Done>) -> Arc<Coordinator> {
    let fatal = |error| panic!("nothing fails here: {error}");
    let coordinator = Coordinator::start(Box::new(Moody(done.clone())), Arc::new(Moved), None, fatal);
    Arc::new(coordinator.expect("there is nothing to load"))
}

fn increment() -> Command {
    let ttl = Ttl::new("ttl", s(3_600)).expect("a valid ttl");
    Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: Some(ttl) }
}

/// Increments, and returns the revision; what was answered has been published.
async fn open(coordinator: &Coordinator) -> u64 {
    match coordinator.call(id("t"), increment()).await {
        Ok(Answer::Incremented { revision, .. }) => {
            let published = coordinator.hub().get(&id("t")).header.map_or(0, |header| header.revision);
            assert!(published >= revision, "answered {revision}, published {published}");
            revision
        }
        other => panic!("an increment came to {other:?}"),
    }
}

/// The revisions that a watcher is given.
struct Rising(u64);

impl Sink for Rising {
    fn state(&mut self, _: &ThreadId, known: Option<(&Header, &[Shown], &mut Frame)>, _: u64) {
        let revision = known.map_or(0, |(header, ..)| header.revision);
        assert!(revision >= self.0, "fell from {} to {revision}", self.0);
        self.0 = revision;
    }

    fn snapshot_complete(&mut self) {}

    fn heartbeat(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }
}

/// Sees revisions rise to `last`.
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

/// Three callers, and a fourth when the disk has been left alone for so long that it counts as quick again. No time
/// passes but in the store: a call that waits for a nap to end would wait for ever.
fn every_call_is_answered_once_fast_or_slow() {
    let done = Arc::<Done>::default();
    let coordinator = start(&done);
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
    assert_eq!(revisions, [1, 2, 3, 4, 5, 6, 7], "each call counted once");
    assert_eq!(done.opened.load(SeqCst), 7, "each is stored");
    drop(coordinator);
    assert_eq!(done.closed.load(SeqCst), 1, "stopped, it has closed its store");
}

pub(super) const STOPPED: Case =
    Case { name: "what_was_taken_is_finished_at_the_stop", run: what_was_taken_is_finished_at_the_stop, share: 2 };

/// Callers go away with their calls handed in, and the coordinator is dropped at any moment of what follows.
fn what_was_taken_is_finished_at_the_stop() {
    let done = Arc::<Done>::default();
    let coordinator = start(&done);
    let callers = [(); 2].map(|()| {
        let coordinator = coordinator.clone();
        spawn(async move {
            let mut call = pin!(coordinator.call(id("t"), increment()));
            // Handed in with the first poll.
            poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await
        })
    });
    callers.into_iter().for_each(|caller| _ = join(caller));
    a_while();
    drop(coordinator);
    assert_eq!((done.opened.load(SeqCst), done.closed.load(SeqCst)), (2, 1), "stored, and then closed");
}
