//! The messages of a replica that cannot start, and a start with certificates.
use crate::caller::Caller;
use crate::etcd::Etcd;
use crate::program::Process as Started;
use crate::support::certs::Authority;
use crate::support::{PATIENCE, Process};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn serve(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pausewatch"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", "etcd"]).args(options);
    command
}

/// The message of a server that does not start.
pub(crate) fn refusal(options: &[&str], code: i32) -> String {
    let Output { status, stderr, stdout } = serve(options).output().expect("the program starts");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), stdout.len()), (Some(code), 0), "{said}");
    said.lines().last().expect("it says why").to_owned()
}

#[test]
fn without_an_etcd_a_start_says_what_was_tried() {
    let said = refusal(&["--etcd-endpoints", "http://127.0.0.1:1,http://localhost:2"], 1);
    for part in ["http://127.0.0.1:1: ", "http://localhost:2: ", "Connection refused", "5 s", "--etcd-endpoints"] {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    for (options, expected) in [
        (&[][..], "--store etcd needs --etcd-endpoints"),
        (&["--etcd-endpoints", "localhost:2379"], "http://HOST:PORT"),
        (&["--etcd-endpoints", "http://localhost:2379", "--etcd-prefix", "/"], "besides slashes"),
        (&["--etcd-endpoints", "http://localhost:2379", "--advertise", "here"], "HOST:PORT"),
        (&["--etcd-endpoints", "http://localhost:2379", "--etcd-ca", "x"], "need https"),
        (&["--etcd-endpoints", "https://localhost:2379", "--etcd-ca", "/none"], "--etcd-ca /none"),
    ] {
        let Output { status, stderr, .. } = serve(options).output().expect("the program starts");
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!status.success() && said.contains(expected), "{options:?}: {said}");
    }
}

#[test]
fn an_etcd_with_the_wrong_certificate_is_not_trusted_and_one_with_the_right_one_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let (authority, other) = (Authority::new("etcd's"), Authority::new("another"));
    let (cert, key) = authority.issue().write(directory.path(), "etcd");
    let ca = authority.write(&directory.path().join("ca.crt"));
    let wrong = other.write(&directory.path().join("wrong.crt"));
    let Some(etcd) = Etcd::with_tls(&cert, &key, &ca) else { return };
    let [cert, key, ca, wrong] = [&cert, &key, &ca, &wrong].map(|path| path.to_str().expect("it is text"));
    let with = |ca| ["--etcd-endpoints", &etcd.url, "--etcd-ca", ca, "--etcd-cert", cert, "--etcd-key", key];
    let process = Process::start(serve(&with(ca)));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let call = async { Caller::new(std::slice::from_ref(&process.address)).increment("a", "1").await };
    assert_eq!(runtime.block_on(call).0, 1);
    // On a busy machine, the handshake may not end within the time that a start waits.
    let said = std::iter::repeat_with(|| refusal(&with(wrong), 1)).find(|said| !said.contains("not finished"));
    let said = said.expect("it repeats until the handshake ends");
    assert!(said.contains(&etcd.url) && said.contains("certificate") && said.contains("--etcd-ca"), "{said}");
}

/// Each would have its own leader.
#[test]
fn members_of_different_clusters_are_refused() {
    let (Some(one), Some(other)) = (Etcd::own(&[]), Etcd::own(&[])) else { return };
    one.answers();
    other.answers();
    let said = refusal(&["--etcd-endpoints", &format!("{},{}", one.url, other.url)], 1);
    for part in [&*one.url, &other.url, "different clusters", "--etcd-endpoints"] {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}

#[test]
fn a_replica_says_why_it_does_not_reach_the_leader() {
    let Some(etcd) = Etcd::shared() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let (cert, key) = Authority::new("nobody's").issue().write(directory.path(), "replica");
    let [cert, key] = [&cert, &key].map(|path| path.to_str().expect("it is text"));
    let options = ["--etcd-endpoints", &etcd.url, "--etcd-prefix", "unreached", "--tls-cert", cert, "--tls-key", key];
    let says = |replica: &Started, what: &str| {
        loop {
            let line = replica.error_line();
            if line.contains(what) {
                return line;
            }
        }
    };
    let leader = Started::start(serve(&options));
    let address = leader.line().replace("listening ", "");
    says(&leader, "this replica leads");
    let warning = says(&Started::start(serve(&options)), "the leader is not reached");
    for part in [address.trim(), "certificate", "--peer-ca"] {
        assert!(warning.contains(part), "{warning:?} does not say {part:?}");
    }
}

/// An etcd that refuses all writes. `None`: skipped.
pub(crate) fn full() -> Option<Etcd> {
    let etcd = Etcd::own(&["--quota-backend-bytes", "300000"])?;
    fill(&etcd);
    Some(etcd)
}

/// Writes until etcd has no space left.
pub(crate) fn fill(etcd: &Etcd) {
    let value = "QUFB".repeat(10_000);
    let put = |number: usize| {
        // etcd's own JSON gateway; the key is base64 too.
        let body = format!("{{\"key\": \"a{number:03}\", \"value\": \"{value}\"}}");
        let url = format!("{}/v3/kv/put", etcd.url);
        // Until it listens. With `--retry`, curl would also retry for 20 s when etcd reports that it is full.
        let give_up = Instant::now() + PATIENCE;
        loop {
            let output = Command::new("curl").args(["-sS", "-d", &body, &url]).output().expect("curl is installed");
            let answer = String::from_utf8_lossy(&output.stdout).into_owned();
            // While etcd starts, its gateway may answer that etcd is unavailable.
            if output.status.success() && (answer.contains("space exceeded") || !answer.contains("\"error\"")) {
                return answer;
            }
            assert!(Instant::now() < give_up, "{output:?}");
            sleep(Duration::from_millis(20));
        }
    };
    let refused = (0..200).map(put).find(|answer| answer.contains("space exceeded"));
    assert!(refused.is_some(), "etcd does not become full");
}

#[test]
fn a_full_etcd_is_refused_with_what_to_do() {
    let Some(etcd) = full() else { return };
    let said = refusal(&["--etcd-endpoints", &etcd.url], 1);
    for part in [&*etcd.url, "no space left", "defragment", "alarm disarm"] {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}
