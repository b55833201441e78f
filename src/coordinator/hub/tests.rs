//! H1 to H3, with a sink that records the events, and a waker that counts.
mod change;
mod history;
mod ids;
mod snapshot;
mod stats;
mod watch_all;

use super::topic_id::TopicId;
use super::watcher::Changed;
use super::*;
use crate::core::scope::Scope;
use crate::core::types::ElicitationId;
use crate::core::{Elicitation, Header, Pause, PauseEnd, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};

const NOW: Timestamp = Timestamp { boot: 0, wall: 0 };

#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// Thread, revision, open elicitations.
    State(String, u64, usize),
    Complete,
    Heartbeat,
}

/// Accepts up to `room` messages per poll.
struct Notes {
    given: Vec<Given>,
    room: usize,
}

impl Sink for Notes {
    fn state(&mut self, thread: &ThreadId, known: Option<(Shown<'_>, &mut Frame)>, floor: u64) {
        let (revision, open) = known.map_or((floor, 0), |(shown, _)| (shown.header.revision, shown.open.len()));
        self.given.push(Given::State(thread.to_string(), revision, open));
    }

    fn snapshot_complete(&mut self) {
        self.given.push(Given::Complete);
    }

    fn heartbeat(&mut self) {
        self.given.push(Given::Heartbeat);
    }

    fn is_full(&self) -> bool {
        self.given.len() >= self.room
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A watch and its waker.
struct Watching {
    subscription: Subscription,
    wakes: Arc<Wakes>,
}

impl Watching {
    fn poll(&mut self, room: usize) -> Poll<Vec<Given>> {
        let mut notes = Notes { given: Vec::new(), room };
        let waker = self.wakes.clone().into();
        let polled = self.subscription.poll_next(&mut Context::from_waker(&waker), &mut notes);
        assert_eq!(
            polled == Poll::Ready(true),
            !notes.given.is_empty(),
            "it must be ready exactly when there are events"
        );
        polled.map(|_| notes.given)
    }

    /// All events that are due now. If there are none, the waker is kept.
    fn take(&mut self) -> Vec<Given> {
        let mut all = Vec::new();
        while let Poll::Ready(given) = self.poll(usize::MAX) {
            assert!(!given.is_empty(), "the hub was not closed");
            all.extend(given);
        }
        all
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }
}

fn id(text: &str) -> ThreadId {
    ThreadId::parse("thread_id", text).expect("a valid id")
}

fn numbered(i: usize) -> ThreadId {
    id(&format!("t{i:05}"))
}

fn watch(hub: &Arc<Hub>, interest: Interest) -> Watching {
    Watching { subscription: hub.watch(interest), wakes: Arc::default() }
}

/// A watch that does not count as a watcher.
fn observe(hub: &Arc<Hub>, interest: Interest) -> Watching {
    Watching { subscription: hub.observe(interest), wakes: Arc::default() }
}

fn watch_some(hub: &Arc<Hub>, threads: &[&str]) -> Watching {
    watch(hub, Interest::Threads(threads.iter().copied().map(id).collect()))
}

fn state(thread: &str, revision: u64, open: usize) -> Given {
    Given::State(thread.into(), revision, open)
}

fn header(revision: u64, paused: bool) -> Header {
    let pause = Pause { since: paused.then_some(NOW), ..Pause::default() };
    Header { revision, pause, changed: NOW }
}

fn opened(thread: &str, revision: u64) -> Committed {
    let elicitation =
        Elicitation { id: ElicitationId(revision.into()), reason: "".into(), holder: "".into(), created: NOW };
    Committed { thread: id(thread), header: header(revision, true), event: Event::Opened(Arc::new(elicitation), None) }
}

/// `opened`: the revision that opened the elicitation; the thread runs afterwards.
fn closed(thread: &str, revision: u64, opened: u64) -> Committed {
    let event = Event::Closed(ElicitationId(opened.into()), PauseEnd::Decremented);
    Committed { thread: id(thread), header: header(revision, false), event }
}

fn forgotten(thread: &str, revision: u64) -> Committed {
    Committed { thread: id(thread), header: header(revision, false), event: Event::Forgotten }
}

fn scope(ids: &[&str], prefixes: &[&str]) -> Scope {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    Scope::of(&owned(ids), &owned(prefixes)).unwrap()
}

/// G8: a watch of everything in a scope starts and continues with that scope, and counts for nothing else.
fn topics(hub: &Hub) -> usize {
    hub.lock().topics.len()
}

/// Checks that the lists of the state agree: every subscriber is where its watch expects it, and the reverse.
fn check(hub: &Hub) {
    let state = hub.lock();
    assert_eq!(state.index.len(), state.topics.len());
    for (key, topic) in &state.topics {
        let thread = topic.id.thread();
        assert_eq!(state.find(&thread), Some(key as u32));
        assert_eq!(
            topic.id,
            if topic.known.is_some() { TopicId::Shared((*thread).clone()) } else { topic.id.packed() }
        );
        assert!(topic.known.is_some() || !topic.subscribers.is_empty(), "{thread} must not be kept");
        if let Some(known) = &topic.known {
            assert_eq!(state.changes.get(&known.change.number), Some(&(key as u32)), "{thread}");
            assert_eq!(known.change.pause().is_some(), known.header.pause.since.is_some(), "{thread}");
            let listed = known.change.pause().map(|pause| state.paused[&pause]);
            assert!(listed.is_none_or(|listed| listed == key as u32), "{thread}");
        }
        for (place, subscriber) in topic.subscribers.iter().enumerate() {
            let watched = state.watchers[subscriber.watcher as usize].watched(subscriber.place);
            assert_eq!(watched, (key as u32, place as u32), "{thread}");
        }
    }
    for keys in [&state.watch_all, &state.watch_within] {
        for (place, &key) in keys.iter().enumerate() {
            let Changed::All(all) = &state.watchers[key as usize].changed else {
                panic!("{key} watches no named thread")
            };
            assert_eq!(all.place as usize, place);
        }
    }
    let seeing_all = state.watch_all.iter().filter(|&&key| !state.watchers[key as usize].observes).count();
    assert_eq!(state.seeing_all as usize, seeing_all);
    assert_eq!(state.topics.iter().filter(|(_, topic)| topic.is_paused()).count(), state.paused.len());
    assert_eq!(state.changes.len(), state.known.len());
    let open = state.topics.iter().filter_map(|(_, topic)| topic.known.as_ref()).map(|known| known.open.len() as u64);
    assert_eq!(open.sum::<u64>(), state.open);
    assert_eq!(state.known.len(), state.topics.iter().filter(|(_, topic)| topic.known.is_some()).count());
}

// H1: revisions increase, and the last one arrives.

/// A drain ends watches part by part: the watches of the other parts continue until it is their turn.
#[test]
fn watches_end_part_by_part() {
    let hub = Arc::<Hub>::default();
    let mut watching: Vec<_> = (0..6).map(|_| watch_some(&hub, &["t"])).collect();
    watching.iter_mut().for_each(|watching| _ = watching.take());
    for part in 0..3 {
        hub.end(part, 3);
        hub.publish([opened("t", part as u64 + 1)]);
        let is_over = |i: &usize| i % 3 <= part;
        for (i, watching) in watching.iter_mut().enumerate() {
            assert!(watching.wakes() > 0 || !is_over(&i), "part {part}, watch {i}");
            match is_over(&i) {
                true => assert_eq!(watching.poll(usize::MAX), Poll::Ready(Vec::new()), "part {part}, watch {i}"),
                false => assert_eq!(watching.take(), [state("t", part as u64 + 1, part + 1)], "part {part}, watch {i}"),
            }
        }
    }
    watch_some(&hub, &["t"]).take();
}

#[test]
fn h3_a_watch_of_every_thread_needs_no_memory_per_thread() {
    let hub = Arc::<Hub>::default();
    hub.publish((0..5_000).map(|i| opened(numbered(i).as_str(), 1)));
    let mut watching = watch(&hub, Interest::All);
    let room = |hub: &Hub| hub.lock().watchers.iter().map(|(_, watcher)| watcher.room()).sum::<usize>();
    assert_eq!(room(&hub), 0, "no watch has read yet");
    for _ in 0..10 {
        assert_eq!(watching.poll(450).map(|given| given.len()), Poll::Ready(450));
        hub.publish((0..5_000).map(|i| opened(numbered(i).as_str(), 2)));
    }
    assert!((1..32).contains(&room(&hub)), "{}", room(&hub));
    assert_eq!(watching.take().len(), 500 + 1 + 4_500);
    assert_eq!(room(&hub), 0, "everything was read");
}

/// G6: a watch that is not polled during a thousand changes gets only the last state.
#[test]
fn a_watcher_that_was_slow_is_given_the_last_state_alone() {
    for (interest, snapshot) in [
        (Interest::All, vec![Given::Complete]),
        (Interest::Threads(vec![id("a")]), vec![state("a", 0, 0), Given::Complete]),
        (Interest::Threads(vec![id("a"), id("b")]), vec![state("a", 0, 0), state("b", 0, 0), Given::Complete]),
    ] {
        let hub = Arc::<Hub>::default();
        let mut watching = watch(&hub, interest);
        assert_eq!(watching.take(), snapshot);
        (1..=1_000).for_each(|revision| hub.publish([opened("a", revision)]));
        assert_eq!(watching.wakes(), 1, "it must be woken only once, because it has not been polled since");
        assert_eq!(watching.take(), [state("a", 1_000, 1_000)]);
        assert_eq!(watching.poll(1), Poll::Pending);
    }
}

#[test]
fn a_renewal_is_nothing_to_watchers_and_is_seen_by_readers() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1)]);
    let mut watching = watch_some(&hub, &["a"]);
    watching.take();
    let ends = Some(Timestamp { boot: 9, wall: 9 });
    let event = Event::Renewed(ElicitationId(1), ends);
    hub.publish([Committed { thread: id("a"), header: header(1, true), event }]);
    assert_eq!((watching.wakes(), watching.take()), (0, vec![]));
    assert_eq!(hub.get(&id("a")).open[0].ends, ends);
}

