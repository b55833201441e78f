//! The watch that heals itself.
use crate::fake::{Fake, settle};
use pausewatch::client::{Error, Event, Update, Watch};
use std::{collections::HashSet, time::Duration};
use tokio::time::{Instant, timeout};

/// What the watch has to say until it waits for something to happen.
async fn drain(watch: &mut Watch) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(event) = timeout(Duration::from_millis(1), watch.next()).await {
        events.push(event);
    }
    events
}

fn short(event: &Event) -> String {
    match event {
        Event::State(Update { state, gap, changed }) => {
            let gap = if *gap { " gap" } else { "" };
            let same = if *changed { "" } else { " same" };
            format!("{} {}@{}{gap}{same}", state.thread_id, state.count, state.revision)
        }
        Event::SnapshotComplete => "complete".to_owned(),
        Event::Disconnected { thread_ids, .. } => format!("disconnected {}", thread_ids.len()),
        other => format!("{other:?}"),
    }
}

async fn said(watch: &mut Watch) -> Vec<String> {
    drain(watch).await.iter().map(short).collect()
}

/// As `said`, after a time in which the watch is read.
async fn said_after(watch: &mut Watch, time: Duration) -> Vec<String> {
    let end = Instant::now() + time;
    let mut events = Vec::new();
    while let Ok(event) = tokio::time::timeout_at(end, watch.next()).await {
        events.push(short(&event));
    }
    events
}

