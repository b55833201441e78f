//! P1 to P3 of the history of pauses.
use super::super::history::{MAX_BYTES, MAX_ELICITATIONS, MAX_OPEN_BYTES, MAX_PAUSES};
use super::super::pauses::PausePage;
use super::*;

const SECOND: i64 = 1_000_000_000;

fn at(seconds: i64) -> Timestamp {
    // The two clocks differ, so that one is not mistaken for the other.
    Timestamp { boot: seconds * SECOND, wall: (1_000 + seconds) * SECOND }
}

/// A hub with one or several threads, whose pauses are made step by step.
struct Threads {
    hub: Hub,
    revision: u64,
    open: HashMap<String, (Vec<u64>, Option<Timestamp>)>,
}

impl Threads {
    fn new() -> Self {
        let hub = Hub::default();
        hub.load(&[], 0, 1, at(0));
        Threads { hub, revision: 0, open: HashMap::new() }
    }

    fn start(&mut self, thread: &str, texts: &str, now: Timestamp) -> u64 {
        self.revision += 1;
        let (open, since) = self.open.entry(thread.to_owned()).or_default();
        open.push(self.revision);
        since.get_or_insert(now);
        let pause = Pause { since: *since, ..Pause::default() };
        let elicitation = Elicitation {
            id: ElicitationId(self.revision.into()),
            reason: texts.into(),
            holder: texts.into(),
            created: now,
        };
        self.hub.publish([Committed {
            thread: id(thread),
            header: Header { revision: self.revision, pause, changed: now },
            event: Event::Opened(Arc::new(elicitation), None),
        }]);
        self.revision
    }

    fn close(&mut self, thread: &str, opened: u64, how: PauseEnd, now: Timestamp) {
        self.revision += 1;
        let (open, since) = self.open.get_mut(thread).unwrap();
        open.retain(|&other| other != opened);
        if open.is_empty() {
            *since = None;
        }
        let pause = Pause { since: *since, ..Pause::default() };
        self.hub.publish([Committed {
            thread: id(thread),
            header: Header { revision: self.revision, pause, changed: now },
            event: Event::Closed(ElicitationId(opened.into()), how),
        }]);
    }

    fn pause(&mut self, thread: &str, texts: &str, from: i64, to: i64) {
        let opened = self.start(thread, texts, at(from));
        self.close(thread, opened, PauseEnd::Decremented, at(to));
    }

    fn read(&self, below: u64, size: usize, filter: &PauseFilter<'_>) -> PausePage {
        self.hub.pauses(below, size, filter)
    }

    fn all(&self) -> Vec<Arc<EndedPause>> {
        self.read(u64::MAX, usize::MAX, &everything()).pauses
    }

    fn bytes(&self) -> (usize, usize) {
        let state = self.hub.lock();
        (state.history.bytes, state.history.open_bytes)
    }
}

fn everything() -> PauseFilter<'static> {
    PauseFilter { scope: &Scope::ALL, thread: None, ended: i64::MIN..i64::MAX }
}

#[test]
fn a_pause_is_kept_with_its_times_its_elicitations_and_how_each_ended() {
    let mut threads = Threads::new();
    let first = threads.start("t", "first", at(1));
    let second = threads.start("t", "second", at(2));
    threads.close("t", second, PauseEnd::Expired, at(3));
    assert!(threads.all().is_empty(), "the pause continues");
    threads.close("t", first, PauseEnd::Released, at(5));
    threads.pause("t", "third", 7, 8);
    let [third, both] = &threads.all()[..] else { panic!("expected two pauses") };
    assert_eq!((both.since, both.ended, both.length().as_secs(), both.how), (at(1), at(5), 4, PauseEnd::Released));
    let closed: Vec<_> =
        both.elicitations.iter().map(|closed| (&*closed.elicitation.reason, closed.closed, closed.how)).collect();
    assert_eq!(closed, [("second", at(3), PauseEnd::Expired), ("first", at(5), PauseEnd::Released)]);
    assert_eq!((third.since, third.elicitations.len(), third.omitted), (at(7), 1, 0));
    assert_eq!(threads.bytes().1, 0, "open pauses must use no memory for elicitations");
}

