//! Client certificates that are renewed on disk while the client runs.
use crate::exec_server::{self, client::exec_server};
use crate::program::{Coordinator, Process, program};
use crate::support::certs::Authority;
use crate::support::{PATIENCE, Port, timed};
use pausewatch::client::{Client, Config, Event, GetPauseStateRequest, Tls};
use pausewatch::stopwatch::{Stopwatch, StopwatchController};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

/// The files of a server that requires client certificates, and those of its clients.
struct Site {
    directory: tempfile::TempDir,
    port: Port,
}

impl Site {
    fn of(authority: &Authority) -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap(), port: Port::reserve().unwrap() };
        site.renew("server", authority);
        site.renew("client", authority);
        site
    }

    fn renew(&self, name: &str, authority: &Authority) {
        authority.write(&self.file(&format!("{name}-ca.crt")));
        authority.issue().write(self.directory.path(), name);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn serve(&self) -> Coordinator {
        let listen = self.port.address.to_string();
        let [cert, key, ca] = ["server.crt", "server.key", "server-ca.crt"].map(|name| self.file(name));
        let [cert, key, ca] = [&cert, &key, &ca].map(|path| path.to_str().unwrap());
        let tls = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca];
        let [a, b, c, d, e, f] = tls;
        Coordinator::start_with(["--store", "memory", "--listen", &listen, a, b, c, d, e, f])
    }

    /// Stops the server, and starts another one at the same address with the current files.
    fn restart(&self, server: Coordinator) -> Coordinator {
        server.end();
        self.serve()
    }

    fn tls(&self) -> Tls {
        let (cert, key) = (self.file("client.crt"), self.file("client.key"));
        Tls::load(Some(&self.file("client-ca.crt")), Some((&cert, &key))).unwrap()
    }
}

fn client(server: &Coordinator, tls: Tls) -> Client {
    let address = server.address.parse().unwrap();
    Client::with_config(&Config { address, deadline: PATIENCE, tls: Some(tls), ..Config::default() }).unwrap()
}

async fn get(client: &Client) -> Result<u32, pausewatch::client::Error> {
    let answer = client.get_pause_state(GetPauseStateRequest { thread_id: "t".into() }).await;
    answer.map(|answer| answer.pause_state.unwrap().count)
}

