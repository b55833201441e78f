//! Access control (G8): every RPC, every role, every thread; every invalid token.
mod watches;

use crate::support::{Running, api, call_path, channel, config, detail, event, states, timed, unix};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pausewatch::proto::v1;
use pausewatch::server::{Config, Server};
use pausewatch::test_support::access::mint::{Pair, Signer, Token};
use pausewatch::test_support::access::{AccessConfig, Grant, JwtConfig, Role};
use pausewatch::test_support::core::scope::Scope;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use v1::elicitation_service_client::ElicitationServiceClient;
use v1::watch_pause_state_response::Event;

type Client = ElicitationServiceClient<Channel>;

const RPCS: [&str; 9] =
    ["increment", "decrement", "renew", "get", "watch", "list", "watch all", "pauses", "all pauses"];
/// Three threads: one that the caller's token covers, one that another's token covers, and one that nobody has named.
/// The names have the same length, so that answers can be compared byte by byte.
const OWN: &str = "thread-a";
const OTHER: &str = "thread-b";
const NOBODYS: &str = "thread-c";

/// A server that requires tokens, and the signer of the tokens.
struct Guarded {
    running: Running,
    reload: pausewatch::server::Reload,
    signer: Signer,
    directory: TempDir,
}

impl Guarded {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pair = Pair::generate().unwrap();
        let (tokens, keys) = (directory.path().join("tokens"), directory.path().join("keys"));
        std::fs::write(&keys, &pair.public).unwrap();
        std::fs::write(&tokens, entry("static")).unwrap();
        let access = AccessConfig { tokens: Some(tokens), jwt: Some(JwtConfig::new(keys)), given: Vec::new() };
        let listen = vec!["127.0.0.1:0".parse().unwrap(), unix(&directory.path().join("p.sock"))];
        let server = Server::start(Config { access: Some(access), listen, ..config() }).await.unwrap();
        let reload = server.reload();
        let signer = Signer::from_pem(&pair.private).unwrap();
        Self { running: Running::of(server), reload, signer, directory }
    }

    async fn client(&self) -> Client {
        self.running.api().await.0
    }

    fn token_for(&self, role: Role, threads: &[&str], prefixes: &[&str], ttl: Duration) -> String {
        let [threads, prefixes] = [threads, prefixes].map(|texts| texts.iter().map(|&text| text.to_owned()).collect());
        let token = Token { subject: "s".into(), role, threads, prefixes };
        format!("Bearer {}", self.signer.sign(&token, now(), ttl).unwrap())
    }

    fn token(&self, role: Role) -> String {
        let threads: &[&str] = if role == Role::Admin { &[] } else { &[OWN] };
        self.token_for(role, threads, &[], Duration::from_secs(3_600))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn entry(name: &str) -> String {
    format!(
        "[[token]]\nsubject = \"{name}\"\nrole = \"holder\"\nthreads = [\"{OWN}\"]\nsecret = \"a-secret-that-is-{name}\"\n"
    )
}

fn with<T>(message: T, authorization: &[String]) -> Request<T> {
    let mut request = Request::new(message);
    for value in authorization {
        request.metadata_mut().append("authorization", AsciiMetadataValue::try_from(value).unwrap());
    }
    request
}

/// Makes the call `rpc` on `thread`; returns the threads that the answer is about.
async fn call(client: &mut Client, rpc: &str, thread: &str, authorization: &[String]) -> Result<Vec<String>, Status> {
    let thread_id = thread.to_owned();
    let one = vec![thread.to_owned()];
    let ids = |states: Vec<v1::PauseState>| states.into_iter().map(|state| state.thread_id).collect();
    let elicitation_id = "00000000000000000000000000000000".to_owned();
    let watch = |thread_ids| with(v1::WatchPauseStateRequest { thread_ids, ..Default::default() }, authorization);
    Ok(match rpc {
        "increment" => {
            let request = v1::IncrementElicitationRequest { thread_id, ..Default::default() };
            client.increment_elicitation(with(request, authorization)).await.map(|_| one)?
        }
        "decrement" => {
            let request = v1::DecrementElicitationRequest { thread_id, ..Default::default() };
            client.decrement_elicitation(with(request, authorization)).await.map(|_| one)?
        }
        "renew" => {
            let request = v1::RenewElicitationRequest { thread_id, elicitation_id, ttl: None };
            client.renew_elicitation(with(request, authorization)).await.map(|_| one)?
        }
        "get" => {
            let request = v1::GetPauseStateRequest { thread_id };
            client.get_pause_state(with(request, authorization)).await.map(|_| one)?
        }
        "list" => {
            let request = v1::ListPauseStatesRequest { include_running: true, ..Default::default() };
            ids(client.list_pause_states(with(request, authorization)).await?.into_inner().pause_states)
        }
        "pauses" | "all pauses" => {
            let thread_id = if rpc == "pauses" { thread_id } else { String::new() };
            let request = v1::ListPausesRequest { thread_id, ..Default::default() };
            let pauses = client.list_pauses(with(request, authorization)).await?.into_inner().pauses;
            let mut ids: Vec<_> = pauses.into_iter().map(|pause| pause.thread_id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        }
        "watch" => ids(states(&mut client.watch_pause_state(watch(one)).await?.into_inner()).await),
        _ => ids(states(&mut client.watch_pause_state(watch(vec![])).await?.into_inner()).await),
    })
}

/// Everything that the caller sees of a refusal, without the thread that it named itself. The details' metadata is
/// sorted, because its order is random.
fn told(status: &Status, thread: &str) -> String {
    let (reason, details) = detail(status);
    let details = (reason, std::collections::BTreeMap::from_iter(details), status.details().len());
    let mut metadata = status.metadata().clone().into_headers();
    metadata.remove("date");
    format!("{:?} {} {details:?} {metadata:?}", status.code(), status.message()).replace(thread, "THREAD")
}

/// G8: a token for one thread opens only that thread, and allows only what its role may do.
#[tokio::test]
async fn g8_every_rpc_role_and_thread() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let admin = [guarded.token(Role::Admin)];
    for thread in [OWN, OTHER] {
        // One pause that has ended, and one that continues.
        for rpc in ["increment", "decrement", "increment"] {
            call(&mut client, rpc, thread, &admin).await.unwrap();
        }
    }
    let other = |client: &mut Client| {
        let mut client = client.clone();
        let request = with(v1::GetPauseStateRequest { thread_id: OTHER.into() }, &admin);
        async move { client.get_pause_state(request).await.unwrap().into_inner().pause_state.unwrap().revision }
    };
    let before = other(&mut client).await;
    for role in [Role::Watcher, Role::Holder] {
        for rpc in RPCS {
            let mut refusals = Vec::new();
            for thread in [OWN, OTHER, NOBODYS] {
                let answer = call(&mut client, rpc, thread, &[guarded.token(role)]).await;
                let case = format!("{role:?} {rpc} {thread}: {answer:?}");
                let changes = ["increment", "decrement", "renew"].contains(&rpc);
                let of_all = ["list", "watch all", "all pauses"].contains(&rpc);
                match answer {
                    Ok(threads) => {
                        assert!((thread == OWN || of_all) && !(changes && role == Role::Watcher), "{case}");
                        assert_eq!(threads, [OWN], "{case}");
                    }
                    Err(refused) => match detail(&refused).0.as_str() {
                        "ROLE_FORBIDDEN" => {
                            assert!(changes && role == Role::Watcher, "{case}");
                            assert_eq!(refused.code(), Code::PermissionDenied);
                            refusals.push(told(&refused, thread));
                        }
                        "THREAD_FORBIDDEN" => {
                            assert!(thread != OWN && !of_all, "{case}");
                            assert_eq!(refused.code(), Code::PermissionDenied);
                            assert_eq!(detail(&refused).1["thread_id"], thread);
                            refusals.push(told(&refused, thread));
                        }
                        // The call was authorized: there is no such elicitation.
                        reason => assert!(reason == "ELICITATION_UNKNOWN" && rpc == "renew" && thread == OWN, "{case}"),
                    },
                }
            }
            assert!(
                refusals.windows(2).all(|two| two[0] == two[1]),
                "the refusal is the same whether the thread exists or not: {refusals:?}"
            );
        }
    }
    assert_eq!(other(&mut client).await, before, "the other thread is unchanged");
    for rpc in RPCS {
        for thread in [OWN, OTHER, NOBODYS] {
            let answer = call(&mut client, rpc, thread, &admin).await;
            let let_in = answer.as_ref().map_or_else(|refused| refused.code() == Code::NotFound, |_| true);
            assert!(let_in, "admin {rpc} {thread}: {answer:?}");
        }
    }
}

/// G8: a caller without a valid token learns why it is invalid, and nothing about any thread.
#[tokio::test]
async fn g8_every_token_that_is_none() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    call(&mut client, "increment", OWN, &[guarded.token(Role::Holder)]).await.unwrap();
    let holder = guarded.token(Role::Holder);
    let token = Token { subject: "s".into(), role: Role::Holder, threads: vec![OWN.into()], prefixes: vec![] };
    let signed = |signer: &Signer, now, ttl| format!("Bearer {}", signer.sign(&token, now, ttl).unwrap());
    let hour = Duration::from_secs(3_600);
    let mut for_another = Signer::from_pem(&Pair::generate().unwrap().private).unwrap();
    let stranger = signed(&for_another, now(), hour);
    for_another.audience = "another".into();
    let header = |header: &str| {
        let (_, rest) = holder.strip_prefix("Bearer ").unwrap().split_once('.').unwrap();
        format!("Bearer {}.{rest}", URL_SAFE_NO_PAD.encode(header))
    };
    let cases = [
        ("none at all", vec![], "TOKEN_MISSING"),
        ("unknown", vec!["Bearer a-secret-that-is-another".into()], "TOKEN_INVALID"),
        ("of another scheme", vec!["Basic a-secret-that-is-static".into()], "TOKEN_INVALID"),
        ("no token behind the scheme", vec!["Bearer".into()], "TOKEN_INVALID"),
        ("two", vec![holder.clone(), holder.clone()], "TOKEN_INVALID"),
        ("expired", vec![signed(&guarded.signer, now() - 2 * hour, hour)], "TOKEN_EXPIRED"),
        ("signed by a stranger", vec![stranger], "TOKEN_INVALID"),
        ("for another audience, of a stranger", vec![signed(&for_another, now(), hour)], "TOKEN_INVALID"),
        ("of no algorithm", vec![header(r#"{"alg":"none"}"#)], "TOKEN_INVALID"),
        ("of another algorithm", vec![header(r#"{"alg":"RS256"}"#)], "TOKEN_INVALID"),
        ("of an algorithm with a shared secret", vec![header(r#"{"alg":"HS256"}"#)], "TOKEN_INVALID"),
        ("cut", vec![holder[..holder.len() - 1].to_owned()], "TOKEN_INVALID"),
    ];
    for (what, authorization, expected) in cases {
        for rpc in RPCS {
            let mut refusals = Vec::new();
            for thread in [OWN, OTHER, NOBODYS] {
                let refused = call(&mut client, rpc, thread, &authorization).await.expect_err(what);
                assert_eq!(refused.code(), Code::Unauthenticated, "{what} {rpc}");
                assert_eq!(detail(&refused).0, expected, "{what} {rpc}: {refused:?}");
                refusals.push(told(&refused, thread));
            }
            assert!(refusals.iter().all(|told| *told == refusals[0] && !told.contains("THREAD")), "{refusals:?}");
        }
    }
    // Claims that only an authentic token can have wrong: the unit tests check each of them.
    let mut signer = guarded.signer;
    signer.audience = "another".into();
    let refused = call(&mut client, "get", OWN, &[signed(&signer, now(), hour)]).await.expect_err("another audience");
    assert!(detail(&refused).1["why"].contains("`aud`"), "{refused:?}");
}

#[tokio::test]
async fn a_prefix_opens_what_begins_with_it() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let token = [guarded.token_for(Role::Holder, &["x"], &["team/"], Duration::from_secs(3_600))];
    for thread in ["x", "team/", "team/a"] {
        call(&mut client, "increment", thread, &token).await.unwrap();
    }
    for thread in ["xx", "team", "tea", "Team/a"] {
        let refused = call(&mut client, "increment", thread, &token).await.expect_err(thread);
        assert_eq!(detail(&refused).0, "THREAD_FORBIDDEN");
    }
    call(&mut client, "increment", "zoo", &[guarded.token(Role::Admin)]).await.unwrap();
    for rpc in ["list", "watch all"] {
        let mut seen = call(&mut client, rpc, "", &token).await.unwrap();
        seen.sort();
        assert_eq!(seen, ["team/", "team/a", "x"], "{rpc}");
    }
}

/// A token that was revoked while the server was starting is refused for as long as the server runs.
#[tokio::test]
async fn g8_a_token_that_is_taken_back_during_the_start_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, entry("old")).unwrap();
    let access = AccessConfig { tokens: Some(tokens.clone()), ..AccessConfig::default() };
    let server = Server::start(Config { access: Some(access), ..config() }).await.unwrap();
    std::fs::write(&tokens, entry("new")).unwrap();
    let running = Running::of(server);
    let request = v1::WatchPauseStateRequest { thread_ids: vec![OWN.into()], ..Default::default() };
    let request = with(request, &["Bearer a-secret-that-is-old".to_owned()]);
    // A call that is accepted ends when the file is reloaded; if it is refused, the file was reloaded before.
    let refused = match running.api().await.0.watch_pause_state(request).await {
        Ok(watch) => {
            let mut watch = watch.into_inner();
            let end = async {
                loop {
                    if let Err(status) = watch.message().await {
                        break status;
                    }
                }
            };
            timed("the file to be read again", end).await
        }
        Err(refused) => refused,
    };
    assert_eq!(detail(&refused).0, "TOKEN_INVALID");
}

/// The Rust client, over TLS: which error it returns for each refusal.
#[tokio::test]
async fn refusals_name_the_missing_permission() {
    use pausewatch::client::{self, Error, GetPauseStateRequest, Tls};
    let directory = tempfile::tempdir().unwrap();
    let authority = crate::support::certs::Authority::new("one");
    let ca = authority.write(&directory.path().join("ca.crt"));
    let (cert, key) = authority.issue().write(directory.path(), "server");
    let tls = pausewatch::server::TlsFiles { cert, key, client_ca: None };
    let thread = pausewatch::test_support::core::types::ThreadId::parse("", OWN).unwrap();
    let grant = pausewatch::test_support::access::Grant::new(
        "s",
        Role::Watcher,
        pausewatch::test_support::core::scope::Scope::one(&thread),
    );
    let access = AccessConfig { given: vec![("a-token".into(), grant)], ..AccessConfig::default() };
    let running = Running::start(Config { tls: Some(tls), access: Some(access), ..config() }).await;
    let client = |token: Option<&str>| {
        let token = token.map(|token| client::Token::new(token).unwrap());
        let tls = Some(Tls::load(Some(&ca), None).unwrap());
        let address = running.address.parse().unwrap();
        client::Client::with_config(&client::Config { address, token, tls, ..Default::default() }).unwrap()
    };
    let get = |thread: &str| GetPauseStateRequest { thread_id: thread.into() };
    client(Some("a-token")).get_pause_state(get(OWN)).await.unwrap();
    let refused = client(Some("a-token")).get_pause_state(get(OTHER)).await.unwrap_err();
    assert!(matches!(&refused, Error::PermissionDenied(_)), "{refused:?}");
    for token in [None, Some("another")] {
        let refused = client(token).get_pause_state(get(OWN)).await.unwrap_err();
        assert!(matches!(&refused, Error::Unauthenticated(_)) && !refused.is_transient(), "{refused:?}");
    }
}

/// A Unix socket accepts one user, and not every program of that user may do everything.
#[tokio::test]
async fn a_unix_socket_wants_a_token_too() {
    let guarded = Guarded::start().await;
    let mut client = api(&format!("unix:{}", guarded.directory.path().join("p.sock").display())).await.0;
    let refused = call(&mut client, "get", OWN, &[]).await.expect_err("no token");
    assert_eq!(detail(&refused).0, "TOKEN_MISSING");
    call(&mut client, "get", OWN, &[guarded.token(Role::Watcher)]).await.unwrap();
}

#[tokio::test]
async fn health_is_open_to_all_and_reflection_to_who_has_a_token() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest,
    };
    let guarded = Guarded::start().await;
    let channel = Channel::from_shared(format!("http://{}", guarded.running.address)).unwrap().connect().await.unwrap();
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    let mut reflection = ServerReflectionClient::new(channel);
    for (authorization, is_let_in) in [(vec![], false), (vec![guarded.token(Role::Watcher)], true)] {
        let message_request = Some(MessageRequest::ListServices(String::new()));
        let ask = tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request });
        let answer = reflection.server_reflection_info(with(ask, &authorization)).await;
        assert_eq!(answer.map(|_| ()).map_err(|refused| refused.code()).is_ok(), is_let_in);
    }
}

#[tokio::test]
async fn g7_without_a_token_no_connection_is_in_the_way_of_those_who_have_one() {
    use pausewatch::test_support::quota::{LimitPair, Limits};
    const STRANGERS: [&str; 4] = [
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/pausewatch.v2.Unheard/Of",
    ];
    let token = vec!["Bearer a-long-secret".to_owned()];
    let given = vec![("a-long-secret".to_owned(), Grant::new("s", Role::Watcher, Scope::ALL))];
    let access = Some(AccessConfig { given, ..AccessConfig::default() });
    let places = STRANGERS.len() as u64;
    let connections = LimitPair { in_all: Some(places), per_caller: Some(places) };
    let limits = Limits { connections, ..Limits::default() };
    let running = Running::start(Config { access, limits, ..config() }).await;
    let mut strangers = Vec::new();
    for path in STRANGERS {
        let channel = channel(&running.address).await;
        let code = call_path(channel.clone(), path, &[]).await.err().map(|refused| refused.code());
        let expected = (!path.contains("Health")).then_some(Code::Unauthenticated);
        assert_eq!(code, expected, "{path}");
        strangers.push(channel);
    }
    let mut guests = Vec::new();
    for path in STRANGERS {
        let channel = channel(&running.address).await;
        let mut client = Client::new(channel.clone());
        call(&mut client, "get", OWN, &token).await.expect("a stranger gives way");
        let refused = call_path(channel, STRANGERS[3], &token).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{path}");
        guests.push(client);
    }
    let one_more = call(&mut running.api().await.0, "get", OWN, &token).await.expect_err("all have asked");
    assert_eq!(detail(&one_more).0, "LIMIT_EXCEEDED");
}

#[tokio::test]
async fn a_file_of_tokens_that_is_wrong_is_refused_at_the_start_by_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "\n[[token]]\nsubject = \"s\"\n").unwrap();
    let tokens = AccessConfig { tokens: Some(path.clone()), ..AccessConfig::default() };
    let keys = AccessConfig { jwt: Some(JwtConfig::new(&path)), ..AccessConfig::default() };
    for (access, why) in [(tokens, "--tokens"), (keys, "--jwt-keys")] {
        let refused =
            Server::start(Config { access: Some(access), ..config() }).await.map(|_| ()).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{why} {}: ", path.display())), "{refused}");
    }
}

