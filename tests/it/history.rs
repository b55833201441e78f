//! The pauses that have ended, as the server lists them; and the number of watchers of a thread.
use crate::support::{Api, Process, Running, config, detail, embedded, states};
use pausewatch::proto::v1::{self, ListPausesRequest, PauseEnd};
use pausewatch::server::{AuditConfig, Config};
use std::time::Duration;
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

async fn pauses(api: &mut Api, thread_id: &str) -> Vec<v1::Pause> {
    let request = ListPausesRequest { thread_id: thread_id.into(), ..Default::default() };
    api.pauses(request).await.expect("a page").pauses
}

/// Waits until the thread is not paused.
async fn until_it_runs(api: &mut Api, thread: &str) {
    let mut watch = api.watch(&[thread]).await;
    let mut state = states(&mut watch).await.remove(0);
    while state.paused {
        use v1::watch_pause_state_response::Event;
        if let Event::PauseState(next) = crate::support::event(&mut watch).await {
            state = next;
        }
    }
}

fn nanos(time: &Option<prost_types::Timestamp>) -> i128 {
    let time = time.expect("it is set");
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

#[tokio::test]
async fn a_pause_is_listed_with_its_length_its_elicitations_and_its_end() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    assert!(pauses(&mut api, "").await.is_empty());
    let first = api.increment("t", None).await.elicitation.unwrap();
    let second = api.increment("t", Some(60 * SECOND)).await.elicitation.unwrap();
    assert!(pauses(&mut api, "t").await.is_empty(), "the pause continues");
    api.try_decrement("t", "", Some(&second.elicitation_id)).await.unwrap();
    api.try_decrement("t", "", Some(&first.elicitation_id)).await.unwrap();
    let total = api.get("t").await.paused_total;
    let [pause] = &pauses(&mut api, "t").await[..] else { panic!("expected one pause") };
    assert_eq!(pause.duration, total, "the duration is what it added to the total, to the nanosecond");
    assert_eq!((pause.thread_id.as_str(), pause.ended_by()), ("t", PauseEnd::Decremented));
    assert_eq!(pause.start_time, first.create_time);
    let closed = |opened: &v1::Elicitation, end_time| v1::ClosedElicitation {
        elicitation_id: opened.elicitation_id.clone(),
        reason: "a reason".into(),
        holder: "a holder".into(),
        create_time: opened.create_time,
        end_time,
        ended_by: PauseEnd::Decremented.into(),
    };
    assert!(nanos(&pause.elicitations[0].end_time) <= nanos(&pause.end_time));
    let expected = [closed(&second, pause.elicitations[0].end_time), closed(&first, pause.end_time)];
    assert_eq!((&pause.elicitations[..], pause.omitted_elicitations), (&expected[..], 0));
}

#[tokio::test]
async fn pauses_that_end_by_themselves_say_how_the_last_one_first() {
    let running = Running::start(Config { max_pause: Some(10 * SECOND), ..config() }).await;
    let mut api = running.api().await;
    api.increment("u", Some(SECOND)).await;
    until_it_runs(&mut api, "u").await;
    api.increment("t", Some(60 * SECOND)).await;
    until_it_runs(&mut api, "t").await;
    let listed = pauses(&mut api, "").await;
    let ends: Vec<_> = listed
        .iter()
        .map(|pause| (pause.thread_id.as_str(), pause.ended_by(), pause.elicitations[0].ended_by()))
        .collect();
    let expected = [("t", PauseEnd::MaxPause, PauseEnd::MaxPause), ("u", PauseEnd::Expired, PauseEnd::Expired)];
    assert_eq!(ends, expected);
}

