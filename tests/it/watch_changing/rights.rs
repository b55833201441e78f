//! Limits and tokens of a watch whose threads change: a refused request has no effect, and the stream continues.
use super::*;
use crate::support::{Running, unix};
use pausewatch::server::Server;
use pausewatch::test_support::access::mint::{Pair, Signer, Token};
use pausewatch::test_support::access::{AccessConfig, JwtConfig, Role};
use pausewatch::test_support::quota::{LimitPair, Limits};
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::Code;

#[tokio::test]
async fn g7_watched_threads_are_limited_as_they_are_added() {
    let limits = Limits { watched: LimitPair { in_all: None, per_caller: Some(3) }, ..Limits::default() };
    let running = Running::start(Config { limits, ..config() }).await;
    let (mut watch, mut other) = (Watch::open(&running).await, Watch::open(&running).await);
    watch.ask(add(&["a", "b"]), 1).await;
    other.ask(add(&["a"]), 1).await;
    let refused = watch.refused(v1::WatchRequest { remove: ids(&["a"]), ..add(&["c", "d"]) }).await;
    assert_eq!(
        (refused.request, refused.code, &*refused.reason),
        (2, Code::ResourceExhausted as i32, "LIMIT_EXCEEDED")
    );
    assert!(refused.retry_after.is_some() && refused.message.contains("watched-threads-per-caller"), "{refused:?}");
    // The refused request had no effect: `a` is still watched.
    assert_eq!(running.api().await.increment("a", None).await.watchers, 2);
    assert_eq!(watch.state().await.thread_id, "a");
    // As many threads are removed as are added, and those that are watched already do not count again.
    let exchanged = v1::WatchRequest { remove: ids(&["a"]), ..add(&["c", "b", "c"]) };
    assert_eq!(counts(&watch.ask(exchanged, 3).await.states), [("c", 0), ("b", 0)]);
    assert_eq!(other.refused(add(&["b"])).await.reason, "LIMIT_EXCEEDED");
    drop(watch);
    let mut api = running.api().await;
    timed("the end of the watch", async { while api.increment("c", None).await.watchers > 0 {} }).await;
    other.ask(add(&["b", "c"]), 3).await;
}

/// A server that requires tokens, and the key that signs them.
struct Guarded {
    running: Running,
    signer: Signer,
    _directory: tempfile::TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pair = Pair::generate().unwrap();
        let keys = directory.path().join("keys");
        std::fs::write(&keys, &pair.public).unwrap();
        let access = AccessConfig { jwt: Some(JwtConfig::new(keys)), ..AccessConfig::default() };
        let listen = vec!["127.0.0.1:0".parse().unwrap(), unix(&directory.path().join("p.sock"))];
        let server = Server::start(Config { access: Some(access), listen, ..config() }).await.unwrap();
        let signer = Signer::from_pem(&pair.private).unwrap();
        Guarded { running: Running::of(server), signer, _directory: directory }
    }

    fn token(&self, subject: &str, threads: &[&str], ttl: Duration) -> String {
        let token = Token { subject: subject.into(), role: Role::Watcher, threads: ids(threads), prefixes: vec![] };
        self.signer.sign(&token, SystemTime::now().duration_since(UNIX_EPOCH).unwrap(), ttl).unwrap()
    }

    async fn watch(&self, token: &str) -> Watch {
        let mut client = self.running.api().await.0;
        Watch::open_with(&mut client, Some(&format!("Bearer {token}"))).await.expect("accepted")
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn g8_only_threads_of_the_token_are_added_and_confirmed() {
    let guarded = Guarded::start().await;
    let no_token = Watch::open_with(&mut guarded.running.api().await.0, None).await.map(drop).unwrap_err();
    assert_eq!(no_token.code(), Code::Unauthenticated);
    let mut watch = guarded.watch(&guarded.token("s", &["own"], HOUR)).await;
    let mixed = v1::WatchRequest { confirm: ids(&["other 2"]), ..add(&["own", "other 1"]) };
    let refused = watch.refused(v1::WatchRequest { include_elicitations: true, ..mixed }).await;
    assert_eq!((refused.code, &*refused.reason), (Code::PermissionDenied as i32, "THREAD_FORBIDDEN"));
    assert_eq!(refused.thread_ids, ["other 1", "other 2"]);
    // A refused request has no effect: an option that may be set only once can still be set.
    let first = v1::WatchRequest { include_elicitations: true, ..add(&["own"]) };
    assert_eq!(counts(&watch.ask(first, 2).await.states), [("own", 0)]);
    let mut all = guarded.watch(&guarded.token("s", &["own"], HOUR)).await;
    let first = v1::WatchRequest { all_threads: true, ..add(&["own"]) };
    assert_eq!(counts(&all.ask(first, 1).await.states), [("own", 0)]);
}

#[tokio::test]
async fn g8_a_stream_outlives_the_token_that_opened_it_if_the_token_is_renewed() {
    let guarded = Guarded::start().await;
    let token = |ttl| guarded.token("s", &["t"], ttl);
    let (mut renewed, mut not_renewed) = {
        let short = token(Duration::from_secs(10));
        (guarded.watch(&short).await, guarded.watch(&short).await)
    };
    not_renewed.ask(add(&["t"]), 1).await;
    let with = |token: String| v1::WatchRequest { token, ..add(&["t"]) };
    for (wrong, reason) in [
        (guarded.token("other", &["t"], HOUR), "TOKEN_INVALID"),
        (guarded.token("s", &["t", "u"], HOUR), "TOKEN_INVALID"),
        ("no token".to_owned(), "TOKEN_INVALID"),
    ] {
        assert_eq!(renewed.refused(with(wrong)).await.reason, reason);
    }
    assert_eq!(counts(&renewed.ask(with(token(HOUR)), 4).await.states), [("t", 0)]);
    let ended = not_renewed.end().await;
    assert_eq!(crate::support::detail(&ended).0, "TOKEN_EXPIRED");
    // The first token has expired for both by now.
    assert_eq!(counts(&renewed.ask(confirm(&["t"]), 5).await.confirmed), [("t", 0)]);
}
