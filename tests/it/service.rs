//! The unary calls over the network: each row of the error table of the API, each limit with the nearest valid value,
//! and paging.
use crate::support::{Api, Running, call_path_with, channel, config, detail, timed};
use pausewatch::proto::v1;
use pausewatch::server::Config;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> (Running, Api) {
    let running = Running::start(config()).await;
    let api = running.api().await;
    (running, api)
}

fn assert_refused(refused: Result<impl std::fmt::Debug, Status>, code: Code, reason: &str, metadata: &[(&str, &str)]) {
    let status = refused.expect_err("the call is refused");
    let (was, mut all) = detail(&status);
    assert_eq!((status.code(), was.as_str()), (code, reason), "{status}");
    all.remove("closed_ms_ago").inspect(|ago| assert!(ago.parse::<u64>().is_ok_and(|ago| ago < 60_000), "{ago}"));
    let expected = metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    assert_eq!(all, expected);
}

fn assert_invalid(refused: Result<impl std::fmt::Debug, Status>, field: &str) {
    let status = refused.expect_err(field);
    let (reason, metadata) = detail(&status);
    assert_eq!((status.code(), reason.as_str()), (Code::InvalidArgument, "INVALID_FIELD"), "{status}");
    assert_eq!(metadata["field"], field);
    assert!(!metadata["was"].is_empty() && !metadata["allowed"].is_empty(), "{metadata:?}");
    let violations = status.get_details_bad_request().expect("a BadRequest").field_violations;
    assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), [field]);
    assert!(violations[0].description.contains(&metadata["allowed"]));
}

/// A request of a client that does not check that its texts are UTF-8.
#[derive(Clone, PartialEq, prost::Message)]
struct Unchecked {
    #[prost(bytes = "vec", tag = "1")]
    first: Vec<u8>,
}

