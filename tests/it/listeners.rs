//! The addresses that the server listens on, who may connect, and the other services on the port: health and
//! reflection.
use crate::support::{Running, api, config, embedded, skipped, timed, unix};
use pausewatch::server::{Config, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::Endpoint;

const SERVICE: &str = "pausewatch.v1.ElicitationService";

async fn refusal(config: Config) -> String {
    match timed("start", Server::start(config)).await {
        Ok(server) => panic!("the server must refuse to listen on {:?}", server.addresses()),
        Err(error) => error.to_string(),
    }
}

fn on(addresses: &[&str]) -> Config {
    Config { listen: addresses.iter().map(|address| address.parse().expect("an address")).collect(), ..config() }
}

#[tokio::test]
async fn one_state_is_served_on_tcp_and_on_a_unix_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p.sock");
    let server = Server::start(on(&["127.0.0.1:0", "[::1]:0", &format!("unix:{}", path.display())])).await;
    let server = server.expect("it starts");
    let addresses = server.addresses();
    assert!(addresses.iter().all(|address| !address.ends_with(":0")), "a port was given: {addresses:?}");
    let running = Running::of(server);
    let mode = std::fs::metadata(&path).expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "no other user may connect");
    for (i, address) in addresses.iter().enumerate() {
        let answer = api(address).await.increment("t", None).await;
        assert_eq!(answer.count as usize, i + 1, "by {address}");
    }
    running.stop().await.expect("it ends");
    assert!(!path.exists(), "the server must remove its own socket file");
}

/// A fleet of clients that reconnects at once. Most servers allow a backlog of 1,024.
#[tokio::test]
async fn two_thousand_connections_can_wait_to_be_accepted() {
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux says so");
    let waiting = somaxconn.trim().parse().map_or(2_000, |most: usize| most.min(2_000));
    let files = getrlimit(Resource::Nofile).maximum;
    if files.is_some_and(|files| files < 4_000) {
        return skipped("files", format!("this process may have {files:?} files"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files }).expect("below the maximum");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p.sock");
    // It listens, but accepts nothing, because its runtime does not run.
    let server = Server::start(on(&["127.0.0.1:0", &format!("unix:{}", path.display())])).await.expect("it starts");
    let address = server.addresses()[0].clone();
    let mut connected = Vec::new();
    for _ in 0..waiting {
        connected.push(timed("a connection over TCP", TcpStream::connect(&address)).await.expect("it waits"));
    }
    drop(connected);
    let mut connected = Vec::new();
    for _ in 0..waiting {
        connected.push(timed("a connection over the socket", UnixStream::connect(&path)).await.expect("it waits"));
    }
}

/// G8: plaintext on other addresses than loopback requires an option.
#[tokio::test]
async fn plain_text_off_loopback_is_refused_unless_insecure() {
    let refused = refusal(on(&["0.0.0.0:0"])).await;
    assert!(refused.contains("--insecure") && refused.contains("loopback"), "{refused}");
    let running = Running::start(Config { insecure: true, ..on(&["0.0.0.0:0"]) }).await;
    let port = running.address.rsplit_once(':').expect("it has a port").1;
    api(&format!("127.0.0.1:{port}")).await.increment("t", None).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_refused_with_what_to_do() {
    let running = Running::start(config()).await;
    let refused = refusal(on(&[&running.address])).await;
    assert!(refused.contains(&running.address) && refused.contains("another program listens"), "{refused}");
    running.api().await.increment("t", None).await;
}

#[tokio::test]
async fn a_live_socket_is_refused_and_a_dead_one_is_taken_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p.sock");
    let config = || Config { listen: vec![unix(&path)], ..config() };
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "a server that was killed leaves its socket file");
    let running = Running::start(config()).await;
    let refused = refusal(config()).await;
    assert!(refused.contains("another program listens"), "{refused}");
    running.api().await.increment("t", None).await;
    running.stop().await.expect("it ends");
    Running::start(config()).await.api().await.increment("t", None).await;
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notes");
    std::fs::write(&path, "precious").expect("written");
    let refused = refusal(Config { listen: vec![unix(&path)], ..config() }).await;
    assert!(refused.contains("not a socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "precious");
}

#[tokio::test]
async fn a_server_that_cannot_listen_gives_the_store_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = Running::start(config()).await;
    let listen = vec![taken.address.parse().expect("an address")];
    refusal(Config { listen, ..embedded(directory.path()) }).await;
    Running::start(embedded(directory.path())).await.api().await.increment("t", None).await;
}

/// G7: a connection that does not use gRPC, or stops half-way, does not disturb others.
#[tokio::test]
async fn garbage_and_incomplete_requests_do_not_affect_other_clients() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let running = Running::start(config()).await;
    let mut api = running.api().await;
    let mut half_open = Vec::new();
    let huge_frame = [PREFACE, &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    // HEADERS with invalid HPACK; then HEADERS that never end.
    let bad_headers = [PREFACE, SETTINGS, &[0, 0, 4, 1, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]].concat();
    let half_headers = [PREFACE, SETTINGS, &[0, 0, 4, 1, 0, 0, 0, 0, 1, 0x82]].concat();
    let sent: [&[u8]; 7] =
        [b"", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 5_000], &PREFACE[..9], &huge_frame, &bad_headers, &half_headers];
    for bytes in sent.iter().cycle().take(70) {
        let mut connection = TcpStream::connect(&running.address).await.expect("it is taken");
        connection.write_all(bytes).await.expect("it is taken");
        half_open.push(connection);
    }
    for count in 1..=20 {
        assert_eq!(api.increment("t", None).await.count, count);
    }
    // Connections that cannot become valid requests are closed.
    for (connection, bytes) in half_open.iter_mut().zip(sent.iter().cycle()) {
        if *bytes == huge_frame || *bytes == bad_headers || bytes.starts_with(b"GET") || bytes.starts_with(&[0xff]) {
            let mut rest = Vec::new();
            let _ = timed("the end of a bad connection", connection.read_to_end(&mut rest)).await;
        }
    }
    assert_eq!(running.api().await.increment("t", None).await.count, 21);
}

