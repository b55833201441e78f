//! Leases over the network, and how a restart changes them. Lengths are measured by the paused time that the server
//! counts. These tests check that no lease ends early; how late they end depends on the machine, and `benches/run
//! leases` measures it.
use crate::support::{Api, Process, Running, config, detail, embedded, event, states, timed};
use pausewatch::proto::v1::{self, watch_pause_state_response::Event};
use pausewatch::server::Config;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn span(duration: Option<prost_types::Duration>) -> Duration {
    duration.expect("it is set").try_into().expect("it is not negative")
}

fn nanos(time: Option<prost_types::Timestamp>) -> i128 {
    let time = time.expect("it is set");
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// Waits until the thread has no open elicitation.
async fn end_of_pause(api: &mut Api, thread: &str) -> v1::PauseState {
    let mut watching = api.watch(&[thread]).await;
    timed("the end of the pause", async {
        loop {
            if let Event::PauseState(state) = event(&mut watching).await
                && state.count == 0
            {
                return state;
            }
        }
    })
    .await
}

/// G2: a holder that died without a decrement cannot keep its thread paused beyond its lease.
async fn leases_end_by_themselves(config: Config) {
    let running = Running::start(config).await;
    let api = running.api().await;
    let mut ends = tokio::task::JoinSet::new();
    for i in 0..20 {
        let mut api = api.clone();
        ends.spawn(async move {
            let thread = format!("t{i}");
            let ttl = SECOND + Duration::from_millis(10 * i);
            let id = api.increment(&thread, Some(ttl)).await.elicitation.expect("opened").elicitation_id;
            let state = end_of_pause(&mut api, &thread).await;
            let expired = api.try_decrement(&thread, "", Some(&id)).await.expect_err("it has ended");
            assert_eq!(crate::support::detail(&expired).0, "ELICITATION_EXPIRED");
            assert_eq!(state.last_pause_end(), v1::PauseEnd::Expired);
            (ttl, span(state.paused_total))
        });
    }
    for (ttl, lasted) in ends.join_all().await {
        assert!(lasted >= ttl, "a lease of {ttl:?} ended after {lasted:?}");
    }
}

#[tokio::test]
async fn g2_leases_end_by_themselves_and_not_early() {
    leases_end_by_themselves(config()).await;
}

#[tokio::test]
async fn g2_leases_end_by_themselves_and_not_early_in_an_embedded_store() {
    let directory = tempfile::tempdir().expect("a directory");
    leases_end_by_themselves(embedded(directory.path())).await;
}

#[tokio::test]
async fn a_renewed_lease_ends_a_ttl_after_its_renewal_without_notifying_watchers() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let opened = api.increment("t", Some(60 * SECOND)).await.elicitation.expect("opened");
    let opened_at = Instant::now();
    let mut watching = api.watch(&["t"]).await;
    let revision = states(&mut watching).await[0].revision;
    let renewed = api.try_renew("t", &opened.elicitation_id, Some(30 * SECOND)).await.expect("it is open");
    assert!(nanos(renewed.expire_time) < nanos(opened.expire_time), "a renewal may also shorten the lease");
    assert_eq!(renewed.create_time, opened.create_time);
    let read = api.get("t").await.elicitations.remove(0);
    let ends = [renewed.expire_time, read.expire_time, opened.expire_time].map(nanos);
    assert!(ends.is_sorted() && ends[1] < ends[2], "readers see the new end, or a later one if the server stalled");
    assert_eq!(v1::Elicitation { expire_time: renewed.expire_time, ..read }, renewed);
    let renewed_at = Instant::now();
    api.try_renew("t", &opened.elicitation_id, Some(SECOND)).await.expect("it is open");
    let Event::PauseState(state) = event(&mut watching).await else { panic!("no heartbeat is due yet") };
    assert_eq!(
        (state.count, state.revision),
        (0, revision + 1),
        "a watcher gets no event for a renewal: the next one is the end"
    );
    let lasted = span(state.paused_total);
    assert!(lasted >= (renewed_at - opened_at) + SECOND, "it ended early, after {lasted:?}");
    assert!(lasted < 30 * SECOND, "it ended with the lease before the last renewal, after {lasted:?}");
}

#[tokio::test]
async fn an_increment_without_ttl_has_the_anonymous_ttl() {
    let running = Running::start(Config { anonymous_ttl: Some(SECOND), ..config() }).await;
    let mut api = running.api().await;
    api.increment("t", None).await;
    let lasted = span(end_of_pause(&mut api, "t").await.paused_total);
    assert!(lasted >= SECOND, "{lasted:?}");
    let running = Running::start(Config { anonymous_ttl: None, ..config() }).await;
    let opened = running.api().await.increment("t", None).await;
    assert_eq!(opened.elicitation.expect("opened").expire_time, None, "a lease of 0 never ends");
}