/// If the role were missing, watchers could not distinguish an admin who ended a pause from the holder that did.
#[tokio::test]
async fn watchers_see_whether_an_admin_ended_a_pause() {
    let guarded = Guarded::start().await;
    let mut client = guarded.client().await;
    let [holder, admin] = [Role::Holder, Role::Admin].map(|role| [guarded.token(role)]);
    for (closers, expected) in [
        (&[&holder][..], v1::PauseEnd::Decremented),
        (&[&admin], v1::PauseEnd::Released),
        (&[&admin, &holder], v1::PauseEnd::Decremented),
        (&[&holder, &admin], v1::PauseEnd::Released),
    ] {
        for _ in closers {
            call(&mut client, "increment", OWN, &holder).await.unwrap();
        }
        for (i, closer) in closers.iter().enumerate() {
            let request = with(v1::GetPauseStateRequest { thread_id: OWN.into() }, &holder);
            let state = client.get_pause_state(request).await.unwrap().into_inner().pause_state.unwrap();
            assert_eq!(state.last_pause_end(), v1::PauseEnd::Unspecified, "{i} are closed: it is paused");
            call(&mut client, "decrement", OWN, *closer).await.unwrap();
        }
        let request = with(v1::GetPauseStateRequest { thread_id: OWN.into() }, &holder);
        let state = client.get_pause_state(request).await.unwrap().into_inner().pause_state.unwrap();
        assert_eq!(state.last_pause_end(), expected);
        let request = with(v1::ListPausesRequest { page_size: 1, ..Default::default() }, &holder);
        let pause = client.list_pauses(request).await.unwrap().into_inner().pauses.remove(0);
        let ends: Vec<_> = pause.elicitations.iter().map(|closed| closed.ended_by()).collect();
        let by = |closer: &&[String; 1]| match **closer == admin {
            true => v1::PauseEnd::Released,
            false => v1::PauseEnd::Decremented,
        };
        assert_eq!((pause.ended_by(), ends), (expected, closers.iter().map(by).collect()));
    }
}
