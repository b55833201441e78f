//! Watches whose threads change.
use super::watcher::{Changed, KEPT};
use super::*;

fn ids(threads: &[&str]) -> Vec<ThreadId> {
    threads.iter().copied().map(id).collect()
}

fn watch_none(hub: &Arc<Hub>) -> Watching {
    Watching { subscription: hub.watch_none(), wakes: Arc::default() }
}

impl Watching {
    fn change(&mut self, remove: &[&str], add: &[&str]) -> usize {
        let (remove, add) = (ids(remove), ids(add));
        let count = self.subscription.count_after(&remove, &add);
        self.subscription.change(&remove, &add);
        self.subscription.mark();
        count
    }
}

#[test]
fn threads_that_are_added_are_given_before_the_mark_and_changes_of_removed_ones_are_not() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 1)]);
    let mut watching = watch_none(&hub);
    assert_eq!(watching.poll(9), Poll::Pending, "there must be no snapshot of an empty set");
    assert_eq!(watching.change(&[], &["a", "b", "a"]), 2);
    assert_eq!(watching.take(), [state("a", 1, 1), state("b", 0, 0), Given::Complete]);
    hub.publish([opened("a", 2), opened("b", 1)]);
    assert_eq!(watching.change(&["a", "none"], &["c"]), 2);
    hub.publish([opened("a", 3)]);
    // The slot of a removed thread is reused while it is still queued.
    assert_eq!(watching.take(), [state("c", 0, 0), state("b", 1, 1), Given::Complete]);
    check(&hub);
    hub.publish([opened("b", 2), opened("c", 1)]);
    assert_eq!(watching.change(&["b"], &["d"]), 2);
    assert_eq!(watching.take(), [state("d", 0, 0), state("c", 1, 1), Given::Complete]);
    assert_eq!(watching.change(&["c", "d"], &[]), 0);
    assert_eq!(watching.take(), [Given::Complete]);
    assert_eq!(["a", "b", "c", "d"].map(|thread| hub.watchers(&id(thread))), [0; 4]);
    check(&hub);
    drop(watching);
    assert_eq!((hub.streams(), topics(&hub)), (0, 3));
}

#[test]
fn a_thread_in_both_lists_is_watched_and_given_again() {
    let hub = Arc::<Hub>::default();
    let mut watching = watch_none(&hub);
    assert_eq!(watching.change(&["a"], &["a"]), 1);
    assert_eq!(watching.take(), [state("a", 0, 0), Given::Complete]);
    assert_eq!(watching.change(&["a", "a"], &["a", "b", "b"]), 2);
    assert_eq!(watching.take(), [state("a", 0, 0), state("b", 0, 0), Given::Complete]);
    check(&hub);
}

#[test]
fn the_mark_of_a_watch_of_all_is_after_the_snapshot_and_what_is_due() {
    for interest in [Interest::All, Interest::Within(scope(&[], &["a"])), Interest::Within(scope(&["a", "ab"], &[]))] {
        let hub = Arc::<Hub>::default();
        hub.publish([opened("a", 1)]);
        let mut watching = watch_none(&hub);
        watching.subscription.begin(interest);
        watching.subscription.mark();
        assert_eq!(watching.poll(1), Poll::Ready(vec![state("a", 1, 1)]));
        hub.publish([opened("a", 2), opened("x", 1)]);
        let more: Vec<_> = watching.take().into_iter().filter(|given| *given != state("x", 1, 1)).collect();
        assert!(more == [Given::Complete, state("a", 2, 1)] || more == [Given::Complete, state("a", 2, 2)], "{more:?}");
        hub.publish([opened("ab", 1), opened("x", 2)]);
        watching.subscription.mark();
        let more: Vec<_> = watching.take().into_iter().filter(|given| *given != state("x", 2, 2)).collect();
        assert_eq!(more, [state("ab", 1, 1), Given::Complete]);
        watching.subscription.mark();
        assert_eq!(watching.take(), [Given::Complete], "the answer must also come when nothing is due");
        check(&hub);
    }
}

#[test]
fn present_states_are_given_until_the_sink_is_full() {
    let hub = Arc::<Hub>::default();
    hub.publish([opened("a", 7)]);
    let watching = watch_none(&hub);
    let mut notes = Notes { given: Vec::new(), room: 2 };
    assert_eq!(watching.subscription.give(&ids(&["b", "a", "c"]), &mut notes), 2);
    assert_eq!(notes.given, [state("b", 0, 0), state("a", 7, 1)]);
    assert_eq!(topics(&hub), 1, "a query must leave no state behind");
}