/// Calls in one batch: the thread resumes and is paused again before any watcher has seen it running.
#[tokio::test]
async fn pauses_of_one_batch_are_two() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(embedded(directory.path())).await;
    let mut api = running.api().await;
    const FLIPS: usize = 50;
    let calls = (0..FLIPS).flat_map(|_| [true, false]).map(|opens| {
        let mut api = api.clone();
        async move {
            match opens {
                true => drop(api.increment("t", None).await),
                // If none is open yet, the one that is opened later stays open.
                false => drop(api.try_decrement("t", "", None).await),
            }
        }
    });
    let mut flips = tokio::task::JoinSet::new();
    calls.for_each(|call| drop(flips.spawn(call)));
    flips.join_all().await;
    while api.get("t").await.paused {
        api.try_decrement("t", "", None).await.unwrap();
    }
    let listed = pauses(&mut api, "t").await;
    let elicitations: usize =
        listed.iter().map(|pause| pause.elicitations.len() + pause.omitted_elicitations as usize).sum();
    assert_eq!(elicitations, FLIPS, "each elicitation is in exactly one pause");
    let total: i128 =
        listed.iter().map(|pause| Duration::try_from(pause.duration.unwrap()).unwrap().as_nanos() as i128).sum();
    let paused_total = Duration::try_from(api.get("t").await.paused_total.unwrap()).unwrap();
    assert_eq!(total, paused_total.as_nanos() as i128, "history and total agree to the nanosecond");
}

#[tokio::test]
async fn pages_have_each_pause_once_while_more_end() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let pause = async |api: &mut Api, thread: &str| {
        api.increment(thread, None).await;
        api.try_decrement(thread, "", None).await.unwrap();
    };
    for i in 0..25 {
        pause(&mut api, ["a", "b"][i % 2]).await;
    }
    let (mut request, mut seen) = (ListPausesRequest { page_size: 10, ..Default::default() }, Vec::new());
    loop {
        let page = api.pauses(request.clone()).await.unwrap();
        seen.extend(page.pauses);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
        pause(&mut api, "c").await;
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.is_sorted_by(|a, b| nanos(&a.end_time) >= nanos(&b.end_time)), "the latest pause is first");
    assert_eq!(seen.iter().filter(|pause| pause.thread_id == "a").count(), 13);

    let mut refused = async |request: ListPausesRequest| {
        let status = api.pauses(request).await.expect_err("it is refused");
        let (reason, details) = detail(&status);
        assert_eq!((status.code(), reason.as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
        details["field"].clone()
    };
    let token = request.page_token.clone();
    let with = |change: fn(&mut ListPausesRequest)| {
        let mut request = ListPausesRequest { page_token: token.clone(), ..Default::default() };
        change(&mut request);
        request
    };
    assert_eq!(refused(with(|request| request.thread_id = "a".into())).await, "page_token");
    assert_eq!(refused(with(|request| request.end_time = Some(Default::default()))).await, "page_token");
    assert_eq!(refused(with(|request| request.page_token.push('0'))).await, "page_token");
    assert_eq!(refused(with(|request| request.page_size = -1)).await, "page_size");
    assert_eq!(refused(with(|request| request.thread_id = "a\n".into())).await, "thread_id");
    // Another server with the same pauses.
    let other = Running::start(config()).await;
    let mut other = other.api().await;
    let foreign = other.pauses(with(|_| ())).await.expect_err("it is a token of another server");
    assert_eq!(detail(&foreign).1["field"], "page_token");
}

#[tokio::test]
async fn an_interval_is_half_open() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    for _ in 0..3 {
        api.increment("t", None).await;
        api.try_decrement("t", "", None).await.unwrap();
    }
    let all = pauses(&mut api, "t").await;
    let mut within = async |start_time, end_time| {
        let request = ListPausesRequest { start_time, end_time, ..Default::default() };
        api.pauses(request).await.unwrap().pauses
    };
    assert_eq!(within(all[1].end_time, None).await, all[..2]);
    assert_eq!(within(None, all[1].end_time).await, all[2..]);
    assert_eq!(within(all[2].end_time, all[0].end_time).await, all[1..]);
    assert_eq!(within(all[1].end_time, all[1].end_time).await, []);
}

