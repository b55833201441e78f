//! H2: the snapshot.
use super::*;

#[test]
fn a_watch_begins_with_each_thread_once_then_the_end_of_the_snapshot() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1), opened("a", 2), opened("b", 1), closed("b", 2, 1)]);
    let mut watching = watch_some(&hub, &["b", "a", "idle", "a", "b"]);
    let snapshot = [state("b", 2, 0), state("a", 2, 2), state("idle", 0, 0), Given::Complete];
    assert_eq!(watching.take(), snapshot);
    assert_eq!(hub.watchers(&id("a")), 1, "an id that is named twice is watched once");
    check(&hub);
}

#[test]
fn a_watch_of_every_thread_begins_with_the_paused_ones() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1), opened("b", 1), closed("b", 2, 1)]);
    let mut watching = watch(&hub, Interest::All);
    assert_eq!(watching.take(), [state("a", 1, 1), Given::Complete]);
    hub.publish([opened("b", 3), opened("new", 1)]);
    assert_eq!(watching.take(), [state("b", 3, 1), state("new", 1, 1)]);
}

#[test]
fn g8_a_watch_within_a_scope_sees_nothing_else() {
    for (ids, prefixes) in [(&["a1", "a2", "ax", "idle"][..], &[][..]), (&[], &["a"]), (&["a1", "ax"], &["a2", "idle"])]
    {
        let hub = Arc::<Hub>::default();
        hub.publish([opened("a1", 1), opened("b1", 1), opened("a2", 1), closed("a2", 2, 1)]);
        let mut watching = watch(&hub, Interest::Within(scope(ids, prefixes)));
        assert_eq!(watching.take(), [state("a1", 1, 1), Given::Complete], "{ids:?} {prefixes:?}");
        hub.publish([opened("b1", 2), opened("b2", 1)]);
        assert_eq!((watching.wakes(), watching.poll(9)), (0, Poll::Pending));
        hub.publish([opened("a2", 3), opened("b1", 3), opened("ax", 1)]);
        assert_eq!(watching.take(), [state("a2", 3, 1), state("ax", 1, 1)]);
        assert_eq!(["a1", "ax", "b1"].map(|thread| hub.watchers(&id(thread))), [1, 1, 0]);
        check(&hub);
        drop(watching);
        assert_eq!(hub.watchers(&id("a1")), 0);
    }
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1)]);
    assert_eq!(
        watch(&hub, Interest::Within(scope(&[], &[]))).take(),
        [Given::Complete],
        "a scope without threads must have an empty snapshot"
    );
    assert_eq!(watch(&hub, Interest::Within(Scope::ALL)).take(), [state("a", 1, 1), Given::Complete]);
}

#[test]
fn a_watch_of_nothing_paused_still_ends_its_snapshot() {
    let hub = Arc::<Hub>::default();
    assert_eq!(watch(&hub, Interest::All).take(), [Given::Complete]);
}

#[test]
fn changes_during_the_snapshot_come_after_its_end_and_never_before_their_thread() {
    for interest in [Interest::All, Interest::Threads(["a", "b", "c"].map(id).into())] {
        let hub = Arc::<Hub>::default();
        hub.publish([opened("a", 1), opened("b", 1), opened("c", 1)]);
        let mut watching = watch(&hub, interest);
        assert_eq!(watching.poll(1), Poll::Ready(vec![state("a", 1, 1)]));
        hub.publish([opened("a", 2), opened("c", 2), opened("c", 3)]);
        let rest = [state("b", 1, 1), state("c", 3, 3), Given::Complete, state("a", 2, 2)];
        assert_eq!(watching.take(), rest);
    }
}

#[test]
fn a_thread_that_is_forgotten_during_the_snapshot_does_not_hold_up_its_end() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1), opened("b", 1)]);
    let mut watching = watch(&hub, Interest::All);
    hub.publish([closed("a", 2, 1), forgotten("a", 2)]);
    assert_eq!(watching.take(), [state("b", 1, 1), Given::Complete]);
}

#[test]
fn a_watch_takes_10000_threads() {
    let hub = Arc::<Hub>::default();
    let threads: Vec<_> = (0..10_000).map(numbered).collect();
    let mut watching = watch(&hub, Interest::Threads(threads));
    let given = watching.take();
    let distinct: HashSet<_> = given.iter().map(|given| format!("{given:?}")).collect();
    assert_eq!((given.len(), distinct.len(), given.last()), (10_001, 10_001, Some(&Given::Complete)));
    hub.publish([opened("t09999", 1), opened("t00000", 1)]);
    assert_eq!(watching.take(), [state("t09999", 1, 1), state("t00000", 1, 1)]);
    drop(watching);
    assert_eq!(topics(&hub), 2);
    check(&hub);
}