#[test]
fn h3_g7_memory_is_bounded_by_the_threads_that_are_watched_now() {
    let hub = Arc::<Hub>::default();
    let mut watching = watch_none(&hub);
    let places = |watching: &Watching| match &hub.lock().watchers[watching.subscription.key as usize].changed {
        Changed::Many(many) => many.threads.capacity().max(many.queued.capacity()),
        other => panic!("{other:?}"),
    };
    let names: Vec<_> = (0..5_000).map(|i| numbered(i).to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    watching.change(&[], &names);
    assert_eq!(watching.take().len(), 5_001);
    // Meanwhile some of them are queued, also some of those that stay.
    hub.publish(names.iter().rev().step_by(7).map(|name| opened(name, 1)));
    let (gone, kept) = names.split_at(4_980);
    for (part, removed) in gone.chunks(500).enumerate() {
        assert_eq!(watching.change(removed, &[]), 5_000 - (500 * (part + 1)).min(gone.len()));
        check(&hub);
    }
    assert!(places(&watching) <= 8 * KEPT, "{} places for 20 threads", places(&watching));
    let due: Vec<_> = kept.iter().rev().filter(|name| hub.get(&id(name)).header.is_some()).collect();
    let expected: Vec<_> = due.into_iter().map(|name| state(name, 1, 1)).chain([Given::Complete]).collect();
    assert_eq!(watching.take(), expected, "the states must be in order");
    hub.publish([opened(kept[0], 1), opened(kept[1], 2), opened(gone[0], 2)]);
    let given = watching.take();
    assert_eq!(given.len(), 2, "{given:?}");
    assert_eq!(watching.change(kept, &["a"]), 1);
    assert_eq!(watching.take(), [state("a", 0, 0), Given::Complete]);
    check(&hub);
}

/// H1 and H3, compared with a simple model: the watched threads, and the last state of each.
#[test]
fn random_changes_keep_every_place_right_and_lose_no_state() {
    let mut random = Random(0x5eed_0003);
    let hub = Arc::<Hub>::default();
    let mut watches: Vec<(HashSet<String>, Watching)> = (0..3).map(|_| (HashSet::new(), watch_none(&hub))).collect();
    let mut seen: Vec<HashMap<String, u64>> = vec![HashMap::new(); 3];
    let mut revisions: HashMap<String, u64> = HashMap::new();
    for step in 0..4_000 {
        let which = random.below(3);
        let (watched, watching) = &mut watches[which];
        match random.below(3) {
            0 => {
                let mut some = || (0..random.below(9)).map(|_| numbered(random.below(40)).to_string()).collect();
                let (remove, add): (Vec<String>, Vec<String>) = (some(), some());
                remove.iter().for_each(|thread| _ = watched.remove(thread));
                watched.extend(add.iter().cloned());
                let [remove, add] = [&remove, &add].map(|ids| ids.iter().map(String::as_str).collect::<Vec<_>>());
                assert_eq!(watching.change(&remove, &add), watched.len(), "step {step}");
            }
            1 => {
                let thread = numbered(random.below(40)).to_string();
                let revision = revisions.entry(thread.clone()).or_default();
                *revision += 1;
                hub.publish([opened(&thread, *revision)]);
            }
            _ => {
                let had_mark = hub.lock().watchers[watching.subscription.key as usize].mark.is_some();
                let given = watching.take();
                assert_eq!(given.iter().filter(|given| **given == Given::Complete).count(), usize::from(had_mark));
                for one in given {
                    let Given::State(thread, revision, _) = one else { continue };
                    assert!(watched.contains(&thread), "step {step}: {thread} is not watched");
                    let before = seen[which].insert(thread, revision);
                    assert!(before.is_none_or(|before| before <= revision), "step {step}");
                }
                for thread in watched.iter() {
                    let revision = revisions.get(thread).copied().unwrap_or_default();
                    assert_eq!(seen[which].get(thread), Some(&revision), "step {step}: {thread}");
                }
            }
        }
        check(&hub);
    }
    drop(watches);
    check(&hub);
    assert_eq!(topics(&hub), revisions.len());
}
