//! TLS and tokens of the client, against a server with certificates made for the test.
use crate::fake::Fake;
use crate::program::{ended, program};
use crate::support::certs::{Authority, Issued};
use crate::support::{PATIENCE, timed};
use pausewatch::client::{Address, Client, Config, Error, GetPauseStateRequest, Settings, Tls, Token};
use pausewatch::proto::v1::elicitation_service_server::ElicitationServiceServer;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

/// A server that requires a client certificate, and the files that a client needs.
struct Secured {
    address: Address,
    directory: TempDir,
    authorizations: Arc<Mutex<Vec<Option<String>>>>,
}

impl Secured {
    async fn start() -> Self {
        Self::start_as(self_signed()).await
    }

    async fn start_as(server: Issued) -> Self {
        let directory = tempfile::tempdir().unwrap();
        server.write(directory.path(), "server");
        let client = self_signed();
        client.write(directory.path(), "client");
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(server.cert, server.key))
            .client_ca_root(Certificate::from_pem(client.cert));
        let authorizations = Arc::<Mutex<Vec<_>>>::default();
        let seen = authorizations.clone();
        let look = move |request: Request<()>| {
            let value = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
            seen.lock().unwrap().push(value);
            Ok::<_, Status>(request)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
        let service = ElicitationServiceServer::with_interceptor(Fake::start(), look);
        let served = Server::builder().tls_config(tls).unwrap().add_service(service);
        tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, directory, authorizations }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn client(&self, tls: Option<Tls>, token: Option<&str>) -> Client {
        let (address, token) = (self.address.clone(), token.map(|token| Token::new(token).unwrap()));
        let config = Config { address, deadline: PATIENCE, retries: 0, token, tls, ..Config::default() };
        Client::with_config(&config).unwrap()
    }
}

/// In the error of a handshake that has taken too long, as on a busy machine.
const LATE: &str = "no TLS handshake within";

/// Makes a call, again if the handshake is late.
async fn call(client: &Client) -> Result<(), Error> {
    let calls = async {
        loop {
            match client.get_pause_state(get()).await {
                Err(error) if error.to_string().contains(LATE) => {}
                answer => break answer.map(drop),
            }
        }
    };
    timed("a handshake", calls).await
}

fn self_signed() -> Issued {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Issued { cert: cert.pem(), key: signing_key.serialize_pem() }
}

fn get() -> GetPauseStateRequest {
    GetPauseStateRequest { thread_id: "t".into() }
}

#[tokio::test]
async fn mutual_tls_and_a_token_reach_the_server() {
    let server = Secured::start().await;
    let (ca, cert, key) = (server.file("server.crt"), server.file("client.crt"), server.file("client.key"));
    let tls = Tls::load(Some(&ca), Some((&cert, &key))).unwrap();
    let [ca, cert, key] = [ca, cert, key].map(|file| std::fs::read_to_string(file).unwrap());
    let of_texts = Tls::from_pem(Some(&ca), Some((&cert, &key))).unwrap();
    let client = server.client(Some(tls), Some("s3cret"));
    call(&client).await.unwrap();
    let mut watch = client.watch();
    watch.add("t").unwrap();
    watch.next().await;
    call(&server.client(Some(of_texts), None)).await.unwrap();
    let bearer = Some("Bearer s3cret".to_owned());
    assert_eq!(*server.authorizations.lock().unwrap(), [bearer.clone(), bearer, None]);
}

