//! Watchers of the hub.
use super::join;
use crate::coordinator::hub::{Committed, Event, Frame, Hub, Interest, Shown, Sink};
use crate::core::types::{ElicitationId, ThreadId};
use crate::core::{Header, Pause, PauseEnd, Timestamp};
use crate::runner::Case;
use crate::world::server::id;
use shuttle::{
    future::{JoinHandle, spawn},
    thread,
};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::{collections::BTreeMap, future::poll_fn, sync::Arc, task::Poll};

const NOW: Timestamp = Timestamp { boot: 0, wall: 0 };
/// The last revision of each thread.
const LAST: u64 = 3;

/// A change of a thread; its content does not matter here.
fn change(thread: &str, revision: u64) -> Committed {
    let header = Header { revision, pause: Pause::default(), changed: NOW };
    Committed { thread: id(thread), header, event: Event::Closed(ElicitationId(0), PauseEnd::Decremented) }
}

/// The latest revision of each thread that a watcher has received.
#[derive(Default)]
struct Seen {
    revisions: BTreeMap<ThreadId, u64>,
    /// The number of states in one poll.
    given: usize,
    room: usize,
    complete: bool,
}

impl Sink for Seen {
    fn state(&mut self, thread: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, floor: u64) {
        let revision = known.map_or(floor, |(shown, _)| shown.header.revision);
        let before = self.revisions.insert(thread.clone(), revision);
        assert!(before <= Some(revision), "H1: {thread} went back from {before:?} to {revision}");
        self.given += 1;
    }

    fn snapshot_complete(&mut self) {
        self.given += 1;
        self.complete = true;
    }

    fn heartbeat(&mut self) {
        self.given += 1;
    }

    fn is_full(&self) -> bool {
        self.given >= self.room
    }
}

/// Watches until `enough`, or until the hub is closed: then it returns `false`.
fn watch(hub: &Arc<Hub>, interest: Interest, room: usize, enough: fn(&Seen) -> bool) -> JoinHandle<bool> {
    let mut subscription = hub.watch(interest);
    let mut seen = Seen { room, ..Seen::default() };
    spawn(poll_fn(move |context| {
        loop {
            seen.given = 0;
            match subscription.poll_next(context, &mut seen) {
                Poll::Ready(true) if enough(&seen) => return Poll::Ready(true),
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
        }
    }))
}

fn both() -> Interest {
    Interest::Threads(vec![id("a"), id("b")])
}

pub(super) const LAST_STATE: Case = Case {
    name: "a_watcher_gets_the_last_state_or_is_woken",
    run: a_watcher_gets_the_last_state_or_is_woken,
    share: 1,
};

/// Two publishers; watchers of one thread, of two, of all, and one that comes and goes; and heartbeats all the time.
fn a_watcher_gets_the_last_state_or_is_woken() {
    let hub = Arc::<Hub>::default();
    let saw_both = |seen: &Seen| ["a", "b"].iter().all(|thread| seen.revisions.get(&id(thread)) == Some(&LAST));
    let saw_a = |seen: &Seen| seen.revisions.get(&id("a")) == Some(&LAST);
    let watchers = [
        watch(&hub, both(), 1, saw_both),
        watch(&hub, Interest::All, usize::MAX, saw_both),
        watch(&hub, Interest::Threads(vec![id("a")]), usize::MAX, saw_a),
    ];
    let publishers = ["a", "b"].map(|thread| {
        let hub = hub.clone();
        thread::spawn(move || (1..=LAST).for_each(|revision| hub.publish([change(thread, revision)])))
    });
    let others = {
        let hub = hub.clone();
        thread::spawn(move || {
            drop(hub.watch(both()));
            hub.beat(0, 1);
            drop(hub.watch(Interest::All));
            hub.beat(0, 1);
        })
    };
    watchers.into_iter().for_each(|watcher| assert!(join(watcher), "the hub must not be closed"));
    publishers.into_iter().chain([others]).for_each(|thread| thread.join().expect("it does not panic"));
    assert_eq!((hub.streams(), hub.watchers(&id("a"))), (0, 0), "no watcher may be left");
}

pub(super) const CLOSE: Case =
    Case { name: "closing_the_hub_ends_every_watch", run: closing_the_hub_ends_every_watch, share: 2 };

/// Also a watch that is being polled, and one that starts meanwhile.
fn closing_the_hub_ends_every_watch() {
    let hub = Arc::<Hub>::default();
    let never = |_: &Seen| false;
    let early = [watch(&hub, both(), 1, never), watch(&hub, Interest::All, usize::MAX, never)];
    let publisher = {
        let hub = hub.clone();
        thread::spawn(move || hub.publish([change("a", 1), change("b", 1)]))
    };
    let closer = {
        let hub = hub.clone();
        thread::spawn(move || hub.close())
    };
    let late = watch(&hub, both(), usize::MAX, never);
    early.into_iter().chain([late]).for_each(|watcher| assert!(!join(watcher)));
    publisher.join().expect("it does not panic");
    closer.join().expect("it does not panic");
    assert_eq!(hub.streams(), 0);
}

pub(super) const ADDED: Case = Case {
    name: "an_answer_has_all_that_was_committed_before",
    run: an_answer_has_all_that_was_committed_before,
    share: 1,
};

/// One thread is added to and removed from a stream while two change. The answer to an addition has at least the
/// revisions that were published before, for the added thread and for the one that stays.
fn an_answer_has_all_that_was_committed_before() {
    let hub = Arc::<Hub>::default();
    let published: [Arc<AtomicU64>; 2] = Default::default();
    let publishers = [("a", published[0].clone()), ("b", published[1].clone())].map(|(thread, published)| {
        let hub = hub.clone();
        thread::spawn(move || {
            for revision in 1..=LAST {
                hub.publish([change(thread, revision)]);
                published.store(revision, SeqCst);
            }
        })
    });
    let watcher = {
        let hub = hub.clone();
        let mut subscription = hub.watch_none();
        spawn(async move {
            let mut seen = Seen { room: 1, ..Seen::default() };
            subscription.change(&[], &[id("a")]);
            for remove in [&[][..], &[id("b")]] {
                let before = published.each_ref().map(|published| published.load(SeqCst));
                subscription.change(remove, &[id("b")]);
                subscription.mark();
                seen.complete = false;
                while !seen.complete {
                    poll_fn(|context| {
                        seen.given = 0;
                        subscription.poll_next(context, &mut seen)
                    })
                    .await;
                }
                for (thread, before) in ["a", "b"].iter().zip(before) {
                    let revision = seen.revisions.get(&id(thread)).copied();
                    assert!(revision >= Some(before), "{thread}: {revision:?} after {before} was published");
                }
            }
        })
    };
    join(watcher);
    publishers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    assert_eq!((hub.streams(), hub.watchers(&id("a"))), (0, 0), "no watcher may be left");
}