#[tokio::test]
async fn health_says_serving_for_the_server_and_for_the_service() {
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
    let running = Running::start(config()).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).expect("an address");
    let mut health = HealthClient::new(endpoint.connect().await.expect("it connects"));
    for service in ["", SERVICE] {
        let request = HealthCheckRequest { service: service.into() };
        let status = health.check(request).await.expect("it is known").into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    let unknown = health.check(HealthCheckRequest { service: "nobody".into() }).await.expect_err("it is not known");
    assert_eq!(unknown.code(), tonic::Code::NotFound);
}

/// grpcurl uses one version of reflection, older tools the other; both describe every service of the port, and the
/// details of errors.
macro_rules! reflection_knows {
    ($version:ident: $name:ident, $unknown:ident) => {
        #[tokio::test]
        async fn $name() {
            use prost::Message;
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };
            let running = Running::start(config()).await;
            let endpoint = Endpoint::from_shared(format!("http://{}", running.address)).expect("an address");
            let mut client = ServerReflectionClient::new(endpoint.connect().await.expect("it connects"));
            let symbols = [SERVICE, "pausewatch.v1.PauseState", "grpc.health.v1.Health", "google.rpc.ErrorInfo"];
            let ask = |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
            let mut requests = vec![ask(MessageRequest::ListServices(String::new()))];
            requests.extend(symbols.map(|symbol| ask(MessageRequest::FileContainingSymbol(symbol.into()))));
            let answers = client.server_reflection_info(tokio_stream::iter(requests)).await.expect("it is served");
            let mut answers = answers.into_inner();
            let Some(MessageResponse::ListServicesResponse(listed)) =
                answers.message().await.expect("answered").expect("answered").message_response
            else {
                panic!("services are listed");
            };
            let names: Vec<_> = listed.service.iter().map(|service| service.name.as_str()).collect();
            assert!(names.contains(&SERVICE) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
            for symbol in symbols {
                let Some(MessageResponse::FileDescriptorResponse(found)) =
                    answers.message().await.expect("answered").expect("answered").message_response
                else {
                    panic!("{symbol} is described");
                };
                let file = prost_types::FileDescriptorProto::decode(&found.file_descriptor_proto[0][..]);
                let file = file.expect("a descriptor");
                assert!(symbol.starts_with(file.package()), "{symbol}");
                // Including the comments, which grpcurl shows.
                let built = prost_types::FileDescriptorSet::decode(pausewatch::proto::DESCRIPTORS).expect("built");
                let built = built.file.into_iter().find(|built| built.name() == file.name());
                assert_eq!(built.is_some(), symbol.starts_with("pausewatch."), "{symbol}");
                assert!(built.is_none_or(|built| built == file && built.source_code_info.is_some()), "{symbol}");
            }
        }

        #[tokio::test]
        async fn $unknown() {
            use tonic_reflection::pb::$version::{
                ExtensionRequest, ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };
            let running = Running::start(config()).await;
            let mut client = ServerReflectionClient::new(crate::support::channel(&running.address).await);
            let (requests, sent) = tokio::sync::mpsc::channel(1);
            let sent = tokio_stream::wrappers::ReceiverStream::new(sent);
            let mut answers = client.server_reflection_info(sent).await.expect("it is served").into_inner();
            let symbol = |name: &str| Some(MessageRequest::FileContainingSymbol(name.to_owned()));
            let unheard = ExtensionRequest { containing_type: "pausewatch.v1.PauseState".into(), extension_number: -1 };
            let not_found = tonic::Code::NotFound as i32;
            let cases = [
                (symbol("pausewatch.v1.Unheard"), Err(not_found)),
                (symbol("pausewatch.v1.PauseState.count"), Ok(())),
                (symbol("pausewatch.v1.PauseState.unheard"), Err(not_found)),
                (symbol("pausewatch.v1.ElicitationService.Watch"), Ok(())),
                (symbol("pausewatch.v1.PauseEnd"), Ok(())),
                (symbol(""), Err(not_found)),
                (Some(MessageRequest::FileByFilename("unheard.proto".into())), Err(not_found)),
                (Some(MessageRequest::FileByFilename("google/protobuf/duration.proto".into())), Ok(())),
                (Some(MessageRequest::FileContainingExtension(unheard)), Err(not_found)),
                (Some(MessageRequest::AllExtensionNumbersOfType("Unheard".into())), Err(not_found)),
                (Some(MessageRequest::AllExtensionNumbersOfType("pausewatch.v1.PauseState".into())), Ok(())),
                (None, Err(tonic::Code::InvalidArgument as i32)),
                (Some(MessageRequest::ListServices(String::new())), Ok(())),
            ];
            for (message_request, expected) in cases {
                let request = ServerReflectionRequest { host: "h".to_owned(), message_request };
                requests.send(request.clone()).await.expect("the stream goes on");
                let answer = timed("an answer", answers.message()).await.expect("answered").expect("answered");
                assert_eq!((&*answer.valid_host, answer.original_request.as_ref()), ("h", Some(&request)));
                let answered = match answer.message_response.expect("a response") {
                    MessageResponse::ErrorResponse(error) => Err(error.error_code),
                    _ => Ok(()),
                };
                assert_eq!(answered, expected, "{request:?}");
            }
            drop(requests);
            assert!(timed("the end", answers.message()).await.expect("it ends well").is_none());
        }
    };
}

reflection_knows!(v1: reflection_v1_describes_every_service, reflection_v1_answers_what_is_unknown_and_goes_on);
reflection_knows!(v1alpha: reflection_v1alpha_describes_every_service, reflection_v1alpha_answers_what_is_unknown_and_goes_on);
