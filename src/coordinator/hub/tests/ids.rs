//! Ids are stored compactly while their threads are only watched.
use super::*;

fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

#[test]
fn a_uuid_is_watched_before_its_thread_is_known_and_after_it_is_forgotten() {
    let (hub, thread) = (Arc::<Hub>::default(), &uuid(0xabc)[..]);
    let mut watching = watch_some(&hub, &[thread, "t"]);
    let taken = |watching: &mut Watching| {
        check(&hub);
        watching.take()
    };
    assert_eq!(taken(&mut watching), [state(thread, 0, 0), state("t", 0, 0), Given::Complete]);
    hub.publish([opened(thread, 1)]);
    assert_eq!(taken(&mut watching), [state(thread, 1, 1)]);
    hub.publish([closed(thread, 2, 1), forgotten(thread, 2)]);
    assert_eq!(taken(&mut watching), [state(thread, 2, 0)]);
    hub.publish([opened(thread, 3)]);
    assert_eq!(taken(&mut watching), [state(thread, 3, 1)]);
    assert_eq!(hub.list(None, 10, false, &Scope::ALL).0[0].thread.as_str(), thread);
    hub.publish([closed(thread, 4, 3), forgotten(thread, 4)]);
    drop(watching);
    assert_eq!(topics(&hub), 0);
}

/// Meanwhile the tables grow, and read the ids again.
#[test]
fn many_uuids_are_found() {
    let hub = Arc::<Hub>::default();
    let mut watching = Watching { subscription: hub.watch_none(), wakes: Arc::default() };
    let threads: Vec<_> = (0..1_000).map(|number| id(&uuid(number))).collect();
    threads.chunks(100).for_each(|some| watching.subscription.change(&[], some));
    check(&hub);
    assert_eq!(watching.take().len(), threads.len());
    watching.subscription.change(&threads[..500], &threads[400..600]);
    check(&hub);
    assert_eq!((topics(&hub), watching.subscription.count_after(&[], &[])), (600, 600));
    hub.publish(threads.iter().map(|thread| opened(thread.as_str(), 1)));
    assert_eq!(watching.take().len(), 600, "each watched thread must occur once");
}
