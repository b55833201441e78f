//! The limits of callers: a refusal names the limit, its size and when to retry, and other callers are served as
//! before.
use crate::support::{
    Api, PATIENCE, Process, Running, api, call_path, channel, config, detail, embedded, states, timed, unix,
};
use pausewatch::proto::v1::IncrementElicitationRequest;
use pausewatch::server::Config;
use pausewatch::test_support::access::AccessConfig;
use pausewatch::test_support::quota::{LimitPair, Limits};
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const fn most(in_all: Option<u64>, per_caller: Option<u64>) -> LimitPair {
    LimitPair { in_all, per_caller }
}

/// The fields of a refusal: `limit`, the current number, the maximum, and the caller.
fn exceeded(status: Status) -> (String, u64, u64, Option<String>) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
    assert!(wait.is_some_and(|wait| !wait.is_zero()), "the refusal must say when to retry: {status:?}");
    let (reason, metadata) = detail(&status);
    assert_eq!(reason, "LIMIT_EXCEEDED");
    let number = |key: &str| metadata[key].parse().unwrap();
    assert!(status.message().contains(&metadata["limit"]), "{}", status.message());
    (metadata["limit"].clone(), number("was"), number("allowed"), metadata.get("caller").cloned())
}

fn refused<T: std::fmt::Debug>(what: &str, outcome: Result<T, Status>) -> (String, Option<String>) {
    let (limit, was, allowed, caller) = exceeded(outcome.expect_err(what));
    assert_eq!(was, allowed);
    (limit, caller)
}

/// A server with these limits, and two callers: one by address, one by the user of a Unix socket.
async fn two_callers(limits: Limits, config: Config) -> (Running, [Api; 2], tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let listen = vec!["127.0.0.1:0".parse().unwrap(), unix(&path)];
    let running = Running::start(Config { limits, listen, ..config }).await;
    let callers = [running.api().await, api(&format!("unix:{}", path.display())).await];
    (running, callers, directory)
}

const ADDRESS: Option<&str> = Some("127.0.0.1");

#[tokio::test]
async fn g7_open_elicitations_are_limited_for_each_caller_and_in_all() {
    let limits = Limits { open: most(Some(3), Some(2)), ..Limits::default() };
    let directory = tempfile::tempdir().unwrap();
    let (_running, [mut one, mut other], _socket) = two_callers(limits, embedded(directory.path())).await;
    let first = one.increment("a", None).await.elicitation.unwrap();
    let again = one.try_increment("b", "r", None).await.unwrap();
    let (limit, caller) = refused("a third one", one.try_increment("c", "", None).await);
    assert_eq!((limit.as_str(), caller.as_deref()), ("open-elicitations-per-caller", ADDRESS));
    assert_eq!(
        one.try_increment("b", "r", None).await.unwrap().elicitation,
        again.elicitation,
        "a retry of an accepted call is not refused"
    );
    other.increment("a", None).await;
    assert_eq!(refused("a fourth", other.try_increment("a", "", None).await), ("open-elicitations".into(), None));
    // It counts for the caller that opened it, whoever closes it.
    other.try_decrement("a", "", Some(&first.elicitation_id)).await.unwrap();
    one.increment("a", None).await;
    assert_eq!(one.get("c").await.count, 0, "what was refused has changed nothing");
}

