//! `WatchPauseState` over the network: snapshot, order, the cost of a slow reader, heartbeats.
use crate::support::{Process, Running, config, embedded, event, narrow, states, timed};
use pausewatch::proto::v1::watch_pause_state_response::Event;
use pausewatch::server::Config;
use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_watch_opens_with_each_thread_once_idle_ones_included_then_the_end_of_the_snapshot() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("paused", None).await;
    api.increment("was paused", None).await;
    api.try_decrement("was paused", "", None).await.expect("closes");
    let mut watching = api.watch(&["paused", "idle", "was paused", "paused"]).await;
    let snapshot = states(&mut watching).await;
    let shown: Vec<_> = snapshot.iter().map(|state| (state.thread_id.as_str(), state.count)).collect();
    assert_eq!(shown, [("paused", 1), ("idle", 0), ("was paused", 0)]);
    let mut everything = api.watch(&[]).await;
    let shown: Vec<_> = states(&mut everything).await.into_iter().map(|state| state.thread_id).collect();
    assert_eq!(shown, ["paused"], "of every thread, only the paused ones");
}

/// G6: a watch that begins after an answer sees at least the state of that answer.
#[tokio::test]
async fn a_watch_sees_at_least_what_was_answered_before_it_began() {
    let directory = tempfile::tempdir().expect("a directory");
    for config in [config(), embedded(directory.path())] {
        let running = Running::start(Config { workers: 2, ..config }).await;
        let (mut api, mut other) = (running.api().await, running.api().await);
        for i in 0..50 {
            let thread = format!("t{}", i % 3);
            let answered = api.increment(&thread, None).await.revision;
            assert!(other.get(&thread).await.revision >= answered);
            let mut watching = other.watch(&[&thread]).await;
            assert!(states(&mut watching).await[0].revision >= answered);
        }
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// G6: for every kind of watch, the revisions of a thread increase and end at the last one.
#[tokio::test]
async fn revisions_rise_and_end_at_the_last_one() {
    let directory = tempfile::tempdir().expect("a directory");
    for config in [config(), embedded(directory.path())] {
        let running = Running::start(Config { workers: 2, ..config }).await;
        let mut watches = JoinSet::new();
        let (ready, mut all_ready) = tokio::sync::mpsc::channel(8);
        for threads in [&NAMES[..], &NAMES[..1], &[]] {
            let (mut api, ready) = (running.api().await, ready.clone());
            watches.spawn(async move {
                let mut watching = api.watch(threads).await;
                ready.send(()).await.expect("the test waits");
                let mut seen: HashMap<String, u64> = HashMap::new();
                let wanted = if threads.is_empty() { &NAMES[..] } else { threads };
                let mut done = HashMap::new();
                while done.len() < wanted.len() {
                    let Event::PauseState(state) = event(&mut watching).await else { continue };
                    let before = seen.insert(state.thread_id.clone(), state.revision);
                    assert!(before.is_none_or(|before| before < state.revision), "{state:?} after {before:?}");
                    // 50 are opened and none is closed: the last state has all of them.
                    if state.count == 50 {
                        done.insert(state.thread_id, state.revision);
                    }
                }
                done
            });
        }
        for _ in 0..3 {
            all_ready.recv().await.expect("each watch begins");
        }
        let mut callers = JoinSet::new();
        for thread in NAMES {
            for _ in 0..5 {
                let mut api = running.api().await;
                callers.spawn(async move {
                    for _ in 0..10 {
                        api.increment(thread, None).await;
                    }
                });
            }
        }
        timed("the calls", callers.join_all()).await;
        let mut api = running.api().await;
        for done in timed("the watches", watches.join_all()).await {
            for (thread, revision) in done {
                assert_eq!(api.get(&thread).await.revision, revision);
            }
        }
    }
}

#[tokio::test]
async fn elicitations_come_with_a_watch_that_asks_for_them() {
    // Without leases, whose ends move if the server stalls.
    let running = Running::start(Config { anonymous_ttl: None, ..config() }).await;
    let mut api = running.api().await;
    let first = api.increment("t", None).await.elicitation.expect("opened");
    let mut with = api.try_watch(vec!["t".into()], true).await.expect("accepted");
    let mut without = api.watch(&["t"]).await;
    assert_eq!(states(&mut with).await[0].elicitations, std::slice::from_ref(&first));
    assert_eq!(states(&mut without).await[0].elicitations, []);
    let second = api.increment("t", None).await.elicitation.expect("opened");
    let (Event::PauseState(with), Event::PauseState(without)) = (event(&mut with).await, event(&mut without).await)
    else {
        panic!("no heartbeat is due yet")
    };
    assert_eq!((with.elicitations, with.count), (vec![first, second], 2));
    assert_eq!((without.elicitations, without.count), (vec![], 2));
}

#[tokio::test]
async fn a_watch_tells_the_paused_time_of_pauses_that_it_did_not_see() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watching = api.watch(&["t"]).await;
    assert_eq!(states(&mut watching).await[0].paused_total, Some(prost_types::Duration::default()));
    api.increment("t", None).await;
    api.try_decrement("t", "", None).await.expect("closes");
    let total = api.get("t").await.paused_total;
    let last = loop {
        if let Event::PauseState(state) = event(&mut watching).await
            && state.count == 0
        {
            break state;
        }
    };
    assert!(last.paused_total.is_some_and(|total| total != prost_types::Duration::default()));
    assert_eq!((last.paused_total, last.paused_for, last.pause_start_time), (total, None, None));
}

#[tokio::test]
async fn one_watch_follows_10000_threads() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let ids: Vec<_> = (0..10_000).map(|i| format!("thread-{i:05}")).collect();
    let mut watching = api.try_watch(ids.clone(), false).await.expect("accepted");
    let mut snapshot: Vec<_> = states(&mut watching).await.into_iter().map(|state| state.thread_id).collect();
    snapshot.sort();
    assert_eq!(snapshot, ids);
    for thread in ["thread-00000", "thread-05000", "thread-09999"] {
        assert_eq!(api.increment(thread, None).await.watchers, 1);
        let Event::PauseState(state) = event(&mut watching).await else { panic!("no heartbeat is due yet") };
        assert_eq!((state.thread_id.as_str(), state.count), (thread, 1));
    }
    drop(watching);
    drop(api);
    let mut api = running.api().await;
    let gone = async {
        // The server notices the closed connection only after a moment.
        while api.increment("thread-00001", None).await.watchers > 0 {
            tokio::task::yield_now().await;
            api.try_decrement("thread-00001", "", None).await.expect("closes");
        }
    };
    timed("the end of the watch", gone).await;
}

