//! Certificates that are renewed by another authority while replicas run: the old ones would no longer be accepted.
use crate::caller::{Caller, health};
use crate::etcd::Etcd;
use crate::program::{Ended, ended, program};
use crate::proxy::{Mode, Proxy};
use crate::support::certs::Authority;
use crate::support::{PATIENCE, Process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The files of all servers, in one directory.
struct Files {
    directory: tempfile::TempDir,
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(authority: &Authority) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (ca, cert, key) = write(directory.path(), authority);
        Files { directory, ca, cert, key }
    }

    fn renew(&self, authority: &Authority) {
        write(self.directory.path(), authority);
    }

    /// `serve` as a replica of this fleet.
    fn replica(&self, etcd: &str, prefix: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", "etcd"]);
        command.args(["--etcd-endpoints", etcd, "--etcd-prefix", prefix]);
        command
    }
}

fn write(directory: &Path, authority: &Authority) -> (PathBuf, PathBuf, PathBuf) {
    let (cert, key) = authority.issue().write(directory, "server");
    (authority.write(&directory.join("ca.crt")), cert, key)
}

// The proxy needs a thread while the test waits for the start of the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_reaches_etcd_with_renewed_certificates() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = Files::of(&old);
    // etcd reads its own certificate for each connection, but the authorities of its clients only once.
    let both = files.directory.path().join("both.crt");
    let pem = |authority: &Authority| authority.itself().cert;
    std::fs::write(&both, pem(&old) + &pem(&new)).expect("a file");
    let Some(etcd) = Etcd::with_tls(&files.cert, &files.key, &both) else { return };
    let way = Proxy::start(vec![etcd.url.trim_start_matches("https://").to_owned()]).await;
    let mut command = files.replica(&format!("https://{}", way.address), "renewed-etcd");
    command.arg("--etcd-ca").arg(&files.ca).arg("--etcd-cert").arg(&files.cert).arg("--etcd-key").arg(&files.key);
    let mut replica = Process::start(command);
    replica.listen();
    let caller = Caller::new(std::slice::from_ref(&replica.address));
    assert_eq!(caller.increment("a", "1").await.0, 1);

    files.renew(&new);
    way.set(Mode::Cut);
    let is_fresh = async || health(&replica.address, "pausewatch.v1.ElicitationService").await;
    let give_up = Instant::now() + PATIENCE;
    while is_fresh().await.as_deref() == Some("SERVING") {
        assert!(Instant::now() < give_up, "the replica does not reload its certificates");
        sleep(Duration::from_millis(20)).await;
    }
    way.set(Mode::Whole);
    assert_eq!(caller.increment("a", "2").await.0, 2);
}

/// When one replica is killed, the other two must reach each other with the new certificates.
#[test]
fn replicas_reach_each_other_with_renewed_certificates() {
    let Some(etcd) = Etcd::shared() else { return };
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = Files::of(&old);
    let start = || {
        let mut command = files.replica(&etcd.url, "renewed-peers");
        command.arg("--tls-cert").arg(&files.cert).arg("--tls-key").arg(&files.key);
        command.arg("--tls-client-ca").arg(&files.ca).arg("--peer-ca").arg(&files.ca);
        let mut replica = Process::start(command);
        replica.listen();
        replica
    };
    let ask = |replica: &Process, args: &[&str]| {
        let mut command = program();
        command.args(args).args(["--address", &replica.address]);
        command.arg("--tls-ca").arg(&files.ca).arg("--tls-cert").arg(&files.cert).arg("--tls-key").arg(&files.key);
        ended(&mut command)
    };
    let serves = |replica: &Process, service: &str| {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let Ended { status, err, .. } = ask(replica, &["health", "--service", service]);
            if status.success() {
                return;
            }
            assert!(Instant::now() < give_up, "{}: {err}", replica.address);
        }
    };
    let leader = start();
    serves(&leader, "pausewatch.Leader");
    let others = [start(), start()];
    others.iter().for_each(|other| serves(other, "pausewatch.v1.ElicitationService"));

    files.renew(&new);
    others.iter().for_each(|other| serves(other, "pausewatch.v1.ElicitationService"));
    leader.kill();
    for (other, count) in others.iter().zip(["1", "2"]) {
        let increment = ["increment", "--thread-id", "a", "--request-id", count, "--output", "json"];
        let give_up = Instant::now() + PATIENCE;
        loop {
            let Ended { out, err, .. } = ask(other, &increment);
            if out.contains(&format!("\"count\": {count}")) {
                break;
            }
            assert!(Instant::now() < give_up, "{out}{err}");
        }
    }
}
