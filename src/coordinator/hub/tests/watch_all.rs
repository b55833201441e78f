//! Watches of all threads, which are read a little at a time while threads change.
use super::*;

/// A thread of the model.
#[derive(Clone, Copy, Default)]
struct Thread {
    revision: u64,
    /// The revision that opened its only elicitation.
    opened: Option<u64>,
    /// Whether it has been paused since the watch began, without interruption.
    since_start: bool,
}

/// The last state of each thread that the watch received: revision and open elicitations.
type Seen = HashMap<String, (u64, usize)>;

fn change(hub: &Hub, name: &str, thread: &mut Thread, random: &mut Random) {
    thread.revision += 1;
    match thread.opened {
        // The count changes, and the pause continues.
        Some(_) if random.below(2) == 0 => hub.publish([opened(name, thread.revision)]),
        Some(open) => {
            let ids = open..thread.revision;
            let last = thread.revision + ids.clone().count() as u64;
            hub.publish(ids.map(|open| Committed {
                header: header(last, false),
                event: Event::Closed(ElicitationId(open.into()), PauseEnd::Decremented),
                thread: id(name),
            }));
            *thread = Thread { revision: last, ..Thread::default() };
        }
        None => {
            hub.publish([opened(name, thread.revision)]);
            thread.opened = Some(thread.revision);
        }
    }
}

/// Checks the events and their order, and records them.
fn note(seen: &mut Seen, given: Vec<Given>) -> bool {
    let mut complete = false;
    for given in given {
        match given {
            Given::State(name, revision, open) => {
                let before = seen.insert(name.clone(), (revision, open));
                assert!(before.is_none_or(|(before, _)| before < revision), "{name}: {before:?}, then {revision}");
            }
            Given::Complete => complete = true,
            Given::Heartbeat => {}
        }
    }
    complete
}

#[test]
fn h1_h2_a_slow_watch_of_all_threads_has_a_whole_snapshot_and_rising_revisions_up_to_the_last() {
    let mut random = Random(0x5eed_0003);
    for round in 0..300 {
        let hub = Arc::<Hub>::default();
        let names: Vec<_> = (0..12).map(|i| numbered(i).to_string()).collect();
        let mut threads = [Thread::default(); 12];
        for _ in 0..random.below(20) {
            let i = random.below(12);
            change(&hub, &names[i], &mut threads[i], &mut random);
        }
        threads.iter_mut().for_each(|thread| thread.since_start = thread.opened.is_some());
        let interest = match round % 2 {
            0 => Interest::All,
            _ => Interest::Within(scope(&[], &["t0000"])),
        };
        let in_scope = |i: usize| round % 2 == 0 || i < 10;
        let mut watching = watch(&hub, interest);
        let (mut seen, mut complete) = (Seen::new(), false);
        for _ in 0..60 {
            if random.below(3) > 0 {
                let i = random.below(12);
                change(&hub, &names[i], &mut threads[i], &mut random);
                continue;
            }
            let Poll::Ready(given) = watching.poll(1 + random.below(3)) else { continue };
            let had = complete;
            for given in given {
                complete |= note(&mut seen, vec![given]);
                if complete && !had {
                    for (i, thread) in threads.iter().enumerate().filter(|&(i, _)| in_scope(i)) {
                        assert!(
                            !thread.since_start || seen.contains_key(&names[i]),
                            "{} was paused all the time, so it must be in the snapshot",
                            names[i]
                        );
                    }
                }
            }
        }
        complete |= note(&mut seen, watching.take());
        assert!(complete);
        for (i, thread) in threads.iter().enumerate() {
            match seen.get(&names[i]) {
                Some(&(revision, open)) => {
                    assert!(in_scope(i));
                    assert_eq!((revision, open > 0), (thread.revision, thread.opened.is_some()), "{}", names[i]);
                }
                None => assert!(!in_scope(i) || thread.opened.is_none(), "{} is paused", names[i]),
            }
        }
        check(&hub);
    }
}

#[test]
fn watches_of_all_threads_come_and_go_in_any_order() {
    let hub = Arc::<Hub>::default();
    let mut random = Random(0x5eed_0004);
    let mut watching: Vec<(Watching, bool)> = Vec::new();
    for revision in 1..=500 {
        if random.below(2) == 0 && !watching.is_empty() {
            watching.swap_remove(random.below(watching.len()));
        } else {
            let within = || Interest::Within(scope(&[], &["t"]));
            let interest = if random.below(2) == 0 { Interest::All } else { within() };
            let observes = random.below(2) == 0;
            let start = if observes { observe } else { watch };
            watching.push((start(&hub, interest), observes));
        }
        watching.iter_mut().for_each(|(watching, _)| _ = watching.take());
        hub.publish([opened("t", revision)]);
        for (watching, _) in &mut watching {
            assert_eq!(watching.take(), [state("t", revision, revision as usize)]);
        }
        assert_eq!(hub.watchers(&id("t")) as usize, watching.iter().filter(|(_, observes)| !observes).count());
        check(&hub);
    }
}