/// G7: readers that never read use bounded memory, and delay nobody else.
#[cfg(feature = "exec-server")]
#[tokio::test]
async fn watches_that_are_never_read_use_bounded_memory_and_delay_no_other() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"]);
    let server = Process::start(command);
    // One connection each, because all streams of a connection share one window.
    let (mut lazy, mut lazy_with_elicitations) = (Vec::new(), Vec::new());
    for _ in 0..25 {
        lazy.push(narrow(&server.address).await.watch(&[]).await);
        let mut api = narrow(&server.address).await;
        lazy_with_elicitations.push(api.try_watch(vec!["t0".into(), "t1".into()], true).await.expect("accepted"));
    }
    let mut reader = server.api().await.watch(&["t0"]).await;
    states(&mut reader).await;
    let api = server.api().await;
    let churn = async |rounds: usize| {
        let mut callers = JoinSet::new();
        for thread in 0..8 {
            let mut api = api.clone();
            callers.spawn(async move {
                let thread = format!("t{thread}");
                for _ in 0..rounds {
                    api.increment(&thread, None).await;
                    api.try_decrement(&thread, "", None).await.expect("closes");
                }
            });
        }
        timed("calls beside readers that do not read", callers.join_all()).await;
    };
    // Fills the windows of the streams and creates the threads: afterwards, memory must not grow.
    churn(500).await;
    let before = server.memory();
    churn(1_000).await;
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 8 << 20, "50 unread streams, 16,000 more changes: {grown} bytes");
    let last = api.clone().get("t0").await.revision;
    let read_on = async {
        loop {
            if let Event::PauseState(state) = event(&mut reader).await
                && state.revision == last
            {
                return;
            }
        }
    };
    timed("the reader that reads", read_on).await;
    // A late reader gets the latest state, not all the changes that it missed.
    let mut everything = lazy.swap_remove(0);
    let mut received = 0;
    let catch_up = async {
        loop {
            received += 1;
            if let Event::PauseState(state) = event(&mut everything).await
                && state.thread_id == "t0"
                && state.revision == last
            {
                return;
            }
        }
    };
    timed("catching up", catch_up).await;
    assert!(received < 5_000, "{received} messages of 24,000 changes");
}

#[tokio::test]
async fn a_heartbeat_comes_within_15_s_of_silence() {
    let running = Running::start(config()).await;
    let mut watches = Vec::new();
    for _ in 0..7 {
        let mut watching = running.api().await.watch(&["t"]).await;
        states(&mut watching).await;
        watches.push(watching);
    }
    let mut beats = JoinSet::new();
    for mut watching in watches {
        beats.spawn(async move {
            for _ in 0..2 {
                let silent_since = Instant::now();
                assert_eq!(event(&mut watching).await, Event::Heartbeat(Default::default()));
                let silence = silent_since.elapsed();
                // More than 15 s, for a busy machine, and less than two intervals of the server.
                assert!(silence <= 24 * SECOND, "{silence:?}");
            }
        });
    }
    beats.join_all().await;
}