async fn watching(fake: &Fake, thread_ids: &[&str]) -> Watch {
    let mut watch = fake.client().watch();
    thread_ids.iter().for_each(|id| watch.add(id).unwrap());
    watch
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_the_snapshot_then_each_change_in_order() {
    let fake = Fake::start();
    fake.pause("a");
    let mut watch = watching(&fake, &["a", "b"]).await;
    let mut snapshot = said(&mut watch).await;
    assert_eq!(snapshot.pop().unwrap(), "complete");
    snapshot.sort();
    assert_eq!(snapshot, ["a 1@1 gap", "b 0@0 gap"]);
    fake.pause("b");
    assert_eq!(said(&mut watch).await, ["b 1@1"]);
    fake.resume("b");
    assert_eq!(said(&mut watch).await, ["b 0@2"]);
}

#[tokio::test(start_paused = true)]
async fn g3_changes_during_a_disconnect_are_reported_after_it() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a", "b"]).await;
    drain(&mut watch).await;
    fake.cut();
    assert_eq!(said(&mut watch).await, ["disconnected 2"], "once, however often it is tried");
    fake.pause("a");
    assert_eq!(said_after(&mut watch, Duration::from_secs(60)).await, [""; 0]);
    fake.resume("a");
    fake.mend();
    let mut healed = said_after(&mut watch, Duration::from_secs(7)).await;
    assert_eq!(healed.pop().unwrap(), "complete");
    healed.sort();
    assert_eq!(healed, ["a 0@2 gap", "b 0@0 gap same"]);
    fake.pause("b");
    assert_eq!(said(&mut watch).await, ["b 1@1"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_reconnects_soon_after_a_restart() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    for _ in 0..5 {
        fake.drop_connections();
        assert_eq!(said_after(&mut watch, Duration::from_millis(101)).await.len(), 3, "the pause does not grow");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_silent_for_two_heartbeats_is_reopened() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    assert_eq!(said_after(&mut watch, Duration::from_secs(600)).await, [""; 0], "heartbeats keep it alive");
    fake.script().mute = true;
    fake.pause("a");
    let start = Instant::now();
    assert!(matches!(watch.next().await, Event::Disconnected { .. }));
    assert!(start.elapsed() <= Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(said_after(&mut watch, Duration::from_secs(1)).await, ["a 1@1 gap", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_peer_is_detected_by_pings() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    fake.freeze(true);
    let start = Instant::now();
    assert!(matches!(watch.next().await, Event::Disconnected { .. }));
    // At the latest: HTTP/2 pings notice within 15 s, on a clock that tests cannot move.
    assert!(start.elapsed() <= Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn threads_can_be_added_and_removed_while_a_watch_runs() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    fake.pause("b");
    watch.add("b").unwrap();
    assert_eq!(said(&mut watch).await, ["b 1@1 gap", "complete"]);
    fake.pause("a");
    assert_eq!(said(&mut watch).await, ["a 1@1"], "the old thread is followed on");
    watch.remove("a");
    fake.resume("a");
    fake.resume("b");
    assert_eq!(said(&mut watch).await, ["b 0@2"]);
    watch.remove("b");
    settle().await;
    assert_eq!((fake.seen().open_watches, watch.len()), (0, 0), "an empty set needs no stream");
    watch.add("a").unwrap();
    assert_eq!(said(&mut watch).await, ["a 0@2 gap", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn g6_no_change_is_lost_or_reported_twice_while_streams_are_merged() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["t0"]).await;
    drain(&mut watch).await;
    let mut told = vec![0; 64];
    for i in 1..64 {
        watch.add(&format!("t{i}")).unwrap();
        // Every thread changes while the merge is under way.
        (0..64).for_each(|j| drop(fake.pause(&format!("t{j}"))));
        for event in drain(&mut watch).await {
            if let Event::State(Update { state, .. }) = event {
                let last: &mut u64 = &mut told[state.thread_id[1..].parse::<usize>().unwrap()];
                assert!(
                    state.revision > *last,
                    "{} after {last}",
                    short(&Event::State(Update { state, gap: false, changed: true }))
                );
                *last = state.revision;
            }
        }
    }
    assert!(told.iter().all(|revision| *revision == 63), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn g6_states_that_only_the_new_stream_has_are_reported_when_it_replaces_the_old_one() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    // The old stream lags; the snapshot of the new one does not.
    fake.script().mute = true;
    fake.pause("a");
    watch.add("b").unwrap();
    assert_eq!(said(&mut watch).await, ["b 0@0 gap", "a 1@1", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn g7_adding_threads_one_by_one_sends_each_id_a_few_times_only() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    for i in 0..2_000 {
        watch.add(&format!("t{i}")).unwrap();
        drain(&mut watch).await;
    }
    let sent: usize = fake.seen().watches.iter().sum();
    assert!(sent <= 2_000 * 12, "{sent} ids sent for 2,000: log2 would be 11 each");
    assert!(fake.seen().open_watches <= 12, "{}", fake.seen().open_watches);

    (0..1_990).for_each(|i| watch.remove(&format!("t{i}")));
    watch.add("last").unwrap();
    drain(&mut watch).await;
    drain(&mut watch).await;
    assert!(fake.seen().open_watches <= 3, "{} streams for 11 threads", fake.seen().open_watches);
}

#[tokio::test(start_paused = true)]
async fn g7_an_unchanged_set_is_merged_into_one_stream() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    for i in 0..100 {
        watch.add(&format!("t{i}")).unwrap();
        drain(&mut watch).await;
    }
    assert!(fake.seen().open_watches > 1, "{}", fake.seen().open_watches);
    assert_eq!(said_after(&mut watch, Duration::from_secs(2)).await, [""; 0], "a merge is no news");
    assert_eq!(fake.seen().open_watches, 1);
    let streams = fake.seen().watches.len();
    fake.pause("t0");
    fake.pause("t99");
    let mut told = said_after(&mut watch, Duration::from_secs(60)).await;
    told.sort();
    assert_eq!(told, ["t0 1@1", "t99 1@1"]);
    assert_eq!(fake.seen().watches.len(), streams, "and keeps it");
}

#[tokio::test(start_paused = true)]
async fn more_than_10_000_threads_take_more_than_one_stream() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    (0..25_000).for_each(|i| watch.add(&format!("t{i}")).unwrap());
    let events = drain(&mut watch).await;
    let told: HashSet<_> =
        events.iter().filter_map(|e| if let Event::State(u) = e { Some(&u.state.thread_id) } else { None }).collect();
    assert_eq!((told.len(), events.len()), (25_000, 25_001));
    assert_eq!(fake.seen().watches, [10_000, 10_000, 5_000]);
    assert!(matches!(events.last(), Some(Event::SnapshotComplete)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_thread_does_not_prevent_watching_others() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    fake.script().refuse_watch_of = Some("forbidden".to_owned());
    watch.add("forbidden").unwrap();
    assert_eq!(said(&mut watch).await, ["disconnected 1"]);
    watch.add("b").unwrap();
    assert_eq!(said(&mut watch).await, ["b 0@0 gap"]);
    fake.pause("a");
    fake.pause("b");
    assert_eq!(said(&mut watch).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_thread_id_is_refused_before_it_is_sent() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    for bad in ["", "a\nb", "\u{85}", &"x".repeat(257)] {
        assert!(matches!(watch.add(bad), Err(Error::InvalidField { field, .. }) if field == "thread_id"), "{bad:?}");
    }
    for good in ["a", "ä b", &"x".repeat(256)] {
        watch.add(good).unwrap();
    }
    assert_eq!(watch.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_all_threads_reports_resumes_during_a_disconnect() {
    let fake = Fake::start();
    fake.pause("stays");
    fake.pause("ends");
    let mut watch = fake.client().watch_all();
    let mut snapshot = said(&mut watch).await;
    assert_eq!(snapshot.pop().unwrap(), "complete");
    snapshot.sort();
    assert_eq!(snapshot, ["ends 1@1 gap", "stays 1@1 gap"]);
    fake.cut();
    assert_eq!(said(&mut watch).await, ["disconnected 0"]);
    fake.resume("ends");
    fake.pause("new");
    fake.mend();
    let mut healed = said_after(&mut watch, Duration::from_secs(1)).await;
    assert_eq!(healed.pop().unwrap(), "complete", "only when all is told");
    healed.sort();
    assert_eq!(healed, ["ends 0@2 gap", "new 1@1 gap", "stays 1@1 gap same"]);
    fake.resume("new");
    assert_eq!(said(&mut watch).await, ["new 0@2"]);
}

#[tokio::test(start_paused = true)]
async fn g6_states_older_than_a_query_response_are_dropped() {
    let fake = Fake::start();
    fake.pause("stays");
    fake.pause("ends");
    let mut watch = fake.client().watch_all();
    said(&mut watch).await;
    fake.cut();
    said(&mut watch).await;
    fake.resume("ends");
    fake.mend();
    // Nobody reads meanwhile: the stream has more to tell when the watch asks for what its snapshot has left out.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        fake.pause("ends");
        settle().await;
        fake.resume("ends");
        settle().await;
    }
    assert_eq!(said(&mut watch).await, ["stays 1@1 gap same", "ends 0@6 gap", "complete"]);
    fake.pause("ends");
    assert_eq!(said(&mut watch).await, ["ends 1@7"]);
}

/// A watch of everything that knows "a" as paused at revision 1, lost its connection, and has not read since: waiting are a
/// snapshot without "a", which resumed meanwhile, and then its revisions 3 to 6.
async fn behind_after_a_disconnect(fake: &Fake) -> Watch {
    fake.pause("a");
    let mut watch = fake.client().watch_all();
    said(&mut watch).await;
    fake.cut();
    said(&mut watch).await;
    fake.resume("a");
    fake.mend();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        fake.pause("a");
        settle().await;
        fake.resume("a");
        settle().await;
    }
    watch
}

#[tokio::test(start_paused = true)]
async fn g6_states_older_than_a_paused_query_response_are_dropped() {
    let fake = Fake::start();
    let mut watch = behind_after_a_disconnect(&fake).await;
    fake.pause("a");
    assert_eq!(said(&mut watch).await, ["a 1@7 gap", "complete"]);
    fake.resume("a");
    assert_eq!(said(&mut watch).await, ["a 0@8"]);
}

#[tokio::test(start_paused = true)]
async fn g6_a_state_from_the_stream_during_a_query_wins_over_the_response() {
    let fake = Fake::start();
    let mut watch = behind_after_a_disconnect(&fake).await;
    // The first two questions fail.
    fake.hold_answers(true);
    assert_eq!(said_after(&mut watch, Duration::from_secs(12)).await, ["a 1@3 gap", "a 0@4"]);
    fake.hold_answers(false);
    assert_eq!(said(&mut watch).await, ["complete", "a 1@5", "a 0@6"]);
}

#[tokio::test(start_paused = true)]
async fn g6_a_watch_of_all_threads_reports_no_overtaken_state() {
    let fake = Fake::start();
    fake.pause("t");
    let mut watch = fake.client().watch_all();
    assert_eq!(said(&mut watch).await, ["t 1@1 gap", "complete"]);
    fake.cut();
    fake.resume("t");
    assert_eq!(said(&mut watch).await, ["disconnected 0"]);
    fake.mend();
    // Not read: the end of the snapshot waits, and behind it revisions 3 and 4.
    tokio::time::sleep(Duration::from_secs(10)).await;
    fake.pause("t");
    settle().await;
    fake.resume("t");
    settle().await;
    fake.pause("t");
    settle().await;
    // Asked for, since the snapshot did not name it, is the latest.
    assert_eq!(said(&mut watch).await, ["t 1@5 gap", "complete"]);
    fake.resume("t");
    assert_eq!(said(&mut watch).await, ["t 0@6"]);

    // And if the latest is that it runs.
    fake.pause("t");
    assert_eq!(said(&mut watch).await, ["t 1@7"]);
    fake.cut();
    fake.resume("t");
    assert_eq!(said(&mut watch).await, ["disconnected 0"]);
    fake.mend();
    tokio::time::sleep(Duration::from_secs(10)).await;
    for _ in 0..2 {
        fake.pause("t");
        settle().await;
        fake.resume("t");
        settle().await;
    }
    assert_eq!(said(&mut watch).await, ["t 0@12 gap", "complete"]);
    fake.pause("t");
    assert_eq!(said(&mut watch).await, ["t 1@13"]);
}

#[tokio::test(start_paused = true)]
async fn g7_a_slow_reader_gets_the_latest_states_and_keeps_its_stream() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a", "b"]).await;
    drain(&mut watch).await;
    for _ in 0..100_000 {
        fake.pause("a");
        fake.resume("a");
        fake.world(|_| ());
        if fake.world(|world| world.revision("a")).is_multiple_of(1_000) {
            settle().await;
        }
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let events = said(&mut watch).await;
    assert!(events.len() < 2_000, "{} states of 200,000", events.len());
    assert_eq!(events.last().unwrap(), "a 0@200000");
    assert!(!events.iter().any(|event| event.starts_with("disconnected")), "slow is not dead");
}