#[test]
fn pauses_that_are_published_together_are_two() {
    let hub = Hub::default();
    hub.publish([opened("t", 1), closed("t", 2, 1), opened("t", 3), closed("t", 4, 3)]);
    let pauses = hub.pauses(u64::MAX, 10, &everything()).pauses;
    let ids: Vec<_> = pauses.iter().map(|pause| pause.elicitations[0].elicitation.id.0).collect();
    assert_eq!(ids, [3, 1]);
}

#[test]
fn p1_the_oldest_give_way_to_the_number_of_pauses() {
    let mut threads = Threads::new();
    let more = 100;
    for i in 0..MAX_PAUSES as i64 + more {
        threads.pause("t", "", i, i + 1);
    }
    let page = threads.read(u64::MAX, usize::MAX, &everything());
    assert_eq!((page.pauses.len(), page.more), (MAX_PAUSES, false));
    assert_eq!((page.pauses[0].since, page.pauses.last().unwrap().since), (at(MAX_PAUSES as i64 + more - 1), at(more)));
    assert_eq!(
        page.complete_from,
        at(more).wall + 1,
        "it must be complete from right after the end of the last missing pause"
    );
}

#[test]
fn p1_the_oldest_give_way_to_the_bytes_of_pauses() {
    let mut threads = Threads::new();
    assert_eq!(
        threads.read(u64::MAX, 1, &everything()).complete_from,
        at(0).wall,
        "it must be complete from the start"
    );
    let text = "x".repeat(1_000);
    for i in 0..2_000 {
        threads.pause(&format!("thread-{i}"), &text, i, i + 1);
        assert!(threads.bytes().0 <= MAX_BYTES);
    }
    let all = threads.all();
    assert!((400..MAX_BYTES / 2_000).contains(&all.len()), "{}: each takes a little over 2,000 bytes", all.len());
    assert_eq!(all[0].since, at(1_999));
    let each = threads.bytes().0 / all.len();
    assert!(threads.bytes().0 + 2 * each > MAX_BYTES, "no more may be evicted than necessary");
}

#[test]
fn p2_pages_go_on_while_more_pauses_end_and_old_ones_give_way() {
    let mut threads = Threads::new();
    let mut next = 0;
    let mut pauses = |threads: &mut Threads, count| {
        for _ in 0..count {
            threads.pause("t", "", next, next + 1);
            next += 1;
        }
    };
    pauses(&mut threads, MAX_PAUSES as i64);
    let (mut below, mut seen) = (u64::MAX, Vec::new());
    loop {
        let page = threads.read(below, 700, &everything());
        seen.extend(page.pauses.iter().map(|pause| pause.number));
        let Some(last) = page.pauses.last().filter(|_| page.more) else { break };
        below = last.number;
        pauses(&mut threads, 100);
    }
    let expected: Vec<_> = (seen[seen.len() - 1]..=MAX_PAUSES as u64).rev().collect();
    assert_eq!(seen, expected, "each pause must occur once, without gaps and without later ones");
    assert_eq!(seen.len(), MAX_PAUSES - 500, "the evicted pauses must be missing at the end");
    assert!(threads.read(1, 10, &everything()).pauses.is_empty());
}