#[test]
fn a_thread_that_was_forgotten_and_named_again_goes_on_above_what_watchers_saw() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1), closed("a", 2, 1)]);
    let mut watching = watch_some(&hub, &["a"]);
    assert_eq!(watching.take(), [state("a", 2, 0), Given::Complete]);
    hub.publish([forgotten("a", 2)]);
    assert_eq!(watching.take(), []);
    let view = hub.get(&id("a"));
    assert!(view.header.is_none());
    assert_eq!(view.floor, 2);
    hub.publish([opened("a", 3)]);
    assert_eq!(watching.take(), [state("a", 3, 1)]);
    check(&hub);
}

// H3: bounded memory.

#[test]
fn an_unknown_thread_without_watchers_leaves_nothing_behind() {
    let hub = Arc::<Hub>::default();
    let (one, many) = (watch_some(&hub, &["a"]), watch_some(&hub, &["a", "b"]));
    hub.publish([opened("c", 1), closed("c", 2, 1)]);
    assert_eq!((topics(&hub), hub.streams()), (3, 2));
    drop(one);
    check(&hub);
    assert_eq!(topics(&hub), 3, "the other watch still has a");
    drop(many);
    assert_eq!((topics(&hub), hub.streams()), (1, 0));
    hub.publish([forgotten("c", 2)]);
    check(&hub);
    let state = hub.lock();
    assert_eq!((state.topics.len(), state.index.len(), state.known.len(), state.paused.len()), (0, 0, 0, 0));
}