/// Calls until the client refuses the certificate of the server: on a busy machine, a handshake may end by its timeout instead.
async fn refuses_the_server(client: &Client) {
    let client = client.with_deadline(Duration::from_secs(2));
    let refusal = async { while !get(&client).await.unwrap_err().to_string().contains("UnknownIssuer") {} };
    timed("the refusal of the server", refusal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_comes_back_with_renewed_certificates() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let site = Site::of(&old);
    let server = site.serve();
    let client = client(&server, site.tls());
    let mut watch = client.watch();
    watch.add("t").unwrap();
    let controller = StopwatchController::new(client.clone());
    let stopwatch = Stopwatch::unlimited();
    let _registered = controller.register("t", &stopwatch).unwrap();
    assert_eq!(get(&client).await.unwrap(), 0);
    timed("the first states", async { while !matches!(watch.next().await, Event::SnapshotComplete) {} }).await;

    site.renew("server", &new);
    site.renew("client", &new);
    let _server = site.restart(server);
    let hold = timed("a hold", client.hold("t").open()).await.unwrap();
    assert_eq!(get(&client).await.unwrap(), 1);
    timed("the pause in the watch", async {
        while !matches!(watch.next().await, Event::State(update) if update.state.count == 1) {}
    })
    .await;
    timed("the pause of the stopwatch", async {
        while !stopwatch.is_paused() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    hold.release().await.unwrap();
}

/// Certificates that were given as text do not follow the files, and no client accepts a server of another authority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_texts_stay_and_are_verified() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let site = Site::of(&old);
    let server = site.serve();
    let text = |name: &str| std::fs::read_to_string(site.file(name)).unwrap();
    let identity = (text("client.crt"), text("client.key"));
    let tls = Tls::from_pem(Some(&text("client-ca.crt")), Some((&identity.0, &identity.1))).unwrap();
    let of_texts = client(&server, tls);
    let of_files = client(&server, site.tls());
    assert_eq!((get(&of_texts).await.unwrap(), get(&of_files).await.unwrap()), (0, 0));
    site.renew("server", &new);
    let server = site.restart(server);
    for client in [&of_texts, &of_files] {
        refuses_the_server(client).await;
    }
    site.renew("server", &old);
    site.renew("client", &new);
    let _server = site.restart(server);
    assert_eq!(get(&of_texts).await.unwrap(), 0);
    // It trusts the new authority alone.
    refuses_the_server(&of_files).await;
}

/// Makes a file invalid.
type Break = fn(&Path, &Authority);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_files_keep_the_last_good_certificates() {
    let (first, authority, other) = (Authority::new("first"), Authority::new("second"), Authority::new("other"));
    let site = Site::of(&first);
    let mut server = site.serve();
    let client = client(&server, site.tls());
    assert_eq!(get(&client).await.unwrap(), 0);
    site.renew("server", &authority);
    site.renew("client", &authority);
    server = site.restart(server);
    assert_eq!(get(&client).await.unwrap(), 0, "it keeps the last valid certificates");
    let breaks: [(&str, Break); 4] = [
        ("client-ca.crt", |path, _| std::fs::write(path, "half of").unwrap()),
        ("client-ca.crt", |path, _| std::fs::remove_file(path).unwrap()),
        ("client.crt", |path, _| {
            let pem = std::fs::read_to_string(path).unwrap();
            std::fs::write(path, &pem[..pem.len() / 2]).unwrap();
        }),
        ("client.key", |path, other| std::fs::write(path, other.issue().key).unwrap()),
    ];
    for (name, wrong) in breaks {
        let before = std::fs::read(site.file(name)).unwrap();
        wrong(&site.file(name), &other);
        server = site.restart(server);
        assert_eq!(get(&client).await.unwrap(), 0, "{name}");
        std::fs::write(site.file(name), before).unwrap();
    }
}

/// An exec server logs the problem each time it comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_is_one_warning_for_each_problem() {
    let authority = Authority::new("one");
    let site = Site::of(&authority);
    let mut server = site.serve();
    let asker = client(&server, site.tls());
    site.renew("exec-server", &authority);
    let (ca, log) = (site.file("exec-server-ca.crt"), site.file("log"));
    let mut command = exec_server(["--address", &server.address]);
    command.arg("--tls-ca").arg(&ca).stderr(std::fs::File::create(&log).unwrap());
    command.arg("--tls-cert").arg(site.file("exec-server.crt")).arg("--tls-key").arg(site.file("exec-server.key"));
    let mut agent = exec_server::client::Client::start(command);
    let running = agent.begin("shell", "t", json!({"command": "sleep 600", "workdir": site.directory.path()}));
    let watched = async || {
        let request = || GetPauseStateRequest { thread_id: "t".into() };
        timed("the watch", async {
            while asker.get_pause_state(request()).await.unwrap().pause_state.unwrap().watchers == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    watched().await;
    let breaks: [&dyn Fn(); 3] = [&|| std::fs::write(&ca, "half of").unwrap(), &|| {}, &|| {
        authority.write(&ca);
        std::fs::copy(site.file("server.key"), site.file("exec-server.key")).unwrap();
    }];
    for wrong in breaks {
        wrong();
        server = site.restart(server);
        watched().await;
    }
    assert!(!agent.has_answered(running), "the command is still running");
    let said = std::fs::read_to_string(&log).unwrap();
    let warnings: Vec<_> =
        said.lines().filter(|line| line.contains("still using the last good certificates")).collect();
    let [no_pem, mismatch] = warnings[..] else { panic!("expected one warning for each problem: {said}") };
    let why = format!("tls_ca {}: it contains no certificate in PEM format; still", ca.display());
    assert!(no_pem.contains(&why), "{no_pem}");
    assert!(mismatch.contains("exec-server.key: keys may not be consistent: KeyMismatch; still"), "{mismatch}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_warns_once_that_a_file_is_wrong() {
    let authority = Authority::new("one");
    let site = Site::of(&authority);
    let mut server = site.serve();
    let [ca, cert, key] = ["client-ca.crt", "client.crt", "client.key"].map(|name| site.file(name));
    let start = |args: &[&str]| {
        let mut command = program();
        command.args(args).env("PAUSEWATCH_ADDRESS", &server.address).env("PAUSEWATCH_THREAD_ID", "t");
        command.env("PAUSEWATCH_TLS_CA", &ca).env("PAUSEWATCH_TLS_CERT", &cert).env("PAUSEWATCH_TLS_KEY", &key);
        Process::start(command)
    };
    let commands = [
        ("watch", start(&["watch", "--output", "json"])),
        ("hold", start(&["hold", "--ttl", "15s", "--", "sleep", "600"])),
        ("run", start(&["run", "60", "sleep", "600"])),
    ];
    let asker = client(&server, site.tls());
    let all_connected = async || {
        let request = || GetPauseStateRequest { thread_id: "t".into() };
        timed("a hold and two watches", async {
            loop {
                let state = asker.get_pause_state(request()).await.unwrap().pause_state.unwrap();
                if (state.count, state.watchers) == (1, 2) {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    all_connected().await;
    std::fs::write(&ca, "half of").unwrap();
    server = site.restart(server);
    for (name, process) in commands {
        let why =
            format!("tls_ca {}: it contains no certificate in PEM format; still using the last good", ca.display());
        let warning = format!("pausewatch {name}: warning: {why}");
        let mut line = process.error_line();
        while !line.starts_with(&warning) {
            // Only the report of the lost connection may precede it.
            assert!(!line.contains("tls_ca"), "{line}");
            line = process.error_line();
        }
    }
    drop(server);
}