#[tokio::test]
async fn unknown_certificates_are_refused_on_both_sides() {
    let server = Secured::start().await;
    let unknown_client =
        server.client(Some(Tls::load(Some(&server.file("server.crt")), None).unwrap()), Some("s3cret"));
    let unknown_server =
        server.client(Some(Tls::load(Some(&server.file("client.crt")), None).unwrap()), Some("s3cret"));
    for client in [unknown_client, unknown_server] {
        let error = call(&client).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    assert!(server.authorizations.lock().unwrap().is_empty(), "no call reached the server");
}

/// Certificates as `openssl req -x509` makes them.
#[tokio::test]
async fn a_ca_certificate_is_refused_as_a_server_certificate_with_a_hint() {
    let server = Secured::start_as(Authority::new("localhost").itself()).await;
    let (ca, cert, key) = (server.file("server.crt"), server.file("client.crt"), server.file("client.key"));
    let client = server.client(Some(Tls::load(Some(&ca), Some((&cert, &key))).unwrap()), None);
    let error = call(&client).await.unwrap_err();
    assert!(error.to_string().ends_with("have it made with basicConstraints=critical,CA:FALSE"), "{error}");
}

#[tokio::test]
async fn the_program_reads_credentials_from_flags_environment_and_config_file() {
    let server = Secured::start().await;
    let path = |name: &str| server.file(name).into_os_string().into_string().unwrap();
    let (address, ca, cert, key) =
        (server.address.to_string(), path("server.crt"), path("client.crt"), path("client.key"));
    let config = server.file("config.toml");
    let file = format!("thread_id = \"t\"\naddress = {address:?}\ntls_ca = {ca:?}\ntls_cert = {cert:?}\n");
    std::fs::write(&config, file).unwrap();
    let mut command = program();
    command.args(["get", "--token", "flag", "--config"]).arg(&config).env("PAUSEWATCH_TLS_KEY", &key);
    command.env("PAUSEWATCH_TOKEN", "environment");
    let answered = tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap();
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert_eq!(*server.authorizations.lock().unwrap(), [Some("Bearer flag".to_owned())]);
}

#[tokio::test]
async fn a_failed_handshake_says_what_to_do() {
    let server = Secured::start().await;
    for words in [&["get", "--thread-id", "t"][..], &["health"]] {
        let address = server.address.to_string();
        let once = || {
            let mut command = program();
            command.args(words).args(["--address", &address]);
            async move { tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap().err }
        };
        let calls = async {
            loop {
                let said = once().await;
                // The second one if the call has no answer after several handshakes.
                if ![LATE, "no answer within"].iter().any(|late| said.contains(late)) {
                    break said;
                }
            }
        };
        let said = timed("a handshake", calls).await;
        assert!(said.contains("UnknownIssuer; name the file of its authority with tls_ca"), "{said}");
        assert!(!said.contains("pausewatch serve"), "there is a server, so the advice to start one is wrong: {said}");
    }
}

#[test]
fn conflicting_credentials_are_refused_before_a_connection() {
    let get = |args: &[&str]| ended(program().args(["get", "--thread-id", "t"]).args(args));
    for (args, why) in [
        (&["--address", "example.com:1", "--token", "s3cret"][..], "plain text"),
        (&["--address", "127.0.0.1:1", "--tls-ca", "Cargo.toml"], "need an address that begins with https://"),
        (
            &["--address", "https://h:1", "--tls-ca", "Cargo.toml"],
            "tls_ca Cargo.toml: it contains no certificate in PEM format",
        ),
        (&["--address", "https://h:1", "--tls-cert", "x"], "tls_cert needs tls_key"),
        (&["--token", "two words"], "a character that no token has"),
    ] {
        let refused = get(args);
        assert!(refused.code == Some(2) && refused.err.contains(why), "{args:?}: {refused:?}");
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
    }
    let missing = Settings::from_env_and(Some(Path::new("/proc/nonexistent.toml"))).unwrap_err().to_string();
    assert!(missing.starts_with("config file /proc/nonexistent.toml: No such file"), "{missing}");
}

/// Programs that `run` starts find its coordinator with the same credentials, and get no credentials of another one.
#[test]
fn a_command_inherits_the_settings_of_its_coordinator() {
    let show = "echo [$(echo ${PAUSEWATCH_TOKEN-unset} | cut -c 1-11)] [${PAUSEWATCH_TLS_CA-unset}]";
    let run = |args: &[&str]| {
        let mut command = program();
        command.arg("run").args(args).args(["600s", "sh", "-c", show]).env("PAUSEWATCH_TOKEN", "environment");
        ended(&mut command).out
    };
    assert!(run(&[]).starts_with("[pw_"), "a private coordinator has its own token: {}", run(&[]));
    assert_eq!(run(&["--address", "127.0.0.1:1"]), "[environment] [unset]\n");
    assert_eq!(run(&["--address", "127.0.0.1:1", "--token", "flag"]), "[flag] [unset]\n");
}

/// As a server that hangs: the kernel still accepts its connections.
#[tokio::test]
async fn a_silent_server_does_not_keep_the_connection() {
    let server = Secured::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let relayed = server.address.to_string().strip_prefix("https://").unwrap().to_owned();
    tokio::spawn(async move {
        let (_first, _) = silent.accept().await.unwrap();
        loop {
            let (mut near, _) = silent.accept().await.unwrap();
            let mut far = TcpStream::connect(&relayed).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let (cert, key) = (server.file("client.crt"), server.file("client.key"));
    let tls = Some(Tls::load(Some(&server.file("server.crt")), Some((&cert, &key))).unwrap());
    let address = format!("https://localhost:{port}").parse().unwrap();
    let deadline = Duration::from_secs(60);
    let client = Client::with_config(&Config { address, deadline, tls, ..Config::default() }).unwrap();
    client.get_pause_state(get()).await.unwrap();
}
