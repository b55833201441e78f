//! TLS of the server (G8): which clients are accepted, certificates that are replaced while it runs, and the cost of
//! clients that do not complete the handshake.
use crate::program::{Process, program};
use crate::support::certs::Authority;
use crate::support::{Running, config, timed};
use pausewatch::client::{Client, Config, Error, GetPauseStateRequest, IncrementElicitationRequest, Tls};
use pausewatch::server::{self, Server, StartError, TlsFiles};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A directory with an authority and a server certificate from it.
struct Files {
    directory: TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap(), authority: Authority::new("one") };
        files.authority.write(&files.path("ca.crt"));
        files.authority.issue().write(files.directory.path(), "server");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tls(&self) -> TlsFiles {
        TlsFiles { cert: self.path("server.crt"), key: self.path("server.key"), client_ca: None }
    }

    /// A client that trusts the authority in file `ca`.
    fn client(&self, address: &str, ca: &str, identity: Option<&str>) -> Client {
        let identity = identity.map(|name| (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key"))));
        let identity = identity.as_ref().map(|(cert, key)| (cert.as_path(), key.as_path()));
        let tls = Tls::load(Some(&self.path(ca)), identity).unwrap();
        let address = address.parse().unwrap();
        Client::with_config(&Config { address, retries: 0, tls: Some(tls), ..Config::default() }).unwrap()
    }
}

fn served(tls: TlsFiles) -> server::Config {
    server::Config { tls: Some(tls), ..config() }
}

async fn get(client: &Client) -> Result<u32, Error> {
    let request = GetPauseStateRequest { thread_id: "t".into() };
    Ok(timed("get", client.get_pause_state(request)).await?.pause_state.unwrap().count)
}

#[tokio::test]
async fn g8_tls_is_served_off_loopback_and_plain_text_is_not() {
    let files = Files::new();
    let listen = vec!["0.0.0.0:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()];
    let server = Server::start(server::Config { listen, ..served(files.tls()) }).await.unwrap();
    let addresses = server.addresses();
    let running = Running::of(server);
    assert!(running.address.starts_with("https://0.0.0.0:"), "{addresses:?}");
    let port = running.address.rsplit_once(':').unwrap().1.to_owned();
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(get(&files.client(&format!("https://{host}:{port}"), "ca.crt", None)).await.unwrap(), 0);
    }
    assert_eq!(get(&files.client(&addresses[1], "ca.crt", None)).await.unwrap(), 0);
    let plain = addresses[1].strip_prefix("https://").unwrap().parse().unwrap();
    let plain = Client::with_config(&Config { address: plain, retries: 0, ..Config::default() }).unwrap();
    assert!(matches!(get(&plain).await, Err(Error::Unavailable(_))), "plaintext is refused on loopback too");
    running.stop().await.unwrap();
}

/// If the connection were closed with unread bytes, it would be reset, and the alert might be lost.
#[tokio::test]
async fn a_client_without_tls_gets_an_alert_however_much_it_sends() {
    let files = Files::new();
    let running = Running::start(served(files.tls())).await;
    let address = running.address.strip_prefix("https://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[b'x'; 256 << 10]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timed("the end", stream.read_to_end(&mut answer)).await.unwrap();
    let fatal_alert = [21, 3, 3, 0, 2, 2];
    assert!(answer.len() == 7 && answer.starts_with(&fatal_alert), "{answer:?} (RFC 8446, 5.1 and 6)");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn g8_mutual_tls_lets_in_only_who_has_a_certificate_of_the_authority() {
    let files = Files::new();
    let (clients, others) = (Authority::new("clients"), Authority::new("others"));
    clients.issue().write(files.directory.path(), "client");
    others.issue().write(files.directory.path(), "stranger");
    let client_ca = Some(clients.write(&files.path("clients.crt")));
    let running = Running::start(served(TlsFiles { client_ca, ..files.tls() })).await;
    for (identity, is_in) in [(Some("client"), true), (None, false), (Some("stranger"), false), (Some("server"), false)]
    {
        let answer = get(&files.client(&running.address, "ca.crt", identity)).await;
        assert_eq!(answer.is_ok(), is_in, "{identity:?}: {answer:?}");
        assert!(is_in || matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
}

/// Whether the second connection of a client resumes the session of the first one.
async fn resumes(files: &Files, address: &str, identity: Option<&str>) -> bool {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore, crypto::ring};
    let certificates = |name: &str| -> Vec<_> {
        CertificateDer::pem_file_iter(files.path(name)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates("ca.crt"));
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(files.path(&format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(certificates(&format!("{name}.crt")), key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let tcp = TcpStream::connect(address.strip_prefix("https://").unwrap()).await.unwrap();
        let mut stream = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
        kinds.push(stream.get_ref().1.handshake_kind());
        // Tickets come before the first frame of the server.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        timed("the settings of the server", stream.read_exact(&mut [0; 9])).await.unwrap();
    }
    assert_eq!(kinds[0], Some(HandshakeKind::Full));
    kinds[1] == Some(HandshakeKind::Resumed)
}

/// A resumed session shows no certificate: one that has expired meanwhile would still get in.
#[tokio::test]
async fn g8_a_session_of_mutual_tls_is_never_resumed() {
    let files = Files::new();
    let clients = Authority::new("clients");
    clients.issue().write(files.directory.path(), "client");
    let client_ca = Some(clients.write(&files.path("clients.crt")));
    for (client_ca, identity, is_resumed) in [(None, None, true), (client_ca, Some("client"), false)] {
        let running = Running::start(served(TlsFiles { client_ca, ..files.tls() })).await;
        assert_eq!(resumes(&files, &running.address, identity).await, is_resumed, "{identity:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn invalid_files_prevent_the_start_and_are_named_with_their_option() {
    let files = Files::new();
    Authority::new("other").issue().write(files.directory.path(), "other");
    std::fs::write(files.path("text"), "no PEM").unwrap();
    let cases = [
        (TlsFiles { cert: files.path("missing"), ..files.tls() }, "--tls-cert", "missing: No such file"),
        (
            TlsFiles { cert: files.path("text"), ..files.tls() },
            "--tls-cert",
            "text: it contains no certificate in PEM format",
        ),
        (TlsFiles { cert: files.path("server.key"), ..files.tls() }, "--tls-cert", "it contains no certificate"),
        (TlsFiles { key: files.path("server.crt"), ..files.tls() }, "--tls-key", "no unencrypted private key"),
        (TlsFiles { key: files.path("other.key"), ..files.tls() }, "--tls-key", "other.key: "),
        (
            TlsFiles { client_ca: Some(files.path("text")), ..files.tls() },
            "--tls-client-ca",
            "it contains no certificate",
        ),
    ];
    for (tls, flag, why) in cases {
        let Err(StartError::Security(refused)) = Server::start(served(tls)).await.map(|_| ()) else { panic!("{why}") };
        assert!(refused.contains(flag) && refused.contains(why), "{refused}");
    }
}

/// G7: a client that does not complete the handshake does not disturb others, and the server does not wait for it.
#[tokio::test]
async fn g7_incomplete_handshakes_and_garbage_do_not_affect_other_clients() {
    let files = Files::new();
    let running = Running::start(served(files.tls())).await;
    let host = running.address.strip_prefix("https://").unwrap();
    let client = files.client(&running.address, "ca.crt", None);
    get(&client).await.unwrap();
    // A record that announces a ClientHello longer than itself; no record; HTTP/2 without TLS.
    let sent: [&[u8]; 4] =
        [b"", &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0xff; 5_000]];
    let mut connections = Vec::new();
    for bytes in sent.iter().cycle().take(2_200) {
        let mut connection = TcpStream::connect(host).await.unwrap();
        // The server closes the connection during invalid input.
        let _ = connection.write_all(bytes).await;
        connections.push(connection);
    }
    get(&client).await.unwrap();
    get(&files.client(&running.address, "ca.crt", None)).await.unwrap();
    // There are more connections than may be in the handshake: the oldest were closed.
    let mut byte = [0];
    let closed = connections[0].read(&mut byte);
    let closed = tokio::time::timeout(std::time::Duration::from_secs(5), closed).await.expect("sooner than its time");
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
}

/// The clock advances by itself as soon as all tasks wait.
#[tokio::test(start_paused = true)]
async fn g7_a_handshake_has_its_time() {
    let files = Files::new();
    let running = Running::start(served(files.tls())).await;
    let mut silent = TcpStream::connect(running.address.strip_prefix("https://").unwrap()).await.unwrap();
    // After 10 s; on a busy machine the clock may advance before the end of the connection arrives.
    let closed = tokio::time::timeout(std::time::Duration::from_secs(40), silent.read(&mut [0])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
}

/// As certbot and Kubernetes do it: a symbolic link is pointed to a new directory.
#[tokio::test]
async fn a_new_certificate_is_served_and_connections_go_on() {
    let files = Files::new();
    let second = Authority::new("two");
    second.write(&files.path("ca-two.crt"));
    let (first_directory, second_directory) = (files.path("first"), files.path("second"));
    for (directory, authority) in [(&first_directory, &files.authority), (&second_directory, &second)] {
        std::fs::create_dir(directory).unwrap();
        authority.issue().write(directory, "server");
    }
    let link = files.path("live");
    let turn = |to: &Path| {
        std::os::unix::fs::symlink(to, files.path("new")).unwrap();
        std::fs::rename(files.path("new"), &link).unwrap();
    };
    turn(&first_directory);
    let tls = TlsFiles { cert: link.join("server.crt"), key: link.join("server.key"), client_ca: None };
    let server = Server::start(served(tls)).await.unwrap();
    let reload = server.reload();
    let running = Running::of(server);
    let old = files.client(&running.address, "ca.crt", None);
    get(&old).await.unwrap();
    let mut watch = old.watch();
    watch.add("t").unwrap();
    timed("the first state", watch.next()).await;

    turn(&second_directory);
    reload.now();
    let served_anew = async {
        while get(&files.client(&running.address, "ca-two.crt", None)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timed("the new certificate", served_anew).await;
    assert!(
        get(&files.client(&running.address, "ca.crt", None)).await.is_err(),
        "the old certificate is no longer served"
    );
    let request = IncrementElicitationRequest { thread_id: "t".into(), ..Default::default() };
    assert_eq!(
        timed("increment", old.increment_elicitation(request)).await.unwrap().count,
        1,
        "the old connection still works"
    );
    timed("the change", watch.next()).await;
    running.stop().await.unwrap();
}

#[test]
fn the_program_serves_tls_and_reads_its_files_again_on_sighup_and_on_change() {
    let files = Files::new();
    let text = |name: &str| files.path(name).into_os_string().into_string().unwrap();
    let mut command = program();
    command.args(["serve", "--store", "memory", "--listen", "127.0.0.1:0", "--tls-cert", &text("server.crt")]);
    command.args(["--tls-key", &text("server.key")]).env("RUST_LOG", "info,pausewatch=debug");
    let process = Process::start(command);
    let address = process.line().strip_prefix("listening ").unwrap().to_owned();
    assert!(address.starts_with("https://127.0.0.1:"), "{address}");
    let mut get = program();
    get.args(["get", "--thread-id", "t", "--address", &address, "--tls-ca", &text("ca.crt")]);
    assert_eq!(crate::program::ended(&mut get).code, Some(0));
    for command in [&["get", "--thread-id", "t"][..], &["health"], &["health", "--fleet"]] {
        let mut plain = program();
        plain.args(command).args(["--address", address.strip_prefix("https://").unwrap()]);
        let refused = crate::program::ended(&mut plain);
        let says_why = [&refused.out, &refused.err].iter().any(|text| text.contains("begins with https://"));
        assert!(refused.code == Some(1) && says_why, "{refused:?}");
    }
    let says = |what: &str| while !process.error_line().contains(what) {};
    process.signal(Signal::HUP);
    says("reloaded");
    std::fs::write(files.path("server.crt"), "half of").unwrap();
    says("still using the previous files");
    assert_eq!(crate::program::ended(&mut get).code, Some(0), "the old certificate is still used");
    files.authority.issue().write(files.directory.path(), "server");
    says("reloaded");
    process.signal(Signal::TERM);
    assert_eq!(process.end().code, Some(0));
}

#[test]
fn a_hangup_does_not_end_a_server_that_has_no_files() {
    let mut command = program();
    command.args(["serve", "--store", "memory", "--listen", "127.0.0.1:0"]);
    let process = Process::start(command);
    process.line();
    process.signal(Signal::HUP);
    while !process.error_line().contains("no files to reload") {}
    process.signal(Signal::TERM);
    assert_eq!(process.end().code, Some(0));
}

#[test]
fn half_of_the_flags_is_refused() {
    for args in [&["--tls-cert", "x"][..], &["--tls-key", "x"], &["--tls-client-ca", "x"]] {
        let refused = crate::program::ended(program().arg("serve").args(args));
        assert!(refused.code == Some(2) && refused.err.contains("--tls-"), "{refused:?}");
    }
    // A certificate that only the environment names must not be ignored silently.
    let mut command = program();
    let refused = crate::program::ended(command.arg("serve").env("PAUSEWATCH_SERVE_TLS_CERT", "x"));
    assert!(refused.code == Some(2) && refused.err.contains("--tls-key"), "{refused:?}");
    let wrong =
        ["serve", "--store", "memory", "--tls-cert", "/proc/nonexistent.pem", "--tls-key", "/proc/nonexistent.pem"];
    let refused = crate::program::ended(program().args(wrong));
    assert!(
        refused.code == Some(1) && refused.err.contains("--tls-cert /proc/nonexistent.pem: No such file"),
        "{refused:?}"
    );
}