/// G7: the page is small enough for clients, whatever callers write.
#[tokio::test]
async fn a_page_of_the_largest_pauses_is_one_that_clients_take() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let start = api.pauses(ListPausesRequest::default()).await.unwrap().history_start_time;
    for i in 0..1_200 {
        let request = v1::IncrementElicitationRequest {
            thread_id: format!("{i:0>256}"),
            reason: "x".repeat(1_024),
            holder: "y".repeat(256),
            ..Default::default()
        };
        api.0.increment_elicitation(request).await.unwrap();
        api.try_decrement(&format!("{i:0>256}"), "", None).await.unwrap();
    }
    let page = api.pauses(ListPausesRequest { page_size: 1_000, ..Default::default() }).await.expect("within 4 MiB");
    assert!((300..800).contains(&page.pauses.len()), "{} fit into 1 MiB", page.pauses.len());
    let oldest = page.pauses.last().unwrap();
    assert!(nanos(&page.history_start_time) > nanos(&start), "older pauses were evicted");
    assert!(
        nanos(&page.history_start_time) <= nanos(&oldest.end_time),
        "the oldest listed pause and all later ones are within the history"
    );
}

#[tokio::test]
async fn a_restart_forgets_the_history_and_not_the_pause() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let open = api.increment("t", None).await.elicitation.unwrap();
    let closed = api.increment("t", None).await.elicitation.unwrap();
    api.try_decrement("t", "", Some(&closed.elicitation_id)).await.unwrap();
    api.increment("u", None).await;
    api.try_decrement("u", "", None).await.unwrap();
    let before = api.pauses(ListPausesRequest::default()).await.unwrap();
    assert_eq!(before.pauses.len(), 1);
    drop(api);
    server.kill();
    let server = Process::serve(directory.path(), "127.0.0.1:0");
    let mut api = server.api().await;
    let after = api.pauses(ListPausesRequest::default()).await.unwrap();
    assert!(after.pauses.is_empty() && nanos(&after.history_start_time) > nanos(&before.history_start_time));
    api.try_decrement("t", "", None).await.unwrap();
    let [pause] = &pauses(&mut api, "").await[..] else {
        panic!("expected one pause, which continued over the restart")
    };
    assert_eq!(pause.start_time, open.create_time);
    assert_eq!(pause.duration, api.get("t").await.paused_total);
    let ids: Vec<_> = pause.elicitations.iter().map(|one| one.elicitation_id.as_str()).collect();
    assert_eq!((ids, pause.omitted_elicitations), (vec![open.elicitation_id.as_str()], 0));
}

#[tokio::test]
async fn reads_tell_how_many_streams_watch_a_thread_and_watches_do_not() {
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("t", None).await;
    assert_eq!(api.get("t").await.watchers, 0);
    let mut watch = api.watch(&["t"]).await;
    let all = api.watch(&[]).await;
    assert_eq!(states(&mut watch).await[0].watchers, 0, "the state is shared by all streams");
    assert_eq!(api.get("t").await.watchers, 2);
    let listed = api.list(v1::ListPauseStatesRequest::default()).await.unwrap().pause_states;
    assert_eq!(listed[0].watchers, 2);
    assert_eq!(api.get("never-named").await.watchers, 1);
    drop((watch, all));
    crate::support::timed("the end of the watches", async { while api.get("t").await.watchers > 0 {} }).await;
}

#[tokio::test]
async fn a_trail_tells_how_each_elicitation_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let audit = Some(AuditConfig { path: path.clone(), max_size: 100 << 20, keep: 1 });
    let running = Running::start(Config { audit, ..config() }).await;
    let mut api = running.api().await;
    api.increment("t", None).await;
    api.try_decrement("t", "", None).await.unwrap();
    api.increment("t", Some(SECOND)).await;
    until_it_runs(&mut api, "t").await;
    drop(api);
    running.stop().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ends: Vec<_> = lines.filter_map(|line| line["ended_by"].as_str().map(str::to_owned)).collect();
    assert_eq!(ends, ["decremented", "expired"]);
}
