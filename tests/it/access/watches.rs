//! Watches end with the token that opened them, and show only what it covers.
use super::*;

#[tokio::test]
async fn a_watch_with_one_forbidden_thread_is_refused() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let thread_ids = vec![OWN.into(), OTHER.into()];
    let request = v1::WatchPauseStateRequest { thread_ids, ..Default::default() };
    let refused = client.watch_pause_state(with(request, &[guarded.token(Role::Watcher)])).await.expect_err("refused");
    let (reason, metadata) = detail(&refused);
    assert_eq!((reason.as_str(), metadata["thread_id"].as_str()), ("THREAD_FORBIDDEN", OTHER));
}

#[tokio::test]
async fn g8_a_watch_of_all_goes_on_with_what_may_be_seen() {
    let guarded = Guarded::start().await;
    let (mut client, admin) = (guarded.client().await, [guarded.token(Role::Admin)]);
    let request = with(v1::WatchPauseStateRequest::default(), &[guarded.token(Role::Watcher)]);
    let mut watch = client.watch_pause_state(request).await.unwrap().into_inner();
    assert_eq!(states(&mut watch).await, []);
    for thread in [OTHER, OWN] {
        call(&mut client, "increment", thread, &admin).await.unwrap();
    }
    let Event::PauseState(state) = event(&mut watch).await else { panic!("a state comes first") };
    assert_eq!(state.thread_id, OWN);
}

/// Waits for the end of a watch of `OWN` that `authorization` has opened; skips the events before it.
async fn end_of_watch(client: &mut Client, authorization: &str, then: impl AsyncFnOnce()) -> Status {
    let request = v1::WatchPauseStateRequest { thread_ids: vec![OWN.into()], ..Default::default() };
    let mut watch = client.watch_pause_state(with(request, &[authorization.to_owned()])).await.unwrap().into_inner();
    states(&mut watch).await;
    then().await;
    // There may be heartbeats as well.
    let end = async {
        loop {
            if let Err(status) = watch.message().await {
                return status;
            }
        }
    };
    timed("the end of the watch", end).await
}

#[tokio::test]
async fn g8_a_watch_ends_when_its_token_does() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let short = guarded.token_for(Role::Watcher, &[OWN], &[], Duration::from_secs(6));
    let ended = end_of_watch(&mut client, &short, async || ()).await;
    assert_eq!((ended.code(), detail(&ended).0.as_str()), (Code::Unauthenticated, "TOKEN_EXPIRED"));
    let refused = call(&mut client, "get", OWN, &[short]).await.expect_err("it has expired");
    assert_eq!(detail(&refused).0, "TOKEN_EXPIRED");
}

#[tokio::test]
async fn g8_a_token_that_is_taken_back_opens_nothing_and_its_watches_end() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let authorization = "Bearer a-secret-that-is-static";
    let take_back = async || {
        std::fs::write(guarded.directory.path().join("tokens"), entry("new")).unwrap();
        guarded.reload.now();
    };
    let ended = end_of_watch(&mut client, authorization, take_back).await;
    assert_eq!((ended.code(), detail(&ended).0.as_str()), (Code::Unauthenticated, "TOKEN_INVALID"));
    let refused = call(&mut client, "get", OWN, &[authorization.to_owned()]).await.expect_err("it was revoked");
    assert_eq!(detail(&refused).0, "TOKEN_INVALID");
    call(&mut client, "get", OWN, &["Bearer a-secret-that-is-new".to_owned()]).await.unwrap();
}