/// A message whose first field is a number, where all requests but one have a text.
#[derive(Clone, PartialEq, prost::Message)]
struct Other {
    #[prost(uint64, tag = "1")]
    first: u64,
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_by_its_field() {
    let (server, _) = server().await;
    let channel = channel(&server.address).await;
    for (rpc, field) in [
        ("IncrementElicitation", "thread_id"),
        ("DecrementElicitation", "thread_id"),
        ("RenewElicitation", "thread_id"),
        ("GetPauseState", "thread_id"),
        ("WatchPauseState", "thread_ids"),
    ] {
        let path = format!("/pausewatch.v1.ElicitationService/{rpc}");
        let text = call_path_with(channel.clone(), &path, Unchecked { first: b"\xff\xfe".to_vec() }, &[]).await;
        assert_invalid(text, field);
        let number = call_path_with(channel.clone(), &path, Other { first: 1 }, &[]).await;
        assert_invalid(number, field);
    }
}

#[tokio::test]
async fn an_increment_and_a_decrement_say_what_they_made_of_the_thread() {
    let (_server, mut api) = server().await;
    let first = api.increment("t", Some(60 * SECOND)).await;
    assert_eq!((first.count, first.paused, first.watchers), (1, true, 0));
    let elicitation = first.elicitation.expect("it was opened");
    assert_eq!((elicitation.thread_id.as_str(), elicitation.reason.as_str()), ("t", "a reason"));
    assert_eq!((elicitation.holder.as_str(), elicitation.elicitation_id.len()), ("a holder", 32));
    let (begin, end) = (elicitation.create_time.expect("always set"), elicitation.expire_time.expect("it has a lease"));
    assert_eq!((end.seconds - begin.seconds, end.nanos), (60, begin.nanos));
    let second = api.increment("t", None).await;
    assert_eq!((second.count, second.revision), (2, first.revision + 1));
    let closed = api.try_decrement("t", "", None).await.expect("there are two");
    assert_eq!((closed.count, closed.paused, closed.revision), (1, true, second.revision + 1));
    let closed = api.try_decrement("t", "", Some(&elicitation.elicitation_id)).await.expect("there is one");
    assert_eq!((closed.count, closed.paused, closed.revision), (0, false, second.revision + 2));
}

#[tokio::test]
async fn a_get_shows_a_thread_with_its_open_elicitations() {
    // Without leases, whose ends move if the server stalls.
    let server = Running::start(Config { anonymous_ttl: None, ..config() }).await;
    let mut api = server.api().await;
    let unknown = api.get("t").await;
    assert_eq!((unknown.count, unknown.paused, unknown.paused_for, unknown.pause_start_time), (0, false, None, None));
    assert_eq!(unknown.paused_total, Some(prost_types::Duration::default()));
    let opened = [api.increment("t", None).await, api.increment("t", None).await].map(|answer| answer.elicitation);
    let state = api.get("t").await;
    assert_eq!((state.thread_id.as_str(), state.count, state.paused), ("t", 2, true));
    assert_eq!(state.elicitations, opened.clone().map(|opened| opened.expect("opened")), "oldest first");
    assert_eq!(state.pause_start_time, state.elicitations[0].create_time);
    assert_eq!(state.paused_for, state.paused_total, "it is the first pause");
    assert!(state.revision > unknown.revision);
}

/// G4: a repeated call, also with another one in between, counts once and gets the same answer, except for `watchers`.
#[tokio::test]
async fn a_duplicated_call_counts_once() {
    let (_server, mut api) = server().await;
    let first = api.try_increment("t", "r1", None).await.expect("opens");
    api.increment("t", None).await;
    let mut other = api.clone();
    let mut watching = other.watch(&["t"]).await;
    crate::support::states(&mut watching).await;
    let again = api.try_increment("t", "r1", None).await.expect("answered");
    assert_eq!(again.watchers, 1, "watchers has the current number");
    assert_eq!(v1::IncrementElicitationResponse { watchers: 0, ..again }, first);
    let closed = api.try_decrement("t", "r1", None).await.expect("closes");
    assert_eq!(api.try_decrement("t", "r1", None).await.expect("answered"), closed);
    assert_eq!(api.get("t").await.count, 1);
}

/// G4: also many at once, over many connections.
#[tokio::test]
async fn simultaneous_duplicates_count_once() {
    let (server, mut api) = server().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let connection = server.api().await;
        for i in 0..40 {
            let mut api = connection.clone();
            calls.spawn(async move { (i, api.try_increment("t", &format!("r{i}"), None).await.expect("answered")) });
        }
    }
    let answers = calls.join_all().await;
    assert_eq!(api.get("t").await.count, 40);
    for (i, answer) in &answers {
        assert!(answers.iter().all(|(j, other)| (i == j) == (answer.revision == other.revision)), "request r{i}");
    }
}

