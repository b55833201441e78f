//! An etcd for tests.
use crate::support::{PATIENCE, Port, skipped};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running etcd. It is killed when its standard input ends: when this is dropped, and when the test program ends.
pub(crate) struct Etcd {
    child: Child,
    _directory: TempDir,
    _ports: [Port; 2],
    pub(crate) url: String,
}

impl Etcd {
    /// One that all tests share; each test uses its own prefix. `None`: skipped.
    pub(crate) fn shared() -> Option<&'static Etcd> {
        static SHARED: OnceLock<Option<Etcd>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| is_installed().then(|| Etcd::start(&[])));
        report(shared.is_some());
        shared.as_ref()
    }

    /// Starts one with these options. `None`: skipped.
    pub(crate) fn own(options: &[&str]) -> Option<Etcd> {
        let is_installed = is_installed();
        report(is_installed);
        is_installed.then(|| Etcd::start(options))
    }

    /// Starts one that uses TLS, with these files.
    pub(crate) fn with_tls(cert: &Path, key: &Path, client_ca: &Path) -> Option<Etcd> {
        let [cert, key, ca] = [cert, key, client_ca].map(|path| path.to_str().expect("it is text"));
        let mut etcd =
            Etcd::own(&["--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", ca])?;
        etcd.url = etcd.url.replace("http:", "https:");
        Some(etcd)
    }

    /// Waits until it answers.
    pub(crate) fn answers(&self) {
        let give_up = Instant::now() + PATIENCE;
        let url = format!("{}/version", self.url);
        while !Command::new("curl").args(["-sf", &url]).output().expect("curl is installed").status.success() {
            assert!(Instant::now() < give_up, "etcd does not answer");
            sleep(Duration::from_millis(20));
        }
    }

    fn start(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let scheme = if options.contains(&"--cert-file") { "https" } else { "http" };
        let ports = [(); 2].map(|()| Port::reserve().expect("a free port"));
        let [client, peer] = ports.each_ref().map(|port| port.address);
        let (client, peer) = (format!("{scheme}://{client}"), format!("http://{peer}"));
        let mut command = Command::new("sh");
        // However the test ends, its end closes the pipe.
        command.args(["-c", "etcd \"$@\" & read -r _; kill -9 $!", "etcd", "--name", "one", "--data-dir"]);
        command.arg(directory.path());
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("one={peer}"), "--log-level", "error"]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sh is there");
        Etcd { child, _directory: directory, _ports: ports, url: client }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

pub(crate) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

pub(crate) fn report(is_installed: bool) {
    if !is_installed {
        skipped("etcd", "the program etcd is not installed (Debian: etcd-server)");
    }
}