#[tokio::test]
async fn g7_the_end_of_a_lease_frees_quota_and_after_a_restart_elicitations_count_in_total_only() {
    let limits = Limits { open: most(Some(2), Some(1)), ..Limits::default() };
    let directory = tempfile::tempdir().unwrap();
    let config = || Config { limits, ..embedded(directory.path()) };
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("a", Some(Duration::from_secs(1))).await;
    let room = async {
        while let Err(status) = api.try_increment("b", "", None).await {
            assert_eq!(exceeded(status).0, "open-elicitations-per-caller");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timed("the end of the lease", room).await;
    running.stop().await.unwrap();

    let running = Running::start(config()).await;
    let mut api = running.api().await;
    api.increment("c", None).await;
    let (limit, _) = refused("a third one", api.try_increment("d", "", None).await);
    assert_eq!(limit, "open-elicitations", "the earlier elicitation counts in the total");
}

#[tokio::test]
async fn g7_known_threads_are_limited_for_each_caller_and_in_all() {
    let limits = Limits { threads: most(Some(3), Some(2)), ..Limits::default() };
    let (_running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    for thread in ["a", "b"] {
        one.increment(thread, None).await;
        one.try_decrement(thread, "", None).await.unwrap();
    }
    let (limit, caller) = refused("a third thread", one.try_increment("c", "", None).await);
    assert_eq!((limit.as_str(), caller.as_deref()), ("threads-per-caller", ADDRESS));
    one.increment("a", None).await;
    other.increment("c", None).await;
    assert_eq!(refused("a fourth", other.try_increment("d", "", None).await).0, "threads");
    one.increment("c", None).await;
}

#[tokio::test]
async fn g7_watches_are_limited_for_each_caller_and_in_all() {
    let limits = Limits { streams: most(Some(3), Some(2)), ..Limits::default() };
    let (_running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    let mut watches = vec![one.watch(&["a"]).await, one.watch(&["a"]).await];
    let (limit, caller) = refused("a third watch", one.try_watch(vec!["a".into()], false).await);
    assert_eq!((limit.as_str(), caller.as_deref()), ("streams-per-caller", ADDRESS));
    let mut of_other = other.watch(&["a"]).await;
    assert_eq!(refused("a fourth", other.try_watch(vec!["a".into()], false).await).0, "streams");
    states(&mut of_other).await;
    watches.pop();
    let room = async { while one.try_watch(vec!["a".into()], false).await.is_err() {} };
    timed("room for one more", room).await;
}

#[tokio::test]
async fn g7_a_caller_over_its_rate_gets_a_retry_delay_and_others_are_served() {
    let limits = Limits { calls: most(None, Some(20)), ..Limits::default() };
    let (_running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    let began = Instant::now();
    let mut burst = 0;
    let status = loop {
        match one.try_increment("a", "", None).await {
            Ok(_) => burst += 1,
            Err(status) => break status,
        }
    };
    assert!(burst >= 20, "only {burst} calls were served before the first refusal");
    let wait = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!(wait <= Duration::from_millis(50), "a twentieth of a second at most: {wait:?}");
    let (limit, was, allowed, caller) = exceeded(status);
    assert_eq!((limit.as_str(), was, allowed), ("calls-per-second-per-caller", 20, 20));
    assert_eq!(caller.as_deref(), ADDRESS);
    for _ in 0..10 {
        other.get("a").await;
    }
    // At most the calls of one second and those of the burst.
    let mut served = 0;
    while began.elapsed() < Duration::from_secs(1) {
        served += u32::from(one.try_increment("a", "", None).await.is_ok());
    }
    assert!(served <= 21, "{served} calls were served");
    let next = async { while one.try_increment("a", "", None).await.is_err() {} };
    timed("a call of the next second", next).await;
}

/// Otherwise a client could flood the server with health checks.
#[tokio::test]
async fn g7_questions_for_health_are_calls_too() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let limits = Limits { calls: most(None, Some(5)), ..Limits::default() };
    let running = Running::start(Config { limits, ..config() }).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).unwrap();
    let mut health = HealthClient::new(endpoint.connect().await.unwrap());
    health.check(HealthCheckRequest::default()).await.unwrap();
    let flood = async {
        loop {
            if let Err(status) = health.check(HealthCheckRequest::default()).await {
                break status;
            }
        }
    };
    assert_eq!(exceeded(timed("the limit", flood).await).0, "calls-per-second-per-caller");
}

#[tokio::test]
async fn g7_a_caller_at_its_limit_of_connections_is_refused_with_the_limit() {
    let limits = Limits { connections: most(Some(4), Some(2)), ..Limits::default() };
    let (running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    let mut second = running.api().await;
    one.get("a").await;
    second.get("a").await;
    let (limit, caller) = refused("a third", running.api().await.try_increment("a", "", None).await);
    assert_eq!((limit.as_str(), caller.as_deref()), ("connections-per-caller", ADDRESS));
    assert_eq!(other.get("a").await.count, 0);
    drop(second);
    let room = async { while running.api().await.try_increment("a", "", None).await.is_err() {} };
    timed("room for one more", room).await;
    one.get("a").await;
}

/// A caller that sends as fast as it can over many connections, and one that calls now and then. `benches/run hostile`
/// measures the delay of the second one; this test checks that it is served, and that memory does not grow.
#[cfg(feature = "exec-server")]
#[tokio::test]
async fn g7_a_flood_of_calls_is_refused_beside_an_honest_caller() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--store", "memory", "--max-calls-per-second-per-caller", "100", "--listen", "127.0.0.1:0"]);
    command.arg("--listen").arg(format!("unix:{}", path.display()));
    let server = Process::start(command);
    let mut honest = api(&format!("unix:{}", path.display())).await;
    let before = server.memory();
    let mut flood = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let api = server.api().await;
        for task in 0..16 {
            let mut api = api.clone();
            flood.spawn(async move {
                let mut refused = 0_u64;
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(1) || (refused == 0 && begun.elapsed() < PATIENCE) {
                    refused += u64::from(api.try_increment(&format!("{caller}-{task}"), "", None).await.is_err());
                }
                refused
            });
        }
    }
    let (mut calls, mut refused) = (0, 0);
    let mut now_and_then = tokio::time::interval(Duration::from_millis(20));
    while !flood.is_empty() {
        now_and_then.tick().await;
        timed("an honest call", honest.get("honest")).await;
        calls += 1;
        while let Some(ended) = flood.try_join_next() {
            refused += ended.unwrap();
        }
    }
    assert!(calls > 0 && refused > 0, "{calls} honest calls beside {refused} that were refused");
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
}

/// Many callers share one address: each token has its own quota, and the audit trail names it.
#[tokio::test]
async fn g7_the_subject_of_a_token_is_a_caller_wherever_it_calls_from() {
    let directory = tempfile::tempdir().unwrap();
    let (tokens, trail) = (directory.path().join("tokens"), directory.path().join("audit.log"));
    let entry = |subject: &str| {
        format!("[[token]]\nsubject = \"{subject}\"\nrole = \"admin\"\nsecret = \"a-long-secret-of-{subject}\"\n")
    };
    std::fs::write(&tokens, entry("ann") + &entry("bob")).unwrap();
    let access = AccessConfig { tokens: Some(tokens), jwt: None, given: Vec::new() };
    let audit = pausewatch::server::AuditConfig { path: trail.clone(), max_size: 1 << 20, keep: 1 };
    let limits = Limits { open: most(None, Some(1)), streams: most(None, Some(1)), ..Limits::default() };
    let config = Config { access: Some(access), audit: Some(audit), limits, ..config() };
    let running = Running::start(config).await;
    let mut api = running.api().await.0;
    let request = |subject: &str, thread: &str| {
        let mut request =
            tonic::Request::new(IncrementElicitationRequest { thread_id: thread.into(), ..Default::default() });
        let token = format!("Bearer a-long-secret-of-{subject}");
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        request
    };
    api.increment_elicitation(request("ann", "a")).await.unwrap();
    let (limit, caller) = refused("a second one of Ann's", api.increment_elicitation(request("ann", "b")).await);
    assert_eq!((limit.as_str(), caller.as_deref()), ("open-elicitations-per-caller", Some("ann")));
    api.increment_elicitation(request("bob", "b")).await.unwrap();
    drop(api);
    running.stop().await.unwrap();
    let text = std::fs::read_to_string(&trail).unwrap();
    let by: Vec<_> = text.lines().filter_map(|line| line.split("\"by\":\"").nth(1)?.split('"').next()).collect();
    assert_eq!(by, ["ann", "bob"]);
    assert!(!text.contains("a-long-secret"), "no token is in the audit trail");
}

/// Otherwise anybody could open any number of them.
#[tokio::test]
async fn g7_streams_of_health_and_reflection_count_as_watches_do() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::{v1, v1alpha};
    // Each counts as eight watches.
    let limits = Limits { streams: most(Some(4 * 8), Some(3 * 8)), ..Limits::default() };
    let (running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    let channel = channel(&running.address).await;
    let mut health = HealthClient::new(channel.clone());
    let first = health.watch(HealthCheckRequest::default()).await.unwrap();
    let mut reflection = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let _second = reflection.server_reflection_info(tokio_stream::pending()).await.unwrap();
    let mut reflection = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let _third = reflection.server_reflection_info(tokio_stream::pending()).await.unwrap();
    let expected = ("streams-per-caller".to_owned(), ADDRESS.map(str::to_owned));
    assert_eq!(refused("health", health.watch(HealthCheckRequest::default()).await), expected);
    assert_eq!(refused("reflection", reflection.server_reflection_info(tokio_stream::pending()).await), expected);
    assert_eq!(refused("a watch", one.try_watch(vec!["a".into()], false).await), expected);
    health.check(HealthCheckRequest::default()).await.expect("a question is no stream");
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(other.watch(&["a"]).await);
    }
    assert_eq!(refused("a ninth", other.try_watch(vec!["a".into()], false).await).0, "streams");
    drop(first);
    let room = async { while one.try_watch(vec!["a".into()], false).await.is_err() {} };
    timed("room for one more", room).await;
}

#[tokio::test]
async fn g7_threads_that_watches_name_are_limited_for_each_caller_and_in_all() {
    let limits = Limits { watched: most(Some(5), Some(3)), ..Limits::default() };
    let (_running, [mut one, mut other], _socket) = two_callers(limits, config()).await;
    let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
    let mut watches = vec![one.watch(&["a", "b"]).await];
    let told = exceeded(one.try_watch(ids(&["a", "c"]), false).await.unwrap_err());
    assert_eq!(told, ("watched-threads-per-caller".into(), 2, 3, ADDRESS.map(str::to_owned)));
    watches.push(one.watch(&["a"]).await);
    let told = exceeded(other.try_watch(ids(&["a", "b", "c"]), false).await.unwrap_err());
    assert_eq!(told, ("watched-threads".into(), 3, 5, None));
    // A watch of all threads names no thread.
    states(&mut one.watch(&[]).await).await;
    watches.remove(0);
    let room = async { while other.try_watch(ids(&["a", "b", "c"]), false).await.is_err() {} };
    timed("room for three more", room).await;
}

#[tokio::test]
async fn g7_calls_of_what_does_not_exist_are_calls_too() {
    let limits = Limits { calls: most(None, Some(5)), ..Limits::default() };
    let running = Running::start(Config { limits, ..config() }).await;
    let channel = channel(&running.address).await;
    let first = call_path(channel.clone(), "/pausewatch.v2.Unheard/Of", &[]).await.unwrap_err();
    assert_eq!(first.code(), Code::Unimplemented);
    let flood = async {
        loop {
            match call_path(channel.clone(), "/pausewatch.v2.Unheard/Of", &[]).await.unwrap_err() {
                status if status.code() == Code::Unimplemented => {}
                status => break status,
            }
        }
    };
    assert_eq!(exceeded(timed("the limit", flood).await).0, "calls-per-second-per-caller");
}