#[test]
fn pauses_are_read_by_thread_scope_and_time() {
    let mut threads = Threads::new();
    for i in 0..1_500 {
        threads.pause(["a", "b", "b/1"][i as usize % 3], "", i, i + 1);
    }
    let count = |filter: PauseFilter<'_>| {
        let page = threads.read(u64::MAX, 600, &filter);
        (page.pauses.len(), page.more)
    };
    let (b, b_and_below) = (id("b"), scope(&[], &["b"]));
    assert_eq!(count(PauseFilter { thread: Some(&b), ..everything() }), (500, false));
    assert_eq!(count(PauseFilter { scope: &b_and_below, ..everything() }), (600, true));
    assert_eq!(count(PauseFilter { scope: &scope(&["a"], &[]), thread: Some(&b), ..everything() }), (0, false));
    // Half-open: it includes pauses that end at the first moment, but not those that end at the last.
    assert_eq!(count(PauseFilter { ended: at(10).wall..at(20).wall, ..everything() }), (10, false));
    assert_eq!(count(PauseFilter { ended: at(10).wall..at(10).wall, ..everything() }), (0, false));
}

#[test]
fn p3_a_pause_remembers_sixteen_elicitations_and_counts_the_rest() {
    let mut threads = Threads::new();
    let opened: Vec<_> = (0..100).map(|i| threads.start("t", &i.to_string(), at(i))).collect();
    for (i, opened) in opened.into_iter().enumerate() {
        threads.close("t", opened, PauseEnd::Decremented, at(200 + i as i64));
    }
    let pause = &threads.all()[0];
    let reasons: Vec<_> = pause.elicitations.iter().map(|closed| closed.elicitation.reason.to_string()).collect();
    let expected: Vec<_> = (0..MAX_ELICITATIONS - 1).chain([99]).map(|i| i.to_string()).collect();
    assert_eq!(
        (reasons, pause.omitted),
        (expected, 84),
        "the first elicitations, and the one that ended the pause, must be kept"
    );
}

#[test]
fn p3_open_pauses_remember_a_bounded_amount_in_all() {
    let mut threads = Threads::new();
    let text = "x".repeat(1_000);
    let mut ends = Vec::new();
    for i in 0..200 {
        let thread = format!("thread-{i}");
        ends.push((thread.clone(), threads.start(&thread, "", at(0))));
        for _ in 0..MAX_ELICITATIONS {
            let opened = threads.start(&thread, &text, at(0));
            threads.close(&thread, opened, PauseEnd::Decremented, at(1));
        }
        assert!(threads.bytes().1 <= MAX_OPEN_BYTES);
    }
    for (thread, last) in ends {
        threads.close(&thread, last, PauseEnd::Decremented, at(2));
        let pause = &threads.read(u64::MAX, 1, &everything()).pauses[0];
        assert_eq!(
            pause.elicitations.len() + pause.omitted as usize,
            MAX_ELICITATIONS + 1,
            "each elicitation must be kept or counted"
        );
    }
    assert_eq!(threads.bytes().1, 0);
    assert_eq!(threads.read(u64::MAX, 1, &everything()).pauses[0].omitted, 16, "there was no memory for the last one");
}

#[test]
fn watchers_of_a_thread_are_those_that_see_it_without_observers() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1), opened("b", 2)]);
    let watching = [
        watch_some(&hub, &["a"]),
        watch_some(&hub, &["a", "b"]),
        watch(&hub, Interest::All),
        watch(&hub, Interest::Within(scope(&[], &["a"]))),
        watch(&hub, Interest::Within(scope(&["a"], &[]))),
        watch(&hub, Interest::Within(Scope::ALL)),
    ];
    let observing = [
        observe(&hub, Interest::All),
        observe(&hub, Interest::Threads(vec![id("a"), id("b")])),
        observe(&hub, Interest::Within(scope(&[], &["a"]))),
        observe(&hub, Interest::Within(Scope::ALL)),
    ];
    let listed = |hub: &Hub| {
        let (views, _) = hub.list(None, 10, true, &Scope::ALL);
        views.iter().map(|view| (view.thread.to_string(), view.watchers)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&hub), [("a".to_owned(), 6), ("b".to_owned(), 3)]);
    assert_eq!((hub.get(&id("a")).watchers, hub.watchers(&id("a")), hub.get(&id("c")).watchers), (6, 6, 2));
    drop(watching);
    assert_eq!(listed(&hub), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    drop(observing);
    check(&hub);
}