/// The holder learns that the elicitation has ended by the status that every client knows; the metadata has the cause.
#[tokio::test]
async fn g2_the_maximum_pause_ends_what_is_renewed_and_says_so() {
    let running = Running::start(Config { max_pause: Some(6 * SECOND), ..config() }).await;
    let mut api = running.api().await;
    let opened = api.increment("t", Some(60 * SECOND)).await.elicitation.expect("opened");
    let renewed = api.try_renew("t", &opened.elicitation_id, None).await.expect("it is open");
    assert_eq!(renewed.expire_time, opened.expire_time, "a renewal returns the end");
    assert_eq!(nanos(opened.expire_time) - nanos(opened.create_time), 6_000_000_000);
    let state = end_of_pause(&mut api, "t").await;
    let lasted = span(state.paused_total);
    assert!(lasted >= 6 * SECOND, "{lasted:?}");
    assert_eq!(state.last_pause_end(), v1::PauseEnd::MaxPause);
    let refused = api.try_renew("t", &opened.elicitation_id, None).await.expect_err("it has ended");
    let (reason, metadata) = detail(&refused);
    assert_eq!((&*reason, &*metadata["ended_by"]), ("ELICITATION_EXPIRED", "max_pause"), "{refused:?}");
}

#[tokio::test]
async fn a_thread_is_paused_until_its_last_lease_has_ended() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut watching = api.watch(&["t"]).await;
    states(&mut watching).await;
    let longer = api.increment("t", Some(60 * SECOND)).await.elicitation.expect("opened").elicitation_id;
    let both = api.increment("t", Some(SECOND)).await.revision;
    let state = loop {
        if let Event::PauseState(state) = event(&mut watching).await
            && state.revision > both
        {
            break state;
        }
    };
    assert_eq!((state.count, state.paused), (1, true));
    assert_eq!(api.get("t").await.elicitations[0].elicitation_id, longer);
    api.try_renew("t", &longer, Some(SECOND)).await.expect("it is open");
    let state = end_of_pause(&mut api, "t").await;
    let lasted = span(state.paused_total);
    assert!(lasted >= 2 * SECOND, "{lasted:?}");
    assert_eq!(state.last_pause_end(), v1::PauseEnd::Expired);
}

/// G2, G5: the pause continues over the restart, its time counts, and every lease gets one full ttl before it ends.
#[cfg(feature = "exec-server")]
#[tokio::test]
async fn a_restart_keeps_the_pause_counts_its_time_and_gives_every_lease_a_full_ttl() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let began = Instant::now();
    let opened = api.increment("t", Some(8 * SECOND)).await.elicitation.expect("opened");
    let before = api.get("t").await;
    server.kill();
    // If the lease were not restarted, it would end that much earlier.
    let down = Duration::from_millis(1_500);
    tokio::time::sleep(down).await;
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let after = api.get("t").await;
    assert_eq!((after.count, after.paused, after.revision), (1, true, before.revision));
    assert_eq!(after.pause_start_time, before.pause_start_time);
    assert_eq!(after.elicitations[0].create_time, opened.create_time);
    assert_eq!(after.paused_for, after.paused_total);
    let counted = span(after.paused_total);
    assert!(counted >= down + span(before.paused_total) && counted <= began.elapsed() + SECOND, "{counted:?}");
    let state = end_of_pause(&mut api, "t").await;
    let lasted = span(state.paused_total);
    assert!(lasted >= down + 8 * SECOND, "the lease was not restarted in full: {lasted:?}");
    assert!(began.elapsed() < 30 * SECOND, "the lease did not end");
    assert_eq!(state.revision, before.revision + 1);
}

/// G4: the same call before and after the server is killed counts once and gets the same answer.
#[cfg(feature = "exec-server")]
#[tokio::test]
async fn a_call_that_is_repeated_after_a_restart_counts_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let opened = api.try_increment("t", "r1", Some(60 * SECOND)).await.expect("opens");
    api.increment("t", None).await;
    let closed = api.try_decrement("t", "r2", None).await.expect("closes");
    server.kill();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    assert_eq!(api.try_increment("t", "r1", Some(60 * SECOND)).await.expect("answered"), opened);
    assert_eq!(api.try_decrement("t", "r2", None).await.expect("answered"), closed);
    let reused = api.try_increment("t", "r1", None).await.expect_err("other content");
    assert_eq!(crate::support::detail(&reused).0, "REQUEST_ID_REUSED");
    let state = api.get("t").await;
    assert_eq!((state.count, state.revision), (1, closed.revision));
}

/// G5: acknowledged changes survive kill -9, and so do the results of ended elicitations.
#[cfg(feature = "exec-server")]
#[tokio::test]
async fn acknowledged_changes_survive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let mut expected = Vec::new();
    for i in 0..30 {
        let thread = format!("t{i:02}");
        let id = api.increment(&thread, None).await.elicitation.expect("opened").elicitation_id;
        api.increment(&thread, Some(60 * SECOND)).await;
        if i % 2 == 0 {
            api.try_decrement(&thread, "", Some(&id)).await.expect("closes");
        }
        expected.push((thread.clone(), id, api.get(&thread).await));
    }
    server.kill();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    for (i, (thread, id, before)) in expected.into_iter().enumerate() {
        let after = api.get(&thread).await;
        assert_eq!((after.count, after.revision), (before.count, before.revision), "{thread}");
        let ids =
            |state: &v1::PauseState| state.elicitations.iter().map(|e| e.elicitation_id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&after), ids(&before));
        if i % 2 == 0 {
            let released = api.try_decrement(&thread, "", Some(&id)).await.expect_err("it was closed before");
            assert_eq!(crate::support::detail(&released).0, "ELICITATION_RELEASED");
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_and_starts_in_one_process_keeps_its_state() {
    let directory = tempfile::tempdir().expect("a directory");
    for count in 1..=3 {
        let running = Running::start(embedded(directory.path())).await;
        assert_eq!(running.api().await.increment("t", None).await.count, count);
        timed("the stop", running.stop()).await.expect("it ends");
    }
}