#[test]
fn random_watches_come_and_go_and_every_place_stays_right() {
    let mut random = Random(0x5eed_0002);
    let hub = Arc::<Hub>::default();
    let mut watches: Vec<(Vec<usize>, Watching)> = Vec::new();
    // The last revision of each thread, and the last one that each watch received.
    let mut revisions: HashMap<usize, u64> = HashMap::new();
    for step in 0..3_000 {
        match random.below(4) {
            0 => {
                let mut threads: Vec<_> = (0..1 + random.below(6)).map(|_| random.below(12)).collect();
                let watching = watch(&hub, Interest::Threads(threads.iter().copied().map(numbered).collect()));
                threads.sort_unstable();
                threads.dedup();
                watches.push((threads, watching));
            }
            1 if !watches.is_empty() => {
                watches.swap_remove(random.below(watches.len()));
            }
            _ => {
                let thread = random.below(12);
                let revision = revisions.entry(thread).or_default();
                *revision += 1;
                hub.publish([opened(numbered(thread).as_str(), *revision)]);
            }
        }
        check(&hub);
        for thread in 0..12 {
            let expected = watches.iter().filter(|(threads, _)| threads.contains(&thread)).count();
            assert_eq!(hub.watchers(&numbered(thread)) as usize, expected, "step {step}");
        }
    }
    for (threads, mut watching) in watches {
        let given = watching.take();
        for thread in threads {
            let last = given.iter().rev().find_map(|given| match given {
                Given::State(name, revision, _) if *name == numbered(thread).to_string() => Some(*revision),
                _ => None,
            });
            assert_eq!(last, Some(revisions.get(&thread).copied().unwrap_or(0)));
        }
    }
    assert_eq!(hub.streams(), 0);
}

