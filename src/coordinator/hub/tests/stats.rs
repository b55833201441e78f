//! Figures for operators.
use super::*;

#[test]
fn deliveries_and_conflations_are_counted() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1)]);
    let mut watching = [
        watch_some(&hub, &["a"]),
        watch_some(&hub, &["a", "b"]),
        watch(&hub, Interest::All),
        watch(&hub, Interest::Within(scope(&[], &["a"]))),
    ];
    let counted = |hub: &Hub| (hub.figures().deliveries, hub.figures().conflations);
    watching.iter_mut().for_each(|watching| drop(watching.take()));
    // The second watch gets `b` too.
    assert_eq!((counted(&hub), hub.figures().streams), ((5, 0), 4));
    hub.publish([opened("a", 2)]);
    assert_eq!(counted(&hub), (5, 0), "no watch was slow");
    hub.publish([opened("a", 3), opened("a", 4)]);
    assert_eq!(counted(&hub), (5, 8), "each watch has missed two states");
    watching.iter_mut().for_each(|watching| drop(watching.take()));
    assert_eq!(counted(&hub), (9, 8));
    check(&hub);
}

#[test]
fn the_oldest_pause_is_found_among_any_number() {
    let hub = Arc::<Hub>::default();
    assert_eq!(hub.open_pauses().oldest, None);
    let at = |boot| Timestamp { boot, wall: boot };
    let paused = |i: usize, since| {
        let thread = numbered(i);
        let mut committed = opened(thread.as_str(), 1);
        committed.header.pause.since = Some(at(since));
        committed
    };
    hub.publish([paused(0, 7), paused(1, 9)]);
    assert_eq!(hub.open_pauses().oldest, Some(at(7)));
    // More than are checked at once; the oldest is first at the beginning, then at the end.
    hub.publish((2..10_000).map(|i| paused(i, 8)));
    assert_eq!(hub.open_pauses().oldest, Some(at(7)));
    hub.publish([paused(10_000, 3)]);
    assert_eq!(hub.open_pauses().oldest, Some(at(3)));
    let figures = HubStats { threads: 10_001, paused: 10_001, open: 10_001, ..HubStats::default() };
    assert_eq!(hub.figures(), figures);
}

#[test]
fn paused_threads_that_nobody_but_observers_sees_are_counted() {
    let hub = Arc::<Hub>::default();
    let unwatched = |hub: &Hub| hub.open_pauses().unwatched;
    hub.publish((0..10_000).map(|i| opened(numbered(i).as_str(), 1)));
    assert_eq!(unwatched(&hub), 10_000);
    let _observers = [
        observe(&hub, Interest::All),
        observe(&hub, Interest::Within(scope(&[], &["t"]))),
        observe(&hub, Interest::Threads(vec![numbered(0)])),
    ];
    assert_eq!(unwatched(&hub), 10_000);
    for every_thread in [Interest::All, Interest::Within(scope(&[], &["t"]))] {
        let watching = watch(&hub, every_thread);
        assert_eq!(unwatched(&hub), 0);
        drop(watching);
    }
    let first = watch_some(&hub, &["t00000", "t00001", "running"]);
    let _again = watch_some(&hub, &["t00001"]);
    assert_eq!(unwatched(&hub), 9_998);
    let _scoped = watch(&hub, Interest::Within(scope(&["t00002"], &[])));
    assert_eq!(unwatched(&hub), 9_997, "a scope that names the thread counts as a watch");
    drop(first);
    assert_eq!(unwatched(&hub), 9_998);
    hub.publish([closed("t00009", 2, 1), forgotten("t00008", 2)]);
    assert_eq!(unwatched(&hub), 9_996, "one has resumed, and one watch has ended");
}