#[tokio::test]
async fn every_refusal_has_its_code_its_reason_and_every_dynamic_part() {
    use Code::{FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted};
    let (_server, mut api) = server().await;
    let none = api.try_decrement("t", "", None).await;
    let violations = none.as_ref().expect_err("refused").get_details_precondition_failure().expect("it has one");
    assert_eq!((violations.violations[0].r#type.as_str(), violations.violations[0].subject.as_str()), ("COUNT", "t"));
    assert_refused(none, FailedPrecondition, "NO_OUTSTANDING_ELICITATION", &[("thread_id", "t"), ("count", "0")]);

    let unknown = "0123456789abcdef0123456789abcdef";
    let named = [("thread_id", "t"), ("elicitation_id", unknown)];
    assert_refused(api.try_decrement("t", "", Some(unknown)).await, NotFound, "ELICITATION_UNKNOWN", &named);
    assert_refused(api.try_renew("t", unknown, None).await, NotFound, "ELICITATION_UNKNOWN", &named);

    let id = api.increment("t", None).await.elicitation.expect("opened").elicitation_id;
    api.try_decrement("t", "", Some(&id)).await.expect("closes");
    let named = [("thread_id", "t"), ("elicitation_id", id.as_str())];
    assert_refused(api.try_decrement("t", "", Some(&id)).await, NotFound, "ELICITATION_RELEASED", &named);
    assert_refused(api.try_renew("t", &id, Some(SECOND)).await, NotFound, "ELICITATION_RELEASED", &named);

    api.try_increment("t", "r", None).await.expect("opens");
    let reused = [("thread_id", "t"), ("request_id", "r")];
    assert_refused(api.try_increment("t", "r", Some(SECOND)).await, InvalidArgument, "REQUEST_ID_REUSED", &reused);

    for _ in 1..1_000 {
        api.increment("t", None).await;
    }
    let limit = [("thread_id", "t"), ("limit", "1000")];
    let refused = api.try_increment("t", "", None).await;
    assert_refused(refused, ResourceExhausted, "TOO_MANY_ELICITATIONS", &limit);
    let state = api.get("t").await;
    assert_eq!((state.count, state.elicitations.len()), (1_000, 1_000), "no refusal has changed anything");
}

#[tokio::test]
async fn each_field_is_taken_at_its_limit_and_refused_beyond() {
    let (_server, api) = server().await;
    let long = |n: usize| "x".repeat(n);
    let increment = |change: &dyn Fn(&mut v1::IncrementElicitationRequest)| {
        let mut request = v1::IncrementElicitationRequest { thread_id: "t".into(), ..Default::default() };
        change(&mut request);
        let mut api = api.clone();
        async move { timed("increment", api.0.increment_elicitation(request)).await }
    };
    let ttl = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    for thread_id in [long(1), long(256), "ü".repeat(128), "a b/c\u{200b}".into()] {
        increment(&|request| request.thread_id = thread_id.clone()).await.expect("a thread id within the limits");
    }
    for thread_id in [long(0), long(257), "ü".repeat(129), "a\nb".into(), "\u{7f}".into(), "\u{85}".into(), "\0".into()]
    {
        assert_invalid(increment(&|request| request.thread_id = thread_id.clone()).await, "thread_id");
    }
    for (field, limit) in [("request_id", 128), ("holder", 256), ("reason", 1_024)] {
        let with = |length| {
            increment(&move |request| match field {
                "request_id" => request.request_id = long(length),
                "holder" => request.holder = long(length),
                _ => request.reason = long(length),
            })
        };
        with(limit).await.expect("at its limit");
        assert_invalid(with(limit + 1).await, field);
    }
    for (seconds, nanos) in [(1, 0), (86_400, 0), (86_399, 999_999_999)] {
        increment(&|request| request.ttl = ttl(seconds, nanos)).await.expect("a ttl within the limits");
    }
    for (seconds, nanos) in [(0, 0), (0, 999_999_999), (86_400, 1), (-1, 0), (1, -1), (1, 1_000_000_000), (i64::MAX, 0)]
    {
        assert_invalid(increment(&|request| request.ttl = ttl(seconds, nanos)).await, "ttl");
    }
}

#[tokio::test]
async fn the_fields_of_the_other_calls_are_checked_too() {
    let (_server, mut api) = server().await;
    api.increment("t", None).await;
    assert_invalid(api.try_decrement("", "", None).await, "thread_id");
    assert_invalid(api.try_decrement("t", &"x".repeat(129), None).await, "request_id");
    assert_invalid(api.try_decrement("t", "", Some("")).await, "elicitation_id");
    assert_invalid(api.try_decrement("t", "", Some(&"x".repeat(65))).await, "elicitation_id");
    assert_eq!(api.try_decrement("t", "", Some(&"x".repeat(64))).await.expect_err("unknown").code(), Code::NotFound);
    assert_invalid(api.try_renew("", "x", None).await, "thread_id");
    assert_invalid(api.try_renew("t", "", None).await, "elicitation_id");
    assert_invalid(api.try_renew("t", "x", Some(SECOND / 2)).await, "ttl");
    assert_invalid(api.0.get_pause_state(v1::GetPauseStateRequest::default()).await, "thread_id");
    assert_invalid(api.try_watch(vec!["a".into(), "".into()], false).await.map(|_| ()), "thread_ids[1]");
    assert_invalid(api.try_watch(vec!["a".into(); 10_001], false).await.map(|_| ()), "thread_ids");
    assert!(api.try_watch(vec!["a".repeat(256); 10_000], false).await.is_ok());
    assert_eq!(api.get("t").await.count, 1, "no refusal has changed anything");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let (_server, mut api) = server().await;
    let increment = |size| v1::IncrementElicitationRequest {
        thread_id: "t".into(),
        reason: "x".repeat(size),
        ..Default::default()
    };
    assert_invalid(api.0.increment_elicitation(increment(60 << 10)).await, "reason");
    let refused = api.0.increment_elicitation(increment(65 << 10)).await.expect_err("too large to be read");
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    let refused = api.try_watch(vec!["x".repeat(4 << 20)], false).await.map(|_| ()).expect_err("too large to be read");
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    api.increment("t", None).await;
}

#[tokio::test]
async fn pages_list_the_paused_threads_or_all_that_are_known() {
    let (_server, mut api) = server().await;
    for i in 0..250 {
        let thread = format!("t{i:03}");
        api.increment(&thread, None).await;
        if i % 5 == 0 {
            api.try_decrement(&thread, "", None).await.expect("closes");
        }
    }
    for (include_running, all) in [(false, 200), (true, 250)] {
        for (page_size, sizes) in [(0, 100), (30, 30), (100_000, 1_000)] {
            let mut request = v1::ListPauseStatesRequest { page_size, include_running, ..Default::default() };
            let mut listed: Vec<v1::PauseState> = Vec::new();
            loop {
                let page = api.list(request.clone()).await.expect("a page");
                let full = !page.next_page_token.is_empty();
                assert!(page.pause_states.len() == sizes || !full && page.pause_states.len() < sizes);
                listed.extend(page.pause_states);
                if !full {
                    break;
                }
                request.page_token = page.next_page_token;
            }
            assert_eq!(listed.len(), all);
            assert!(listed.is_sorted_by(|a, b| a.thread_id < b.thread_id));
            assert!(listed.iter().all(|state| state.count as usize == state.elicitations.len()));
            assert!(include_running || listed.iter().all(|state| state.paused));
        }
    }
    let page = api.list(v1::ListPauseStatesRequest { page_size: 10, ..Default::default() }).await.expect("a page");
    let foreign = |page_token: &str, include_running| v1::ListPauseStatesRequest {
        page_token: page_token.into(),
        include_running,
        ..Default::default()
    };
    assert_invalid(api.list(foreign(&page.next_page_token, true)).await, "page_token");
    assert_invalid(api.list(foreign("t1", false)).await, "page_token");
    assert_invalid(api.list(v1::ListPauseStatesRequest { page_size: -1, ..Default::default() }).await, "page_size");
}

#[tokio::test]
async fn threads_with_a_thousand_elicitations_come_in_pages_that_clients_take() {
    let (_server, mut api) = server().await;
    for thread in ["a", "b", "c", "d"] {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let mut api = api.clone();
            let request = v1::IncrementElicitationRequest {
                thread_id: thread.into(),
                reason: "x".repeat(1_024),
                holder: "y".repeat(256),
                ..Default::default()
            };
            calls.spawn(async move { api.0.increment_elicitation(request).await.expect("there is room") });
        }
        calls.join_all().await;
    }
    let (mut request, mut listed) = (v1::ListPauseStatesRequest::default(), Vec::new());
    loop {
        let page = api.list(request.clone()).await.expect("within the 4 MiB that clients take");
        listed.extend(page.pause_states.iter().map(|state| (state.thread_id.clone(), state.elicitations.len())));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(listed, ["a", "b", "c", "d"].map(|thread| (thread.to_owned(), 1_000)));
}
