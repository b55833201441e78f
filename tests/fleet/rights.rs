//! I12: a call that a follower forwards meets the same permissions and limits as a call to the leader, and has the same
//! caller in the audit trail; and only replicas can forward.
use crate::contract::config as fleet_config;
use crate::etcd::Etcd;
use crate::followers::serves;
use crate::support::{Running, channel, config, detail, timed};
use pausewatch::proto::v1;
use pausewatch::server::{AuditConfig, Config, LimitPair, Limits, Server};
use pausewatch::test_support::access::{AccessConfig, Grant, Role};
use pausewatch::test_support::clock::System;
use pausewatch::test_support::core::scope::Scope;
use pausewatch::test_support::etcd::ReplicaConfig;
use std::path::Path;
use std::sync::Arc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Response, Status};
use v1::elicitation_service_client::ElicitationServiceClient;

fn access() -> AccessConfig {
    let scope = |prefix: &str| Scope::of(&[], &[prefix.to_owned()]).expect("valid");
    let given = vec![
        ("watcher".to_owned(), Grant::new("a watcher", Role::Watcher, scope("team/"))),
        ("holder".to_owned(), Grant::new("a holder", Role::Holder, scope("team/"))),
        ("admin".to_owned(), Grant::new("an admin", Role::Admin, Scope::ALL)),
    ];
    AccessConfig { given, ..AccessConfig::default() }
}

async fn replica(etcd: &Etcd, trail: &Path) -> Running {
    let replica = ReplicaConfig { fleet: fleet_config(etcd, "rights"), advertise: None, peer_ca: None };
    let open = LimitPair { in_all: None, per_caller: Some(3) };
    let config = Config {
        access: Some(access()),
        limits: Limits { open, ..Limits::default() },
        audit: Some(AuditConfig { path: trail.to_owned(), max_size: 1 << 20, keep: 1 }),
        ..config()
    };
    let server = Server::start_replica(replica, Arc::new(System::new()), config).await.expect("etcd runs");
    let running = Running::of(server);
    serves(&running.address).await;
    running
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().expect("it is text"));
    }
    request
}

async fn increment(at: &Running, token: &str, thread: &str) -> Result<v1::IncrementElicitationResponse, Status> {
    let mut client = ElicitationServiceClient::new(channel(&at.address).await);
    let request = v1::IncrementElicitationRequest { thread_id: thread.into(), ..Default::default() };
    timed("increment", client.increment_elicitation(with(token, request))).await.map(Response::into_inner)
}

async fn decrement(at: &Running, token: &str, thread: &str) -> Result<v1::DecrementElicitationResponse, Status> {
    let mut client = ElicitationServiceClient::new(channel(&at.address).await);
    let request = v1::DecrementElicitationRequest { thread_id: thread.into(), ..Default::default() };
    timed("decrement", client.decrement_elicitation(with(token, request))).await.map(Response::into_inner)
}

async fn get(at: &Running, token: &str, thread: &str) -> Result<v1::GetPauseStateResponse, Status> {
    let mut client = ElicitationServiceClient::new(channel(&at.address).await);
    let request = v1::GetPauseStateRequest { thread_id: thread.into() };
    timed("get", client.get_pause_state(with(token, request))).await.map(Response::into_inner)
}

