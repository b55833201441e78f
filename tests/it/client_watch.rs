//! The watch that reconnects by itself.
use crate::fake::{Fake, settle};
use crate::support::{PATIENCE, Running, config};
use pausewatch::client::{Client, Config, Error, Event, Token, TokenSource, Update, Watch};
use std::{
    collections::HashSet,
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// The events that the watch delivers until it waits for something to happen.
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

/// As `said`, after reading the watch for `time`.
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
    assert_eq!(said(&mut watch).await, ["disconnected 2"], "reported once, however often it retries");
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
async fn a_server_says_how_often_its_heartbeats_come() {
    let fake = Fake::start();
    fake.script().interval = Some(Duration::from_secs(1));
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    assert_eq!(said_after(&mut watch, Duration::from_secs(60)).await, [""; 0], "heartbeats keep it alive");
    fake.script().mute = true;
    let start = Instant::now();
    let Event::Disconnected { since, .. } = watch.next().await else { panic!("no disconnection after 2.5 intervals") };
    let elapsed = start.elapsed();
    assert!(elapsed > Duration::from_millis(1_400) && elapsed <= Duration::from_millis(2_510), "{elapsed:?}");
    assert!(
        start.elapsed() - since.saturating_duration_since(start) >= Duration::from_millis(1_400),
        "since the last message"
    );
}

/// Two and a half such intervals exceed the maximum of a `Duration`.
#[tokio::test(start_paused = true)]
async fn an_interval_of_heartbeats_above_an_hour_counts_as_an_hour() {
    let fake = Fake::start();
    fake.script().interval = Some(Duration::from_secs(315_576_000_000));
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    assert_eq!(said_after(&mut watch, Duration::from_secs(60)).await, [""; 0]);
    fake.script().mute = true;
    let start = Instant::now();
    assert!(matches!(watch.next().await, Event::Disconnected { .. }));
    let silence = Duration::from_secs(150 * 60);
    let range = silence - Duration::from_secs(15)..=silence + Duration::from_secs(1);
    assert!(range.contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_peer_is_detected_by_pings() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    fake.freeze(true);
    let start = Instant::now();
    assert!(matches!(watch.next().await, Event::Disconnected { .. }));
    // At the latest: HTTP/2 pings notice within 15 s, by a clock that tests cannot move.
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
    assert_eq!(said(&mut watch).await, ["a 1@1"], "the old thread is still watched");
    watch.remove("a");
    fake.resume("a");
    fake.resume("b");
    assert_eq!(said(&mut watch).await, ["b 0@2"]);
    watch.remove("b");
    assert_eq!(said(&mut watch).await, [""; 0]);
    assert_eq!((fake.seen().open_watches, watch.len()), (0, 0), "an empty set needs no stream");
    watch.add("a").unwrap();
    assert_eq!(said(&mut watch).await, ["a 0@2 gap", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn g6_no_change_is_lost_or_reported_twice_while_threads_are_added() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["t0"]).await;
    drain(&mut watch).await;
    let mut told = vec![0; 64];
    for i in 1..64 {
        watch.add(&format!("t{i}")).unwrap();
        // Every thread changes meanwhile.
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
async fn g7_adding_threads_one_by_one_sends_each_id_once_on_one_stream() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    for i in 0..2_000 {
        watch.add(&format!("t{i}")).unwrap();
        drain(&mut watch).await;
    }
    assert_eq!(fake.seen().watches, [2_000]);
    (0..1_990).for_each(|i| watch.remove(&format!("t{i}")));
    watch.add("last").unwrap();
    assert_eq!(said(&mut watch).await, ["last 0@0 gap", "complete"]);
    (0..2_000).for_each(|i| drop(fake.pause(&format!("t{i}"))));
    assert_eq!(said(&mut watch).await.len(), 10, "the removed ones are no longer watched");
    assert_eq!(fake.seen().watches, [2_001]);
}

#[tokio::test(start_paused = true)]
async fn what_is_added_and_removed_within_one_request_ends_as_it_was_left() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a"]).await;
    drain(&mut watch).await;
    watch.remove("a");
    watch.add("a").unwrap();
    watch.add("b").unwrap();
    watch.remove("b");
    assert_eq!(said(&mut watch).await, ["a 0@0 gap", "complete"]);
    fake.pause("a");
    fake.pause("b");
    assert_eq!(said(&mut watch).await, ["a 1@1"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_set_is_sent_in_requests_of_500_threads_and_again_after_a_disconnect() {
    let fake = Fake::start();
    let mut watch = fake.client().watch();
    (0..25_000).for_each(|i| watch.add(&format!("t{i}")).unwrap());
    let events = drain(&mut watch).await;
    let told: HashSet<_> =
        events.iter().filter_map(|e| if let Event::State(u) = e { Some(&u.state.thread_id) } else { None }).collect();
    assert_eq!((told.len(), events.len()), (25_000, 25_001));
    assert!(matches!(events.last(), Some(Event::SnapshotComplete)));
    assert_eq!(fake.seen().watches, [25_000]);
    fake.drop_connections();
    assert_eq!(said_after(&mut watch, Duration::from_secs(1)).await.len(), 25_002);
    assert_eq!(fake.seen().watches, [25_000; 2]);
    assert_eq!(fake.largest_request(), 500);
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
    fake.pause("forbidden");
    assert_eq!(said(&mut watch).await, ["a 1@1", "b 1@1"]);
    // On a new stream, it is tried again.
    fake.script().refuse_watch_of = None;
    fake.drop_connections();
    let healed = said_after(&mut watch, Duration::from_secs(1)).await;
    assert_eq!(healed, ["disconnected 3", "a 1@1 gap same", "b 1@1 gap same", "forbidden 1@1 gap", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn elicitations_are_asked_for_again_when_the_first_request_was_refused() {
    let fake = Fake::start();
    fake.script().refuse_watch_of = Some("forbidden".to_owned());
    fake.pause("a");
    let mut watch = fake.client().watch().with_elicitations();
    ["a", "forbidden"].iter().for_each(|id| watch.add(id).unwrap());
    let events = drain(&mut watch).await;
    let of_a =
        events.iter().find_map(|event| if let Event::State(update) = event { Some(&update.state) } else { None });
    assert_eq!(of_a.map(|state| state.elicitations.len()), Some(1), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn g6_a_watch_of_all_threads_whose_first_request_was_refused_asks_for_all_again() {
    let fake = Fake::start();
    fake.script().limit_requests = 2;
    fake.pause("a");
    let mut watch = fake.client().watch_all();
    assert_eq!(said(&mut watch).await, ["disconnected 0"], "it never became complete");
    assert_eq!(said_after(&mut watch, Duration::from_millis(1_900)).await, [""; 0]);
    assert_eq!(said_after(&mut watch, Duration::from_millis(200)).await, ["a 1@1 gap", "complete"]);
    fake.pause("b");
    assert_eq!(said(&mut watch).await, ["b 1@1"]);
    // After a disconnection, the caller may no longer see one of the paused threads.
    fake.script().refuse_watch_of = Some("a".to_owned());
    fake.drop_connections();
    let healed = said_after(&mut watch, Duration::from_secs(1)).await;
    assert!(healed.contains(&"b 1@1 gap same".to_owned()), "{healed:?}");
    fake.pause("new");
    assert_eq!(said(&mut watch).await, ["new 1@1"], "the watch of all threads continues");
    assert_eq!(fake.seen().watches.len(), 2, "on two streams");
}

/// Such as a token of another subject: the stream keeps the previous one.
#[tokio::test(start_paused = true)]
async fn a_refused_renewal_of_the_token_changes_nothing_for_a_watch_of_all_threads() {
    let fake = Fake::start();
    let number = AtomicU32::new(0);
    let source = TokenSource::new(move || Token::new(&number.fetch_add(1, Relaxed).to_string()));
    let mut watch = fake.client_with(&Config { token_source: Some(source), ..Config::default() }).watch_all();
    assert_eq!(said(&mut watch).await, ["complete"]);
    fake.script().limit_requests = 1;
    assert_eq!(said_after(&mut watch, Duration::from_secs(90)).await, [""; 0]);
    assert_eq!(fake.script().limit_requests, 0, "a new token was sent");
    fake.pause("a");
    assert_eq!(said(&mut watch).await, ["a 1@1"]);
    fake.drop_connections();
    let healed = said_after(&mut watch, Duration::from_secs(1)).await;
    assert_eq!(healed, ["disconnected 0", "a 1@1 gap same", "complete"], "a real loss is reported");
}

/// Only calls with retries had another chance before the deadline.
#[tokio::test]
async fn a_watch_with_a_short_deadline_leaves_an_address_that_does_not_answer() {
    let silent = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let silent = silent.each_ref().map(|listener| listener.local_addr().unwrap());
    let server = Running::start(config()).await;
    let address = format!("{},{},{}", silent[0], server.address, silent[1]);
    // The client begins with a random address.
    for _ in 0..12 {
        let (address, deadline) = (address.parse().unwrap(), Duration::from_millis(300));
        let mut watch = Client::with_config(&Config { address, deadline, ..Config::default() }).unwrap().watch();
        watch.add("t").unwrap();
        let state = async { while !matches!(watch.next().await, Event::State(_)) {} };
        timeout(PATIENCE, state).await.expect("it moves to the next address");
    }
    server.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn g7_a_thread_that_is_removed_is_not_watched_on() {
    let fake = Fake::start();
    let mut watch = watching(&fake, &["a", "b", "c"]).await;
    drain(&mut watch).await;
    watch.remove("a");
    watch.add("a").unwrap();
    watch.remove("a");
    assert_eq!(said(&mut watch).await, ["complete"]);
    assert_eq!(fake.seen().watched, ["b", "c"], "added and removed again before the next request");
    fake.script().limit_requests = 1;
    watch.remove("b");
    watch.add("d").unwrap();
    assert_eq!(said(&mut watch).await, ["disconnected 1"]);
    assert_eq!(fake.seen().watched, ["c"], "the request with the removal was refused");
    assert_eq!(said_after(&mut watch, Duration::from_secs(1)).await, ["d 0@0 gap", "complete"]);
    assert_eq!(fake.seen().watched, ["c", "d"]);
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
    assert_eq!(healed.pop().unwrap(), "complete", "the snapshot is complete only after all states");
    healed.sort();
    assert_eq!(healed, ["ends 0@2 gap", "new 1@1 gap", "stays 1@1 gap same"]);
    fake.resume("new");
    assert_eq!(said(&mut watch).await, ["new 0@2"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_all_threads_is_complete_when_all_that_resumed_are_told() {
    let fake = Fake::start();
    (0..1_200).for_each(|i| drop(fake.pause(&format!("t{i}"))));
    let mut watch = fake.client().watch_all();
    assert_eq!(drain(&mut watch).await.len(), 1_201);
    fake.cut();
    assert_eq!(said(&mut watch).await, ["disconnected 0"]);
    (0..1_200).for_each(|i| fake.resume(&format!("t{i}")));
    fake.mend();
    let healed = said_after(&mut watch, Duration::from_secs(1)).await;
    assert_eq!((healed.len(), healed[1_200].as_str()), (1_201, "complete"));
    assert!(healed[..1_200].iter().all(|state| state.ends_with(" 0@2 gap")));
    // Running threads are not remembered.
    fake.drop_connections();
    assert_eq!(said_after(&mut watch, Duration::from_secs(1)).await, ["disconnected 0", "complete"]);
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