#[test]
fn the_watchers_of_a_thread_are_counted_with_those_of_every_thread() {
    let hub = Arc::<Hub>::default();
    let some = watch_some(&hub, &["a", "b"]);
    let all = watch(&hub, Interest::All);
    assert_eq!((hub.watchers(&id("a")), hub.watchers(&id("z"))), (2, 1));
    drop(all);
    assert_eq!((hub.watchers(&id("a")), hub.watchers(&id("z"))), (1, 0));
    drop(some);
    assert_eq!(hub.watchers(&id("a")), 0);
}

// Heartbeats, and the end.

#[test]
fn a_heartbeat_breaks_a_silence_of_a_full_round_and_nothing_else() {
    let hub = Arc::<Hub>::default();
    let mut watching = watch_some(&hub, &["a"]);
    watching.take();
    hub.beat(0, 1);
    assert_eq!(watching.take(), [], "there were events since the last heartbeat");
    hub.beat(0, 1);
    assert_eq!(watching.wakes(), 1);
    assert_eq!(watching.take(), [Given::Heartbeat]);
    hub.beat(0, 1);
    hub.publish([opened("a", 1)]);
    hub.beat(0, 1);
    assert_eq!(watching.take(), [state("a", 1, 1)], "a state also counts as a sign of life");
}

#[test]
fn every_watch_has_its_beat_in_a_round() {
    let hub = Arc::<Hub>::default();
    let mut watches: Vec<_> = (0..100).map(|_| watch_some(&hub, &["a"])).collect();
    watches.iter_mut().for_each(|watching| _ = watching.take());
    (0..2).for_each(|_| (0..7).for_each(|part| hub.beat(part, 7)));
    assert!(watches.iter_mut().all(|watching| watching.take() == [Given::Heartbeat]));
}

#[test]
fn h1_a_watcher_of_a_prefix_gets_its_change_when_another_thread_is_lost_in_the_same_load() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a/1", 1), opened("b/2", 2)]);
    let mut watch = watch(&hub, Interest::Within(scope(&[], &["a/"])));
    assert_eq!(watch.take(), [state("a/1", 1, 1), Given::Complete]);
    let record = Record { header: header(5, false), ..Record::new(id("a/1"), 0, NOW) };
    hub.load(&[record], 0, 1, NOW);
    assert_eq!(watch.take(), [state("a/1", 5, 0)]);
}

#[test]
fn closing_ends_every_watch_and_every_later_one() {
    let hub = Arc::<Hub>::default();
    let mut watching = watch_some(&hub, &["a"]);
    watching.take();
    hub.close();
    assert_eq!(watching.wakes(), 1);
    assert_eq!(watching.poll(usize::MAX), Poll::Ready(vec![]));
    assert_eq!(watch(&hub, Interest::All).poll(usize::MAX), Poll::Ready(vec![]));
    drop(watching);
    assert_eq!(hub.streams(), 0);
}

// Lists.

#[test]
fn pages_list_every_thread_once_in_the_order_of_their_ids() {
    let hub = Arc::<Hub>::default();
    for i in (0..50).rev() {
        let thread = numbered(i);
        hub.publish([opened(thread.as_str(), 1)]);
        if i % 3 == 0 {
            hub.publish([closed(thread.as_str(), 2, 1)]);
        }
    }
    let pages = |size, include_running, scope: &Scope| {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let (views, more) = hub.list(after.as_deref(), size, include_running, scope);
            assert!(
                views.len() <= size && (all.is_empty() || !views.is_empty()),
                "only a page of an empty list may be empty"
            );
            all.extend(views.iter().map(|view| view.thread.to_string()));
            after = all.last().cloned();
            if !more {
                return all;
            }
        }
    };
    let known: Vec<_> = (0..50).map(|i| numbered(i).to_string()).collect();
    let paused: Vec<_> = (0..50).filter(|i| i % 3 != 0).map(|i| numbered(i).to_string()).collect();
    for size in [1, 7, 50, 1_000] {
        assert_eq!(pages(size, true, &Scope::ALL), known);
        assert_eq!(pages(size, false, &Scope::ALL), paused);
        let scopes = [
            scope(&["t00007", "t00003", "t00049", "none"], &[]),
            scope(&["t00007", "t00031"], &["t0001", "t00044", "t", "x"]),
            scope(&["t00007", "t00031"], &["t0001", "t00044", "x"]),
            scope(&[], &[]),
        ];
        for scope in &scopes {
            let of =
                |all: &[String]| all.iter().filter(|thread| scope.contains(&id(thread))).cloned().collect::<Vec<_>>();
            assert_eq!(pages(size, true, scope), of(&known), "{scope:?}");
            assert_eq!(pages(size, false, scope), of(&paused), "{scope:?}");
        }
    }
}

/// SplitMix64: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