#[tokio::test]
async fn forwarded_and_direct_calls_meet_the_same_limits_rights_and_audit_name() {
    let Some(etcd) = Etcd::shared() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let trail = |name: &str| directory.path().join(name);
    let leader = replica(etcd, &trail("leader")).await;
    let follower = replica(etcd, &trail("follower")).await;
    for (token, thread, code, reason) in [
        ("", "team/a", Code::Unauthenticated, "TOKEN_MISSING"),
        ("nobody", "team/a", Code::Unauthenticated, "TOKEN_INVALID"),
        ("watcher", "team/a", Code::PermissionDenied, "ROLE_FORBIDDEN"),
        ("holder", "other/a", Code::PermissionDenied, "THREAD_FORBIDDEN"),
        ("holder", "", Code::InvalidArgument, "INVALID_FIELD"),
        ("admin", "a\nb", Code::InvalidArgument, "INVALID_FIELD"),
    ] {
        let direct = increment(&leader, token, thread).await.expect_err("it is refused");
        let forwarded = increment(&follower, token, thread).await.expect_err("it is refused");
        assert_eq!((direct.code(), &*detail(&direct).0), (code, reason), "{token:?} {thread:?}");
        assert_eq!((forwarded.code(), forwarded.message()), (direct.code(), direct.message()), "{token:?} {thread:?}");
        assert_eq!(detail(&forwarded), detail(&direct), "{token:?} {thread:?}");
    }
    let refused = get(&follower, "watcher", "other/a").await.expect_err("it is refused");
    assert_eq!(detail(&refused).0, "THREAD_FORBIDDEN");
    // The limit is that of the fleet, whichever replica a caller uses.
    for at in [&leader, &follower, &follower] {
        increment(at, "holder", "team/a").await.expect("there is room for three");
    }
    for at in [&leader, &follower] {
        let refused = increment(at, "holder", "team/b").await.expect_err("there is room for three");
        let (reason, metadata) = detail(&refused);
        assert_eq!((&*reason, &*metadata["caller"]), ("LIMIT_EXCEEDED", "a holder"), "{refused:?}");
    }
    assert_eq!(decrement(&follower, "admin", "team/a").await.expect("an admin may").count, 2);
    let state = get(&follower, "watcher", "team/a").await.expect("a watcher may").pause_state.expect("a state");
    assert_eq!((state.count, state.revision), (2, 4));
    let (status, said) = decrement_by_curl(&follower, r#"{"threadId": "team/a"}"#).await;
    assert!(status == "200" && said.contains("\"count\":1"), "{status}: {said}");
    for at in [&leader, &follower] {
        for wrong in [r#"{"threadID": "team/a"}"#, "{"] {
            let (status, said) = decrement_by_curl(at, wrong).await;
            assert!(status == "400" && said.contains("\"invalid_argument\""), "{wrong}: {status}: {said}");
            assert!(said.contains("INVALID_FIELD"), "{wrong}: {said}");
        }
    }
    for running in [leader, follower] {
        running.stop().await.expect("no panic");
    }
    let lines = std::fs::read_to_string(trail("leader")).expect("a trail");
    let by = |name: &str| lines.lines().filter(|line| line.contains(&format!("\"by\":\"{name}\""))).count();
    assert_eq!((by("a holder"), by("an admin")), (4, 1), "{lines}");
}

/// As JSON, over HTTP/1.1. Returns the HTTP status and the body.
async fn decrement_by_curl(at: &Running, json: &str) -> (String, String) {
    let url = format!("http://{}/pausewatch.v1.ElicitationService/DecrementElicitation", at.address);
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sS", "-w", "\n%{http_code}", "-H", "Authorization: Bearer holder"]);
    curl.args(["-H", "Content-Type: application/json", "-d", json, &url]);
    let output = curl.output().await.expect("curl is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let (body, status) = said.rsplit_once('\n').expect("a status");
    (status.to_owned(), body.to_owned())
}

/// W1: other programs that connect to the forwarding service get no call accepted.
#[tokio::test]
async fn who_is_no_replica_cannot_forward() {
    let Some(etcd) = Etcd::shared() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let leader = replica(etcd, &directory.path().join("audit")).await;
    for method in ["IncrementElicitation", "GetPauseState", ""] {
        let mut grpc = tonic::client::Grpc::new(channel(&leader.address).await);
        grpc.ready().await.expect("it is connected");
        let codec = tonic_prost::ProstCodec::<v1::IncrementElicitationRequest, v1::GetPauseStateResponse>::default();
        let path: PathAndQuery = format!("/pausewatch.internal.Forward/{method}").parse().expect("a path");
        let request = v1::IncrementElicitationRequest { thread_id: "team/a".repeat(30), ..Default::default() };
        let refused = timed("a call", grpc.unary(with("admin", request), path, codec)).await.expect_err("refused");
        assert_eq!(refused.code(), Code::PermissionDenied, "{method}: {refused:?}");
    }
    leader.stop().await.expect("no panic");
}
