//! The calls of the client: request ids, deadlines, outages. `clients/vectors/retries.json` has the errors that are
//! retried, and when.
use crate::fake::{Fake, settle};
use pausewatch::client::*;
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;

fn increment(thread_id: &str) -> IncrementElicitationRequest {
    IncrementElicitationRequest { thread_id: thread_id.to_owned(), ..Default::default() }
}

fn get(thread_id: &str) -> GetPauseStateRequest {
    GetPauseStateRequest { thread_id: thread_id.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn g4_a_call_with_a_lost_response_is_retried_with_the_same_request_id() {
    let fake = Fake::start();
    fake.script().lose_answers = 2;
    let response = fake.client().increment_elicitation(increment("t")).await.unwrap();
    let calls = fake.calls("increment");
    assert_eq!(calls.len(), 3);
    assert!(!calls[0].request_id.is_empty() && calls.iter().all(|call| call.request_id == calls[0].request_id));
    assert_eq!((response.count, fake.count("t")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_id_of_the_caller_is_sent_unchanged() {
    let fake = Fake::start();
    let request = IncrementElicitationRequest { request_id: "mine".to_owned(), ..increment("t") };
    let client = fake.client();
    client.increment_elicitation(request.clone()).await.unwrap();
    client.increment_elicitation(request).await.unwrap();
    let sent: Vec<_> = fake.calls("increment").into_iter().map(|call| call.request_id).collect();
    assert_eq!(sent, ["mine", "mine"]);
    assert_eq!(fake.count("t"), 1);
}

#[tokio::test(start_paused = true)]
async fn two_calls_without_a_request_id_count_twice() {
    let fake = Fake::start();
    let client = fake.client();
    client.increment_elicitation(increment("t")).await.unwrap();
    client.increment_elicitation(increment("t")).await.unwrap();
    assert_eq!(fake.count("t"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_coordinator_is_unavailable_within_its_deadline() {
    let fake = Fake::start();
    fake.cut();
    let start = Instant::now();
    let error = fake.client().get_pause_state(get("t")).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("refused"), "the error has the cause: {error}");
    assert!((3..=5).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());

    let impatient = fake.client_with(&Config { retries: 0, ..Config::default() });
    let start = Instant::now();
    assert!(matches!(impatient.get_pause_state(get("t")).await, Err(Error::Unavailable(_))));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_call_succeeds_after_a_short_outage() {
    let fake = Fake::start();
    fake.cut();
    let client = fake.client();
    let call = tokio::spawn(async move { client.increment_elicitation(increment("t")).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    fake.mend();
    assert_eq!(call.await.unwrap().unwrap().count, 1);
}

#[tokio::test(start_paused = true)]
async fn g4_a_connection_that_breaks_during_a_call_counts_once() {
    let fake = Fake::start();
    fake.hold_answers(true);
    let client = fake.client();
    let call = tokio::spawn(async move { client.increment_elicitation(increment("t")).await });
    settle().await;
    assert_eq!(fake.count("t"), 1, "the call took effect");
    fake.drop_connections();
    fake.hold_answers(false);
    assert_eq!(call.await.unwrap().unwrap().count, 1);
    assert_eq!((fake.calls("increment").len(), fake.count("t")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_to_a_silent_server_ends_with_its_deadline() {
    let fake = Fake::start();
    fake.hold_answers(true);
    let start = Instant::now();
    let error = fake.client().with_deadline(Duration::from_secs(2)).get_pause_state(get("t")).await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded(_)), "{error:?}");
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_returns_the_reason() {
    let fake = Fake::start();
    fake.script().refuse_watch_of = Some("t".to_owned());
    let request =
        WatchPauseStateRequest { thread_ids: vec!["t".to_owned()], include_elicitations: false, ..Default::default() };
    let error = fake.client().watch_pause_state(request).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
}
